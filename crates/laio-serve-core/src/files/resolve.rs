//! From the path of a request to the name of a file below the root.

use crate::site::Rules;
use laio_http::path::Normal;
use laio_http::{Rejection, RequestPath, Status};

/// The kind of name that a target resolves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The target ends in a slash, so the name must be a directory.
    pub directory: bool,
}

/// The reason why a target cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The target is malformed.
    Rejected(Rejection),
    /// The target is well-formed, but the response must be that nothing is there.
    NotFound,
}

/// Writes the name of the file to `name`, relative to the root, without leading or trailing slash.
pub fn resolve(
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
        // Dot files more often hold configuration and secrets than pages.
        return Err(Refusal::NotFound);
    }
    Ok(Resolved {
        directory: trailing_slash,
    })
}

/// Appends a file name to the name of its directory.
pub fn enter(name: &mut Vec<u8>, file: &[u8]) {
    if !name.is_empty() {
        name.push(b'/');
    }
    name.extend_from_slice(file);
}

impl Refusal {
    pub fn status(self) -> Status {
        match self {
            Refusal::Rejected(rejection) => rejection.status(),
            Refusal::NotFound => Status::NOT_FOUND,
        }
    }

    pub fn detail(self) -> &'static str {
        match self {
            Refusal::Rejected(rejection) => rejection.detail(),
            Refusal::NotFound => "There is nothing under this name.",
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
