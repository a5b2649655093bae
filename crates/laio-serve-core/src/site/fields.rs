//! Header fields by file name.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use laio_http::ResponseHead;
use laio_serve_base::options::FieldRule;
use laio_serve_base::trace;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The rules of a site, in configured order.
pub struct FieldRules {
    globs: GlobSet,
    rules: Vec<FieldRule>,
}

/// Fields that frame the message or that the server sets itself.
const RESERVED: [&str; 15] = [
    "Accept-Ranges",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Date",
    "ETag",
    "Last-Modified",
    "Location",
    "Server",
    "Transfer-Encoding",
    "Trailer",
    "Upgrade",
    "Vary",
];

impl FieldRules {
    /// Compiles the rules.
    ///
    /// # Errors
    /// When a glob is malformed, or a field may not be set.
    pub(crate) fn new(rules: Vec<FieldRule>) -> io::Result<FieldRules> {
        for FieldRule { name, value, .. } in &rules {
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let wrong = if name.is_empty() || !name.bytes().all(token) {
                "that is not a field name"
            } else if RESERVED.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                "the server sets this field itself"
            } else if value.bytes().any(|byte| byte.is_ascii_control()) {
                "the value contains a control character"
            } else {
                continue;
            };
            let text = format!("cannot set the field {name:?}: {wrong}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let globs = globs(rules.iter().map(|rule| rule.glob.as_str()))?;
        Ok(FieldRules { globs, rules })
    }

    /// Whether a rule sets this field.
    pub(crate) fn sets(&self, name: &str) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.name.eq_ignore_ascii_case(name))
    }

    /// Adds the fields for a path below the root. Of several rules for a field, the last one wins.
    pub(crate) fn add<'v>(&self, mut head: ResponseHead<'v>, relative: &[u8]) -> ResponseHead<'v> {
        if self.rules.is_empty() {
            return head;
        }
        let fitting = self.globs.matches(Path::new(OsStr::from_bytes(relative)));
        for (index, &number) in fitting.iter().enumerate() {
            let rule = &self.rules[number];
            let later = &fitting[index + 1..];
            let same = |&other: &usize| self.rules[other].name.eq_ignore_ascii_case(&rule.name);
            let wins = !later.iter().any(same);
            trace::note("fields", || {
                let FieldRule { glob, name, value } = rule;
                match (wins, value.is_empty()) {
                    (true, true) => format!("the rule for {glob} removes {name}"),
                    (true, false) => format!("the rule for {glob} sets {name}: {value}"),
                    (false, _) => format!("a later rule replaces {name} of the rule for {glob}"),
                }
            });
            if !rule.value.is_empty() && wins {
                head = head.header(&rule.name, rule.value.as_bytes());
            }
        }
        head
    }
}

/// Compiles globs of paths below the root. A glob with a slash matches whole paths, one without
/// matches names in every directory.
pub(crate) fn globs<'a>(globs: impl Iterator<Item = &'a str>) -> io::Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for text in globs {
        let pattern = match text.strip_prefix('/') {
            Some(path) => path.to_owned(),
            None if text.contains('/') => text.to_owned(),
            None => format!("**/{text}"),
        };
        let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
        set.add(glob.map_err(|error| not_a_glob(text, &error))?);
    }
    set.build().map_err(|error| not_a_glob("the globs", &error))
}

fn not_a_glob(text: &str, error: &globset::Error) -> io::Error {
    let text = format!("{text} is not a valid glob: {}", error.kind());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::{Output, Status};

    fn rule(glob: &str, name: &str, value: &str) -> FieldRule {
        let [glob, name, value] = [glob, name, value].map(str::to_owned);
        FieldRule { glob, name, value }
    }

    #[test]
    fn later_rules_win() {
        let rules = FieldRules::new(vec![
            rule("**", "Cache-Control", "no-cache"),
            rule("**", "X-Frame-Options", "DENY"),
            rule("/assets/**", "cache-control", "max-age=60"),
            rule("*.woff2", "X-Frame-Options", ""),
        ])
        .unwrap();
        let head = |path: &str| {
            let mut out = Output::default();
            rules
                .add(ResponseHead::new(&mut out, Status::OK), path.as_bytes())
                .finish();
            String::from_utf8(out.bytes).unwrap()
        };
        assert!(head("a.html").contains("Cache-Control: no-cache\r\nX-Frame-Options: DENY\r\n"));
        assert!(head("assets/x/a.js").contains("cache-control: max-age=60\r\n"));
        assert!(!head("assets/x/a.js").contains("no-cache"));
        assert!(!head("b/c.woff2").contains("DENY"));
        assert!(head("").contains("no-cache"));
    }

    #[test]
    fn reserved_fields_are_refused() {
        for (glob, name, value) in [
            ("**", "Content-Length", "1"),
            ("**", "connection", "close"),
            ("**", "", "x"),
            ("**", "A B", "x"),
            ("**", "X", "a\r\nb"),
            ("[", "X", "a"),
        ] {
            assert!(
                FieldRules::new(vec![rule(glob, name, value)]).is_err(),
                "{glob} {name}"
            );
        }
    }
}
