//! Rules that change the header fields of responses, and of requests to upstreams.

mod conditions;
mod request;

pub(crate) use request::ForwardedRequest;
pub use request::{Field, RequestRules};

use conditions::{Asked, Conditions};
use laio_http::{ContentType, HeadFields, Output, Request, ResponseHead, Status};
use laio_serve_base::options::{FieldAction, MessageRule, is_of_all_responses};
use laio_serve_base::trace;
use std::io;

/// The most rules of one kind that a site may have.
const RULES_MAX: usize = 512;

/// The most bytes of one value.
const VALUE_BYTES_MAX: usize = 8192;

/// The most bytes of all values of one kind: a client must accept the head that has them all.
const ALL_VALUES_BYTES_MAX: usize = 32 * 1024;

/// The rules for the responses of a site.
pub struct ResponseRules {
    rules: Vec<Rule>,
    /// Whether the fields of a whole file follow from the file alone, and no rule is about a field that another
    /// part of the server writes. Then the cache of files keeps the fields as the rules have left them.
    pub(crate) suit_cached_files: bool,
}

struct Rule {
    conditions: Conditions,
    action: FieldAction,
    name: String,
    value: String,
    /// The rule as configured.
    text: String,
}

/// What a response answers.
#[derive(Clone, Copy)]
pub struct Answered<'a> {
    /// The request, unless it could not be parsed.
    pub request: Option<&'a Request<'a>>,
    /// The request as the client sent it, if it was rewritten.
    pub before_rewrite: Option<&'a Request<'a>>,
    /// The name of the file of the site that answers.
    pub file: Option<&'a [u8]>,
    pub status: Status,
}

impl Answered<'_> {
    /// Returns the answer to a request that could not be parsed.
    pub fn unparsed(status: Status) -> Answered<'static> {
        Answered {
            request: None,
            before_rewrite: None,
            file: None,
            status,
        }
    }
}

impl ResponseRules {
    /// Compiles the rules of a site, which may have rewrites. Returns `None` if there are no rules.
    ///
    /// # Errors
    /// When a rule is malformed, or its field may not be changed.
    pub(crate) fn new(rules: &[MessageRule], rewrites: bool) -> io::Result<Option<ResponseRules>> {
        if rules.is_empty() {
            return Ok(None);
        }
        check_limits("--response-header", rules)?;
        let compiled = rules.iter().map(|rule| {
            rule.check_for_responses()
                .map_err(|why| refused("--response-header", rule, &why))?;
            Rule::new(rule)
        });
        let rules = compiled.collect::<io::Result<Vec<_>>>()?;
        let by_request = |rule: &Rule| {
            rule.conditions.has_methods() || (rewrites && rule.conditions.has_paths())
        };
        let suit_cached_files = !rules
            .iter()
            .any(|rule| by_request(rule) || is_of_all_responses(&rule.name));
        Ok(Some(ResponseRules {
            rules,
            suit_cached_files,
        }))
    }

    /// Changes the head of a response.
    pub fn apply(&self, answered: Answered<'_>, out: &mut Output) {
        self.change(answered, out, true);
    }

    /// Returns the fields of a 200 with a whole file as the rules leave them, for the cache of files.
    pub(crate) fn applied_to_file(&self, name: &[u8], fields: &HeadFields) -> HeadFields {
        let answered = Answered {
            request: None,
            before_rewrite: None,
            file: Some(name),
            status: Status::OK,
        };
        let mut out = Output::default();
        ResponseHead::new(&mut out, Status::OK)
            .copied_fields(fields)
            .finish();
        self.change(answered, &mut out, false);
        out.fields_from(0)
    }

    /// Changes a head by the rules that fit it as it is.
    fn change(&self, answered: Answered<'_>, out: &mut Output, noted: bool) {
        let asked = Asked::new(self.rules.iter(), answered);
        // A 304 has no type, and its fields are those that the 200 would have.
        let of_file = answered
            .file
            .filter(|_| answered.status == Status::NOT_MODIFIED);
        let media_type = match (out.field("Content-Type"), of_file) {
            (None, Some(name)) => Some(ContentType::of_path(name).essence.as_bytes()),
            (own, _) => own,
        };
        let fits = |rule: &&Rule| {
            let status = Some(answered.status);
            rule.conditions.fit(&asked, status, media_type)
        };
        let fitting: Vec<_> = self.rules.iter().filter(fits).collect();
        if fitting.is_empty() {
            return;
        }
        out.change_fields(|head| {
            for rule in fitting {
                if noted {
                    trace::note("fields", || format!("--response-header {}", rule.text));
                }
                rule.apply(head);
            }
        });
    }
}

impl Rule {
    fn new(rule: &MessageRule) -> io::Result<Rule> {
        Ok(Rule {
            conditions: Conditions::new(&rule.conditions)?,
            action: rule.action,
            name: rule.name.clone(),
            value: rule.value.clone(),
            text: rule.to_string(),
        })
    }

    fn apply(&self, head: &mut ResponseHead<'_>) {
        let (name, value) = (self.name.as_bytes(), self.value.as_bytes());
        match self.action {
            FieldAction::Default if head.output().field(&self.name).is_some() => return,
            FieldAction::Remove | FieldAction::Set => {
                head.retain(|own| !own.eq_ignore_ascii_case(name));
            }
            FieldAction::Add | FieldAction::Default => {}
        }
        if self.action != FieldAction::Remove {
            head.add(name, value);
        }
    }
}

