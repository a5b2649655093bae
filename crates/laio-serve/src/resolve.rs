//! Step 3: from the path of a request to the name of a file below the root.

use crate::site::Rules;
use laio_http::path::Normal;
use laio_http::{Rejection, RequestPath, Status};

/// What a target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The target ended in a slash: the name is that of a directory.
    pub(crate) directory: bool,
}

/// Why a target names nothing that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The target is malformed.
    Rejected(Rejection),
    /// It is well-formed and must look as if there were nothing.
    Absent,
}

/// Puts the name of the file to open into `name`, relative to the root, without an outer slash.
pub(crate) fn resolve(
    rules: &Rules,
    path: &RequestPath<'_>,
    name: &mut Vec<u8>,
) -> Result<Resolved, Refusal> {
    let Normal {
        trailing_slash,
        hidden,
        ..
    } = path.file_name(name).map_err(Refusal::Rejected)?;
    if hidden && !rules.serves_dotfiles {
        // Dot files are configuration and secrets more often than pages.
        return Err(Refusal::Absent);
    }
    Ok(Resolved {
        directory: trailing_slash,
    })
}

/// Adds the name of a file to that of its directory.
pub(crate) fn enter(name: &mut Vec<u8>, file: &[u8]) {
    if !name.is_empty() {
        name.push(b'/');
    }
    name.extend_from_slice(file);
}

/// Status and sentence of a refusal.
impl Refusal {
    pub(crate) fn status(self) -> Status {
        match self {
            Refusal::Rejected(rejection) => rejection.status(),
            Refusal::Absent => Status::NOT_FOUND,
        }
    }

    pub(crate) fn detail(self) -> &'static str {
        match self {
            Refusal::Rejected(rejection) => rejection.detail(),
            Refusal::Absent => "There is nothing under this name.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_its_directory() {
        let entered = |directory: &[u8]| {
            let mut name = directory.to_vec();
            enter(&mut name, b"index.html");
            String::from_utf8(name).unwrap()
        };
        assert_eq!(entered(b""), "index.html");
        assert_eq!(entered(b"docs"), "docs/index.html");
    }
}
