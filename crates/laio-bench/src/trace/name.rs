//! Converts between the target of a request and the name of its file.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The index file of a directory.
const INDEX: &str = "index.html";
/// The characters that are encoded in a target.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// The maximum length of a name in a directory.
const PART_MAX: usize = 255;
/// The maximum length of a path, with space for the served directory.
const NAME_MAX: usize = 3000;

/// Returns the name, below the served directory, of a target's file. Ignores the query.
///
/// # Errors
/// The reason why no file can represent it.
pub fn file_of(target: &str) -> Result<String, &'static str> {
    // Requests to proxies: the part after the host.
    let path = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err("the target is not a path");
    }
    let path = percent_decode_str(path).decode_utf8();
    let path = path.map_err(|_| "the name is not UTF-8")?;
    if path.contains('\0') || path.contains('\n') || path.contains('\r') || path.contains('\t') {
        return Err("the name has control characters");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.iter().any(|part| part.starts_with('.')) {
        return Err("the name begins with a dot");
    }
    let mut name = parts.join("/");
    if path.ends_with('/') {
        if !name.is_empty() {
            name.push('/');
        }
        name.push_str(INDEX);
    }
    if name.len() > NAME_MAX || parts.iter().any(|part| part.len() > PART_MAX) {
        return Err("the name is too long");
    }
    Ok(name)
}

/// Returns the target of a file.
pub fn target_of(name: &str) -> String {
    let directory = match name.strip_suffix(INDEX) {
        Some(directory) if directory.is_empty() || directory.ends_with('/') => directory,
        _ => name,
    };
    format!("/{}", utf8_percent_encode(directory, ESCAPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_names_go_together() {
        for (target, name) in [
            ("/", "index.html"),
            ("/a/b.html", "a/b.html"),
            ("/a/", "a/index.html"),
            ("/a%20b/100%25.txt", "a b/100%.txt"),
            ("/%C3%A9", "é"),
        ] {
            assert_eq!(file_of(target).unwrap(), name);
            assert_eq!(file_of(&target_of(name)).unwrap(), name);
        }
        assert_eq!(file_of("//a//b?c=d").unwrap(), "a/b");
        assert_eq!(file_of("http://host/a#b").unwrap(), "a");
        assert_eq!(file_of("http://host").unwrap(), "index.html");
    }

    #[test]
    fn what_no_file_can_stand_for_is_told() {
        for target in [
            "",
            "*",
            "a",
            "/..",
            "/.git/config",
            "/%00",
            "/%ff",
            "/a%0ab",
        ] {
            assert!(file_of(target).is_err(), "{target}");
        }
        assert!(file_of(&format!("/{}", "a".repeat(256))).is_err());
        assert!(file_of(&"/ab".repeat(2000)).is_err());
    }
}
