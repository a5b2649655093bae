//! Step 3: from the target of a request to the name of a file below the root.

use laio_http::path::{self, Normal};
use laio_http::{Rejection, Status};

/// The file served for a directory.
pub(crate) const INDEX: &str = "index.html";

/// What a target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The target ended in a slash: the name is that of the directory's index.
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
pub(crate) fn resolve(target: &str, name: &mut Vec<u8>) -> Result<Resolved, Refusal> {
    let Normal {
        trailing_slash,
        hidden,
        ..
    } = path::normalize(target, name).map_err(Refusal::Rejected)?;
    if hidden {
        // Dot files are configuration and secrets more often than pages.
        return Err(Refusal::Absent);
    }
    if trailing_slash {
        if !name.is_empty() {
            name.push(b'/');
        }
        name.extend_from_slice(INDEX.as_bytes());
    }
    Ok(Resolved {
        directory: trailing_slash,
    })
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

    fn name(target: &str) -> Result<String, u16> {
        let mut name = Vec::new();
        match resolve(target, &mut name) {
            Ok(_) => Ok(String::from_utf8(name).unwrap()),
            Err(refusal) => Err(refusal.status().code()),
        }
    }

    #[test]
    fn names_files_and_indexes() {
        assert_eq!(name("/").as_deref(), Ok("index.html"));
        assert_eq!(name("/docs/").as_deref(), Ok("docs/index.html"));
        assert_eq!(name("/a/../b//c.txt").as_deref(), Ok("b/c.txt"));
        assert_eq!(name("/docs").as_deref(), Ok("docs"));
    }

    #[test]
    fn refuses_what_is_not_to_be_seen() {
        assert_eq!(name("/../etc/passwd"), Err(400));
        assert_eq!(name("/.git/config"), Err(404));
        assert_eq!(name("/a%00b"), Err(400));
    }
}
