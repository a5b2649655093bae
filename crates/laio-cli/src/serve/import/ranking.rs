//! The paths of a location, and how early nginx asks it.

use super::parser::Directive;
use super::patterns::{self, Paths};
use std::cmp::Reverse;

/// The paths of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Exact(String),
    Prefix(String),
    Regex(Paths),
    Named,
    /// A regular expression that globs cannot say.
    Other,
}

/// Whether a location is that of all paths.
pub(super) fn is_slash(location: &Directive) -> bool {
    pattern(location).0 == Pattern::Prefix("/".to_owned())
}

/// Returns the pattern of a location, and its text.
pub(super) fn pattern(location: &Directive) -> (Pattern, &str) {
    let (operator, text) = match &location.words[..] {
        [operator, text] => (&**operator, &**text),
        [text] => {
            let glued = ["^~", "~*", "~", "="]
                .iter()
                .find_map(|it| Some((*it, text.strip_prefix(it)?)));
            glued.unwrap_or(("", text))
        }
        _ => return (Pattern::Other, ""),
    };
    let pattern = match operator {
        "=" if text.starts_with('/') => Pattern::Exact(text.to_owned()),
        "" if text.starts_with('@') => Pattern::Named,
        "" | "^~" if text.starts_with('/') => Pattern::Prefix(text.to_owned()),
        "~" | "~*" => patterns::paths(text).map_or(Pattern::Other, Pattern::Regex),
        _ => Pattern::Other,
    };
    (pattern, text)
}

/// How early nginx asks a location: its class, the length of its prefix, and its place among all.
pub(super) type Rank = (u8, Reverse<usize>, usize);

/// The rank of what is not in a location.
pub(super) const OUTSIDE: Rank = (0, Reverse(0), 0);

/// Returns the globs of the paths of a location; none if globs cannot say them.
pub(super) fn globs(pattern: &Pattern) -> Vec<String> {
    match pattern {
        Pattern::Exact(path) => vec![patterns::escaped(path)],
        Pattern::Prefix(prefix) => patterns::of_prefix(prefix),
        Pattern::Regex(Paths::Globs(globs)) => globs.clone(),
        Pattern::Regex(Paths::Scripts(names)) => {
            names.iter().map(|name| format!("*.{name}")).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the rank of a location: nginx asks exact paths first, then the longest prefix if it has `^~`,
/// then the first regular expression, then the longest prefix.
pub(super) fn rank(location: &Directive, pattern: &Pattern, place: usize) -> Rank {
    let is_final = location
        .words
        .first()
        .is_some_and(|word| word.starts_with("^~"));
    match pattern {
        Pattern::Exact(_) => (1, Reverse(0), place),
        Pattern::Prefix(prefix) if is_final => (2, Reverse(prefix.len()), place),
        Pattern::Prefix(prefix) => (4, Reverse(prefix.len()), place),
        _ => (3, Reverse(0), place),
    }
}

/// Whether an alias is the directory that the root has for the path anyway.
pub(super) fn is_below(alias: &str, root: &str, path: &str) -> bool {
    let usual = format!("{}{path}", root.trim_end_matches('/'));
    path.starts_with('/') && usual.trim_end_matches('/') == alias.trim_end_matches('/')
}