fn check_limits(option: &str, rules: &[MessageRule]) -> io::Result<()> {
    let longest = rules.iter().find(|rule| rule.value.len() > VALUE_BYTES_MAX);
    let all: usize = rules.iter().map(|rule| rule.value.len()).sum();
    let text = if rules.len() > RULES_MAX {
        format!(
            "a site has {} rules {option}, and may have {RULES_MAX}: combine rules with the same field",
            rules.len()
        )
    } else if let Some(rule) = longest {
        format!(
            "{option}: the value of {} has {} bytes, and may have {VALUE_BYTES_MAX}",
            rule.name,
            rule.value.len()
        )
    } else if all > ALL_VALUES_BYTES_MAX {
        format!(
            "the values of {option} have {all} bytes together, and may have {ALL_VALUES_BYTES_MAX}"
        )
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

fn refused(option: &str, rule: &MessageRule, why: &str) -> io::Error {
    let verb = rule.action.name();
    let text = format!("{option} cannot {verb} {:?}: {why}", rule.name);
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> io::Result<ResponseRules> {
        let rules: Vec<MessageRule> = texts.iter().map(|text| text.parse().unwrap()).collect();
        ResponseRules::new(&rules, false).map(Option::unwrap)
    }

    /// Returns a response with these fields, and a 100 before it, as the rules leave it.
    fn applied(texts: &[&str], status: Status, file: &str, fields: &[[&str; 2]]) -> String {
        let answered = Answered {
            request: None,
            before_rewrite: None,
            file: Some(file.as_bytes()),
            status,
        };
        let mut out = Output::default();
        out.push_continue();
        let mut head = ResponseHead::new(&mut out, status);
        for [name, value] in fields {
            head = head.header(name, value.as_bytes());
        }
        head.finish().extend_from_slice(b"X-A: body\r\n");
        rules(texts).unwrap().apply(answered, &mut out);
        String::from_utf8(out.bytes).unwrap()
    }

    const FIELDS: [[&str; 2]; 4] = [
        ["Server", "laio"],
        ["Content-Type", "text/html; charset=utf-8"],
        ["X-A", "1"],
        ["x-a", "2"],
    ];

    #[test]
    fn actions_in_order() {
        let head = applied(
            &[
                "set X-A: 3",
                "add X-A: 4",
                "default X-A: 5",
                "default X-B: 6",
                "remove server",
            ],
            Status::OK,
            "a",
            &FIELDS,
        );
        let expected = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nX-A: 3\r\nX-A: 4\r\nX-B: 6\r\n\r\nX-A: body\r\n";
        assert_eq!(head, expected);
    }

    #[test]
    fn conditions() {
        for (condition, status, file, fits) in [
            ("path=/docs/**", Status::OK, "docs/a/b.html", true),
            ("path=/docs/**", Status::OK, "doc/b.html", false),
            ("path=*.{js,html}", Status::OK, "x/b.html", true),
            ("path=/a path=/b", Status::OK, "b", true),
            ("ext=js,html", Status::OK, "x/b.HTML", true),
            ("ext=js", Status::OK, "x/js", false),
            ("status=4xx,503", Status::NOT_FOUND, "b", true),
            ("status=4xx,503", Status::SERVICE_UNAVAILABLE, "b", true),
            ("status=4xx,503", Status::OK, "b", false),
            // A 304 has the fields of the 200.
            ("status=2xx", Status::NOT_MODIFIED, "b", true),
            ("status=200", Status::NOT_MODIFIED, "b", true),
            ("status=206", Status::NOT_MODIFIED, "b", false),
            ("type=text/html", Status::OK, "b", true),
            ("type=image/*,text/*", Status::OK, "b", true),
            ("type=text/plain", Status::OK, "b", false),
            ("method=GET", Status::OK, "b", false),
            ("path=/b status=404", Status::OK, "b", false),
        ] {
            let rule = format!("{condition} set X-New: 1");
            let head = applied(&[&rule], status, file, &FIELDS);
            assert_eq!(head.contains("X-New: 1"), fits, "{condition} {file}");
        }
        let head = applied(
            &["type=text/css set A: 1"],
            Status::NOT_MODIFIED,
            "a.css",
            &[["Server", "laio"]],
        );
        assert!(head.contains("A: 1"));
    }

    #[test]
    fn fields_that_rules_may_not_change() {
        for (rule, why) in [
            ("set Content-Length: 1", "frames"),
            ("remove transfer-encoding", "frames"),
            ("remove Content-Encoding", "body"),
            ("set Date: x", "Date"),
            ("set Vary: x", "add"),
            ("set A B: x", "not a field name"),
            ("set ETag: x", "file"),
        ] {
            let error = rules(&[rule]).err().unwrap().to_string();
            assert!(error.contains(why), "{rule}: {error}");
        }
        assert!(rules(&["add Vary: Cookie", "remove ETag", "set Server: x"]).is_ok());
        let long = format!("set X: {}", "x".repeat(VALUE_BYTES_MAX + 1));
        assert!(rules(&[&long]).is_err());
        assert!(rules(&["set X: a\u{1}b"]).is_err());
        assert!(rules(&["path=[ set X: a"]).is_err());
        assert!(rules(&vec!["set X: y"; RULES_MAX + 1]).is_err());
    }

    #[test]
    fn what_the_cache_of_files_keeps() {
        let suit = |text: &str, rewrites| {
            let rules = [text.parse().unwrap()];
            let rules = ResponseRules::new(&rules, rewrites).unwrap().unwrap();
            rules.suit_cached_files
        };
        assert!(suit("path=/a/** type=text/html status=2xx set X: y", false));
        assert!(!suit("path=/a/** set X: y", true) && suit("set X: y", true));
        assert!(!suit("method=GET set X: y", false) && !suit("remove Server", false));
    }
}
