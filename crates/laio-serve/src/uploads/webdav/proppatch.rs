//! Setting properties (PROPPATCH). Only the modification time can be set; dead properties are not kept.

use super::multi_status::MultiStatus;
use super::properties::push_name;
use super::xml::{Element, XmlName};
use super::{document, status_of};
use crate::request::body::ClientBody;
use crate::request::response::RequestContext;
use crate::uploads::Done;
use crate::uploads::disk::Disk;
use crate::uploads::problem::Problem;
use crate::uploads::target::Target;
use laio::ops::{SetTimes, Timestamp};
use laio_http::{Status, date};

/// The namespace of the properties that Windows sets.
const WINDOWS: &str = "urn:schemas-microsoft-com:";

/// What becomes of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The modification time, in seconds since 1970.
    Modified(i64),
    /// Confirmed, without an effect: Windows reports an error for each file if it may not set these.
    Ignored,
    Refused,
}

/// Answers a PROPPATCH request: sets all properties or none.
pub(in crate::uploads) async fn proppatch(
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    name: &[u8],
    body: &mut ClientBody<'_>,
) -> Result<Done, Problem> {
    let bad = || {
        let text = "The body is not a propertyupdate element.";
        Problem::new(Status::BAD_REQUEST, text)
    };
    let root = document(body).await?.ok_or_else(bad)?;
    if !root.name.is("propertyupdate") {
        return Err(bad());
    }
    let status = status_of(disk, ctx.site, name).await?;
    let status = status.ok_or(Problem::NOT_FOUND)?;
    let fates = fates(&root);
    let refused = fates.iter().any(|(_, fate)| *fate == Fate::Refused);
    let modified = fates.iter().rev().find_map(|(_, fate)| match fate {
        Fate::Modified(seconds) => Some(*seconds),
        _ => None,
    });
    if let Some(seconds) = modified.filter(|_| !refused) {
        let time = Timestamp {
            seconds,
            nanoseconds: 0,
        };
        let target = Target::open(disk, ctx.site, name).await?;
        // Of a link that is the link itself.
        let set = SetTimes::named(target.at(), None, Some(time));
        disk.names(set).await?;
    }
    let mut response = MultiStatus::new();
    response.begin(name, status.is_dir());
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (name, fate) in &fates {
        match fate {
            Fate::Refused => push_name(&mut bad, name),
            _ => push_name(&mut good, name),
        }
    }
    let status = if refused {
        Status::FAILED_DEPENDENCY
    } else {
        Status::OK
    };
    response.properties(&good, status);
    response.properties(&bad, Status::FORBIDDEN);
    response.end();
    Ok(response.done())
}

/// Decides about each property of the request.
fn fates(root: &Element) -> Vec<(XmlName, Fate)> {
    let mut fates = Vec::new();
    for instruction in &root.children {
        let sets = instruction.name.is("set");
        if !sets && !instruction.name.is("remove") {
            continue;
        }
        let properties = instruction.children.iter().filter(|it| it.name.is("prop"));
        for property in properties.flat_map(|it| &it.children) {
            let fate = if sets { set(property) } else { Fate::Refused };
            fates.push((property.name.clone(), fate));
        }
    }
    fates
}

fn set(property: &Element) -> Fate {
    let name = &property.name;
    let windows = name.namespace == WINDOWS;
    let is_time = name.is("getlastmodified") || (windows && name.local == "Win32LastModifiedTime");
    if is_time {
        let seconds = date::parse(property.text.trim().as_bytes());
        return seconds.map_or(Fate::Refused, Fate::Modified);
    }
    let ignored = [
        "Win32CreationTime",
        "Win32LastAccessTime",
        "Win32FileAttributes",
    ];
    if windows && ignored.contains(&name.local.as_str()) {
        Fate::Ignored
    } else {
        Fate::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::super::xml::parse;
    use super::*;

    #[test]
    fn what_becomes_of_properties() {
        let text = "<propertyupdate xmlns=\"DAV:\" xmlns:Z=\"urn:schemas-microsoft-com:\"><set><prop>\
                    <Z:Win32LastModifiedTime>Sun, 06 Nov 1994 08:49:37 GMT</Z:Win32LastModifiedTime>\
                    <Z:Win32FileAttributes>00000020</Z:Win32FileAttributes><getetag>x</getetag>\
                    <getlastmodified>soon</getlastmodified></prop></set>\
                    <remove><prop><a xmlns=\"urn:a\"/></prop></remove></propertyupdate>";
        let root = parse(text.as_bytes()).unwrap().unwrap();
        let fates: Vec<_> = fates(&root).into_iter().map(|(_, fate)| fate).collect();
        assert_eq!(
            fates,
            [
                Fate::Modified(784_111_777),
                Fate::Ignored,
                Fate::Refused,
                Fate::Refused,
                Fate::Refused
            ]
        );
    }
}
