//! The `If` field (RFC 4918, section 10.4): conditions with lock tokens and entity tags.

use crate::uploads::problem::Problem;
use laio_http::Status;

/// A parsed field: lists, of which one must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IfField {
    pub(super) lists: Vec<List>,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    /// The address of the resource that the conditions are about, if it is not that of the request.
    pub(super) resource: Option<String>,
    pub(super) conditions: Vec<Condition>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) not: bool,
    pub(super) what: State,
}

/// What a condition names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Token(String),
    /// An entity tag as it is written.
    Tag(String),
}

/// Conditions of one field. davfs2 sends the tokens of all its locks.
const CONDITIONS_MAX: usize = 512;

impl IfField {
    /// Parses the value of the field.
    pub(super) fn parse(value: &[u8]) -> Result<IfField, Problem> {
        let bad = || Problem::new(Status::BAD_REQUEST, "The If field is malformed.");
        let text = std::str::from_utf8(value).map_err(|_| bad())?;
        let (mut lists, mut resource, mut count) = (Vec::new(), None, 0);
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if let Some(address) = rest.strip_prefix('<') {
                let (address, after) = address.split_once('>').ok_or_else(bad)?;
                resource = Some(address.to_owned());
                rest = after.trim_start();
                if !rest.starts_with('(') {
                    return Err(bad());
                }
                continue;
            }
            rest = rest.strip_prefix('(').ok_or_else(bad)?.trim_start();
            let mut conditions = Vec::new();
            loop {
                if let Some(after) = rest.strip_prefix(')') {
                    rest = after.trim_start();
                    break;
                }
                let (condition, after) = condition(rest).ok_or_else(bad)?;
                conditions.push(condition);
                rest = after.trim_start();
                count += 1;
                if count > CONDITIONS_MAX {
                    return Err(bad());
                }
            }
            if conditions.is_empty() {
                return Err(bad());
            }
            lists.push(List {
                resource: resource.clone(),
                conditions,
            });
        }
        if lists.is_empty() {
            Err(bad())
        } else {
            Ok(IfField { lists })
        }
    }

    /// Returns all tokens of the field, which the client submits with it.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &str> {
        let conditions = self.lists.iter().flat_map(|list| &list.conditions);
        conditions.filter_map(|condition| match &condition.what {
            State::Token(token) => Some(token.as_str()),
            State::Tag(_) => None,
        })
    }
}

fn condition(text: &str) -> Option<(Condition, &str)> {
    let (not, text) = match text.get(..3) {
        Some(word) if word.eq_ignore_ascii_case("not") => (true, text[3..].trim_start()),
        _ => (false, text),
    };
    let (what, rest) = if let Some(token) = text.strip_prefix('<') {
        let (token, rest) = token.split_once('>')?;
        (State::Token(token.to_owned()), rest)
    } else {
        let (tag, rest) = text.strip_prefix('[')?.split_once(']')?;
        (State::Tag(tag.to_owned()), rest)
    };
    Some((Condition { not, what }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<IfField> {
        IfField::parse(text.as_bytes()).ok()
    }

    #[test]
    fn lists_and_conditions() {
        let field = parsed("(<urn:a> [\"t\"]) (Not <DAV:no-lock>)").unwrap();
        assert_eq!(field.lists.len(), 2);
        assert_eq!(field.lists[0].resource, None);
        assert_eq!(
            field.lists[0].conditions[1].what,
            State::Tag("\"t\"".to_owned())
        );
        assert!(field.lists[1].conditions[0].not);
        assert_eq!(field.tokens().collect::<Vec<_>>(), ["urn:a", "DAV:no-lock"]);
        let tagged = parsed("<http://a/b>(<urn:a>)(<urn:b>) </c> ([W/\"x\"])").unwrap();
        let resources: Vec<_> = tagged
            .lists
            .iter()
            .map(|it| it.resource.as_deref())
            .collect();
        assert_eq!(
            resources,
            [Some("http://a/b"), Some("http://a/b"), Some("/c")]
        );
    }

    #[test]
    fn malformed_fields() {
        for bad in [
            "",
            "()",
            "(",
            "<a>",
            "(<a>",
            "(<a)",
            "([\"a\")",
            "x",
            "(x)",
            "<a> <b> (<c>)",
            "(Not)",
            "(\u{e9})",
        ] {
            assert!(parsed(bad).is_none(), "{bad}");
        }
        let many = |count: usize| format!("({})", "<a>".repeat(count));
        assert!(
            parsed(&many(CONDITIONS_MAX)).is_some() && parsed(&many(CONDITIONS_MAX + 1)).is_none()
        );
    }
}
