//! The properties of files and directories (RFC 4918, section 15; RFC 4331).

use super::lock::push_active_lock;
use super::locks::Lock;
use super::xml::{XmlName, push_text};
use crate::uploads::conditions;
use laio::ops::FileStatus;
use laio_http::{ContentType, HttpDate, date};
use laio_serve_core::request::response::RequestContext;

/// The properties that the server keeps for every resource, by their names in the namespace of WebDAV.
const LIVE: [&str; 9] = [
    "resourcetype",
    "displayname",
    "getcontentlength",
    "getcontenttype",
    "getlastmodified",
    "creationdate",
    "getetag",
    "supportedlock",
    "lockdiscovery",
];

/// Properties that only a request for their names gets.
const EXTRA: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

/// A resource whose properties are asked for.
pub(super) struct Resource<'a> {
    pub(super) name: &'a [u8],
    pub(super) status: &'a FileStatus,
    /// The locks that cover it; none if the site has no locks.
    pub(super) locks: Option<Vec<Lock>>,
    /// Free and used bytes of its file system.
    pub(super) space: Option<(u64, u64)>,
}

impl Resource<'_> {
    /// Returns the names of all properties that the resource has.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        LIVE.into_iter().filter(|name| match *name {
            "getcontentlength" | "getcontenttype" | "getetag" => self.status.is_file(),
            "creationdate" => self.status.created().is_some(),
            "supportedlock" | "lockdiscovery" => self.locks.is_some(),
            _ => true,
        })
    }

    /// Appends a property with its value. Returns false if the resource does not have it.
    pub(super) fn push(&self, ctx: RequestContext<'_>, name: &str, out: &mut Vec<u8>) -> bool {
        let status = self.status;
        let known = LIVE.iter().chain(&EXTRA).find(|own| **own == name);
        let Some(name) = known else { return false };
        let own = LIVE.contains(name) && !self.names().any(|own| own == *name);
        if own {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(format!("<D:{name}>").as_bytes());
        let before = out.len();
        match *name {
            "resourcetype" if status.is_dir() => out.extend_from_slice(b"<D:collection/>"),
            "displayname" => {
                let leaf = self.name.rsplit(|&byte| byte == b'/').next();
                push_text(out, &String::from_utf8_lossy(leaf.unwrap_or_default()));
            }
            "getcontentlength" => out.extend_from_slice(status.size().to_string().as_bytes()),
            "getcontenttype" => {
                let content_type = ContentType::of_path(self.name).to_string();
                out.extend_from_slice(content_type.as_bytes());
            }
            "getlastmodified" => {
                let seconds = date::last_modified(status.modified().seconds, ctx.second);
                push_date(out, seconds);
            }
            "creationdate" => {
                let seconds = status.created().map_or(0, |time| time.seconds);
                out.extend_from_slice(iso_date(seconds).as_bytes());
            }
            "getetag" => {
                // As a GET has it.
                let etag = conditions::etag(status);
                let etag = etag.settled(status.modified().seconds, ctx.second);
                push_text(out, etag.as_str());
            }
            "supportedlock" => {
                for scope in ["exclusive", "shared"] {
                    let entry = format!(
                        "<D:lockentry><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>"
                    );
                    out.extend_from_slice(entry.as_bytes());
                }
            }
            "lockdiscovery" => {
                for lock in self.locks.iter().flatten() {
                    push_active_lock(out, lock);
                }
            }
            "quota-available-bytes" | "quota-used-bytes" => {
                let Some((free, used)) = self.space.filter(|_| status.is_dir()) else {
                    out.truncate(start);
                    return false;
                };
                let bytes = if *name == "quota-available-bytes" {
                    free
                } else {
                    used
                };
                out.extend_from_slice(bytes.to_string().as_bytes());
            }
            _ => {}
        }
        if out.len() == before {
            out.truncate(start);
            out.extend_from_slice(format!("<D:{name}/>").as_bytes());
        } else {
            out.extend_from_slice(format!("</D:{name}>").as_bytes());
        }
        true
    }
}

/// Appends the name of a property, without a value.
pub(super) fn push_name(out: &mut Vec<u8>, name: &XmlName) {
    if name.namespace == super::xml::DAV {
        out.extend_from_slice(format!("<D:{}/>", name.local).as_bytes());
        return;
    }
    let prefix = if name.namespace.is_empty() { "" } else { "x:" };
    let binding = prefix.trim_end_matches(':');
    let colon = if binding.is_empty() { "" } else { ":" };
    out.extend_from_slice(format!("<{prefix}{} xmlns{colon}{binding}=\"", name.local).as_bytes());
    push_text(out, &name.namespace);
    out.extend_from_slice(b"\"/>");
}

fn push_date(out: &mut Vec<u8>, seconds: i64) {
    if let Some(date) = HttpDate::from_unix(seconds) {
        out.extend_from_slice(date.as_bytes());
    }
}

/// Returns a time as RFC 3339 writes it.
fn iso_date(seconds: i64) -> String {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days from civil, backwards: https://howardhinnant.github.io/date_algorithms.html
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(iso_date(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_date(784_111_777), "1994-11-06T08:49:37Z");
        assert_eq!(iso_date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(iso_date(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn names_of_any_namespace() {
        let pushed = |namespace: &str, local: &str| {
            let mut out = Vec::new();
            let name = XmlName {
                namespace: namespace.to_owned(),
                local: local.to_owned(),
            };
            push_name(&mut out, &name);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(pushed("DAV:", "a"), "<D:a/>");
        assert_eq!(pushed("", "a"), "<a xmlns=\"\"/>");
        assert_eq!(pushed("u\"", "a"), "<x:a xmlns:x=\"u&quot;\"/>");
    }
}
