//! Rules for requests to upstreams.

use super::conditions::Asked;
use super::{Answered, Rule, check_limits, refused};
use laio_http::{Request, Status, ascii_query};
use laio_serve_base::clients::Client;
use laio_serve_base::field_names::is_same_variable;
use laio_serve_base::options::{FieldAction, MessageRule};
use laio_serve_base::trace;
use std::borrow::Cow;
use std::io;

/// The rules of a site for requests to its upstreams.
pub struct RequestRules(Vec<(Rule, Template)>);

/// What the rules depend on.
#[derive(Clone, Copy)]
pub struct ForwardedRequest<'a> {
    pub request: &'a Request<'a>,
    /// The request as the client sent it, if it was rewritten.
    pub before_rewrite: Option<&'a Request<'a>>,
    pub client: &'a Client,
    /// Whether the client uses https.
    pub secure: bool,
}

/// A field of a request: its name and its value.
pub type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

impl RequestRules {
    /// Compiles the rules. Returns `None` if there are no rules.
    ///
    /// # Errors
    /// When a rule is malformed, or its field may not be changed.
    pub fn new(rules: &[MessageRule]) -> io::Result<Option<RequestRules>> {
        const OPTION: &str = "--request-header";
        if rules.is_empty() {
            return Ok(None);
        }
        check_limits(OPTION, rules)?;
        let compiled = rules.iter().map(|rule| {
            let refused = |why: String| refused(OPTION, rule, &why);
            rule.check_for_requests().map_err(refused)?;
            let template = Template::new(&rule.value).map_err(refused)?;
            Ok((Rule::new(rule)?, template))
        });
        Ok(Some(RequestRules(compiled.collect::<io::Result<_>>()?)))
    }

    /// Changes the fields of a request to an upstream.
    pub fn apply<'a>(&'a self, forwarded: ForwardedRequest<'a>, fields: &mut Vec<Field<'a>>) {
        for (rule, template) in self.fitting(forwarded) {
            if rule.is_of_host() {
                continue;
            }
            // To programs that turn fields into variables, hyphens and underscores are the same.
            let is_own = |name: &[u8]| is_same_variable(name, &rule.name);
            let has = |fields: &[Field<'_>]| fields.iter().any(|(name, _)| is_own(name));
            match rule.action {
                FieldAction::Set | FieldAction::Remove => fields.retain(|(name, _)| !is_own(name)),
                FieldAction::Default if has(fields) => continue,
                FieldAction::Default | FieldAction::Add => {}
            }
            let value = template.filled(forwarded);
            if rule.action != FieldAction::Remove && !value.is_empty() {
                fields.push((Cow::Borrowed(rule.name.as_bytes()), Cow::Owned(value)));
            }
        }
    }

    /// Returns the host that a rule sets.
    pub fn host(&self, forwarded: ForwardedRequest<'_>) -> Option<String> {
        let last = self
            .fitting(forwarded)
            .into_iter()
            .rfind(|(rule, _)| rule.is_of_host());
        let (_, template) = last?;
        String::from_utf8(template.filled(forwarded))
            .ok()
            .filter(|host| !host.is_empty())
    }

    /// Notes the rules that apply to a request.
    pub fn note(&self, forwarded: ForwardedRequest<'_>) {
        for (rule, _) in self.fitting(forwarded) {
            trace::note("fields", || format!("--request-header {}", rule.text));
        }
    }

    fn fitting<'a>(&'a self, forwarded: ForwardedRequest<'_>) -> Vec<&'a (Rule, Template)> {
        let answered = Answered {
            request: Some(forwarded.request),
            before_rewrite: forwarded.before_rewrite,
            file: None,
            status: Status::OK,
        };
        let asked = Asked::new(self.0.iter().map(|(rule, _)| rule), answered);
        let rules = self.0.iter();
        let fitting = rules.filter(|(rule, _)| rule.conditions.fit(&asked, None, None));
        fitting.collect()
    }
}

impl Rule {
    fn is_of_host(&self) -> bool {
        self.name.eq_ignore_ascii_case("Host")
    }
}

/// A value with placeholders.
struct Template(Vec<Piece>);

enum Piece {
    Text(String),
    Client,
    Host,
    Scheme,
    Path,
    Query,
    Uri,
}

impl Template {
    fn new(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, after) = (&rest[..at], &rest[at + 1..]);
            if let Some(after) = after.strip_prefix('{') {
                pieces.push(Piece::Text(rest[..=at].to_owned()));
                rest = after;
                continue;
            }
            pieces.push(Piece::Text(before.to_owned()));
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| "a } is missing after a {; write {{ for a brace".to_owned())?;
            pieces.push(match name {
                "client" => Piece::Client,
                "host" => Piece::Host,
                "scheme" => Piece::Scheme,
                "path" => Piece::Path,
                "query" => Piece::Query,
                "uri" => Piece::Uri,
                _ => {
                    return Err(format!(
                        "there is no placeholder {{{name}}}; there are {{client}}, {{host}}, {{scheme}}, {{path}}, \
                         {{query}} and {{uri}}, and {{{{ is a brace"
                    ));
                }
            });
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Template(pieces))
    }

    /// Returns the value for a request. The path and the query are those that the client sent.
    fn filled(&self, forwarded: ForwardedRequest<'_>) -> Vec<u8> {
        let sent = forwarded.before_rewrite.unwrap_or(forwarded.request);
        let mut value = Vec::new();
        for piece in &self.0 {
            let path = sent.path.as_ref().map_or("", |path| path.as_str());
            let query = sent.query.map(ascii_query);
            let whole;
            let text = match piece {
                Piece::Text(text) => text,
                Piece::Client => &*forwarded.client.name,
                Piece::Host => sent.host.unwrap_or_default(),
                Piece::Scheme if forwarded.secure => "https",
                Piece::Scheme => "http",
                Piece::Path => path,
                Piece::Query => query.as_deref().unwrap_or_default(),
                Piece::Uri => match &query {
                    None => path,
                    Some(query) => {
                        whole = format!("{path}?{query}");
                        &whole
                    }
                },
            };
            value.extend(
                text.bytes()
                    .filter(|byte| !byte.is_ascii_control() || *byte == b'\t'),
            );
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders() {
        for good in [
            "a",
            "{client}",
            "x{host}y{scheme}{path}{query}",
            "{{not}",
            "a}b",
        ] {
            assert!(Template::new(good).is_ok(), "{good}");
        }
        for bad in ["{", "{port}", "{Client}", "a{host"] {
            assert!(Template::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn fields_that_rules_may_not_change() {
        let rules = |text: &str| RequestRules::new(&[text.parse().unwrap()]);
        for (rule, why) in [
            ("set Content-Length: 1", "frames"),
            ("remove Host", "may set it"),
            ("set Via: x", "loops"),
            ("set If-None-Match: x", "304"),
            ("status=200 set X: y", "no status"),
            ("type=text/html set X: y", "no status"),
            ("set X: {port}", "placeholder"),
        ] {
            let error = rules(rule).err().unwrap().to_string();
            assert!(error.contains(why), "{rule}: {error}");
        }
        for good in [
            "set Host: a.example",
            "remove If-None-Match",
            "set X-Real-IP: {client}",
        ] {
            assert!(rules(good).is_ok(), "{good}");
        }
    }
}
