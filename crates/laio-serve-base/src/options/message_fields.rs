//! Rules for the header fields of messages.

mod names;

pub use names::is_of_all_responses;

use super::declare::options;
use std::fmt;
use std::str::FromStr;

options! {
    /// How the header fields of responses, and of requests to upstreams, are changed.
    pub struct MessageFields {
        /// Change a field of all responses that fit: 'set NAME: VALUE', 'add NAME: VALUE', 'default NAME: VALUE' or
        /// 'remove NAME', after conditions such as path=/api/**, status=4xx or type=text/html.
        ///
        /// `set` replaces the field, `add` adds another one, and `default` adds it if the response lacks it.
        /// The conditions come first, with blanks between them: `path=GLOB`, `ext=js,css`, `status=404,5xx`,
        /// `type=text/*` and `method=GET,HEAD`. All must fit; of several of one kind, one. Rules apply in
        /// their order, to files, listings, redirects, errors and the responses of upstreams, after
        /// `--header`.
        #[arg(long = "response-header", value_name = "RULE", help_heading = "Responses")]
        pub response: Vec<MessageRule> = Vec::new(),
        /// Change a field of requests to upstreams: 'set NAME: VALUE', 'add NAME: VALUE', 'default NAME: VALUE' or
        /// 'remove NAME', after conditions such as path=/api/** or method=POST.
        ///
        /// The value may contain `{client}` (the address of the client), `{host}`, `{scheme}`, `{path}`, `{query}` and
        /// `{uri}` (both) of the request; `{{` is a brace.
        #[arg(long = "request-header", value_name = "RULE", help_heading = "Upstreams")]
        pub request: Vec<MessageRule> = Vec::new(),
    }
}

/// A change of a header field, and when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRule {
    /// When the change is made; all conditions must fit.
    pub conditions: FieldConditions,
    /// What is done with the field.
    pub action: FieldAction,
    /// The name of the field.
    pub name: String,
    /// The value; empty for [`FieldAction::Remove`].
    pub value: String,
}

/// What a rule does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldAction {
    /// Replaces all fields of the name.
    Set,
    /// Adds a field, beside others of the name.
    Add,
    /// Adds a field, if there is none of the name.
    Default,
    /// Removes all fields of the name.
    Remove,
}

impl FieldAction {
    const ALL: [FieldAction; 4] = [
        FieldAction::Set,
        FieldAction::Add,
        FieldAction::Default,
        FieldAction::Remove,
    ];

    /// The word used in rules.
    pub const fn name(self) -> &'static str {
        match self {
            FieldAction::Set => "set",
            FieldAction::Add => "add",
            FieldAction::Default => "default",
            FieldAction::Remove => "remove",
        }
    }
}

/// The conditions of a rule. A kind without values fits always, one with several if one of them does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldConditions {
    /// Globs of paths; one without a slash matches names in every directory.
    pub paths: Vec<String>,
    /// Extensions of names, without the dot.
    pub extensions: Vec<String>,
    /// Statuses of the response.
    pub statuses: Vec<StatusPattern>,
    /// Media types of the response, such as `text/html` or `text/*`.
    pub media_types: Vec<String>,
    /// Methods of the request.
    pub methods: Vec<String>,
}

/// Some statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// One status.
    Code(u16),
    /// All statuses with this first digit.
    Class(u16),
}

impl StatusPattern {
    /// Whether a status is one of these.
    pub const fn fits(self, code: u16) -> bool {
        match self {
            StatusPattern::Code(own) => own == code,
            StatusPattern::Class(digit) => code / 100 == digit,
        }
    }
}

/// Parses `404` or `4xx`.
impl FromStr for StatusPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<StatusPattern, String> {
        let wrong = || format!("{text:?} is not a status: write 404, or 4xx for a class");
        let class = text.strip_suffix("xx");
        let number: u16 = class.unwrap_or(text).parse().map_err(|_| wrong())?;
        match class {
            Some(_) if (1..=5).contains(&number) => Ok(StatusPattern::Class(number)),
            None if (100..=599).contains(&number) => Ok(StatusPattern::Code(number)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusPattern::Code(code) => write!(f, "{code}"),
            StatusPattern::Class(digit) => write!(f, "{digit}xx"),
        }
    }
}

impl MessageRule {
    /// Checks that a rule for responses changes a field that it may change.
    ///
    /// # Errors
    /// Says why it may not.
    pub fn check_for_responses(&self) -> Result<(), String> {
        names::check_response(self)
    }

    /// Checks that a rule for requests changes a field that it may change.
    ///
    /// # Errors
    /// Says why it may not.
    pub fn check_for_requests(&self) -> Result<(), String> {
        names::check_request(self)
    }
}

/// Parses `path=/api/** status=4xx set NAME: VALUE`.
impl FromStr for MessageRule {
    type Err = String;

    fn from_str(text: &str) -> Result<MessageRule, String> {
        let mut conditions = FieldConditions::default();
        let mut rest = text.trim();
        loop {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            rest = after.trim_start();
            if let Some((key, values)) = word.split_once('=') {
                conditions.add(key, values)?;
                continue;
            }
            let action = FieldAction::ALL.into_iter().find(|it| it.name() == word);
            let action = action.ok_or_else(|| {
                format!(
                    "{word:?} is no action: write [CONDITION=VALUE...] set NAME: VALUE, or add, default or remove \
                     instead of set"
                )
            })?;
            let (name, value) = match rest.split_once(':') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => (rest, ""),
            };
            match action {
                FieldAction::Remove if rest.contains(':') => {
                    return Err(format!(
                        "remove takes only the name of a field, not {rest:?}"
                    ));
                }
                FieldAction::Set | FieldAction::Add | FieldAction::Default if value.is_empty() => {
                    return Err(format!(
                        "{word} needs the name of a field, a colon and a value, not {rest:?}"
                    ));
                }
                _ => {}
            }
            return Ok(MessageRule {
                conditions,
                action,
                name: name.to_owned(),
                value: value.to_owned(),
            });
        }
    }
}

impl FieldConditions {
    fn add(&mut self, key: &str, values: &str) -> Result<(), String> {
        // Dots before an extension mean nothing.
        let dots: &[char] = if key == "ext" { &['.'] } else { &[] };
        let list = || {
            values
                .split(',')
                .map(|it| it.trim().trim_start_matches(dots))
        };
        if values.is_empty() || list().any(str::is_empty) && key != "path" {
            return Err(format!(
                "{key}= needs a value, or several with commas between them"
            ));
        }
        match key {
            // A glob may contain commas: *.{js,css}.
            "path" => self.paths.push(values.to_owned()),
            "ext" => {
                let names = list().map(str::to_ascii_lowercase);
                self.extensions.extend(names);
            }
            "status" => {
                for status in list() {
                    self.statuses.push(status.parse()?);
                }
            }
            "type" => {
                for media_type in list() {
                    if !media_type.contains('/') {
                        return Err(format!(
                            "{media_type:?} is not a media type: write text/html or text/*"
                        ));
                    }
                    self.media_types.push(media_type.to_ascii_lowercase());
                }
            }
            "method" => self.methods.extend(list().map(str::to_owned)),
            _ => {
                return Err(format!(
                    "there is no condition {key:?}; the conditions are path, ext, status, type and method"
                ));
            }
        }
        Ok(())
    }
}

/// Writes the rule as it is parsed.
impl fmt::Display for MessageRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FieldConditions {
            paths,
            extensions,
            statuses,
            media_types,
            methods,
        } = &self.conditions;
        for path in paths {
            write!(f, "path={path} ")?;
        }
        let statuses: Vec<_> = statuses.iter().map(StatusPattern::to_string).collect();
        for (key, values) in [
            ("ext", extensions),
            ("status", &statuses),
            ("type", media_types),
            ("method", methods),
        ] {
            if !values.is_empty() {
                write!(f, "{key}={} ", values.join(","))?;
            }
        }
        write!(f, "{} {}", self.action.name(), self.name)?;
        match self.action {
            FieldAction::Remove => Ok(()),
            _ => write!(f, ": {}", self.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written() {
        for text in [
            "set X-Frame-Options: DENY",
            "remove Server",
            "path=/api/** path=*.{js,css} ext=js,css status=404,5xx type=text/html,image/* method=GET,HEAD add X-A: b=c: d",
            "status=4xx default Cache-Control: no-store",
        ] {
            let rule: MessageRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        let rule: MessageRule = "  ext=.JS   set  X-A :  b ".parse().unwrap();
        assert_eq!(rule.to_string(), "ext=js set X-A: b");
    }

    #[test]
    fn errors_say_what_is_missing() {
        for (wrong, expected) in [
            ("", "is no action"),
            ("X-A: b", "is no action"),
            ("set X-A", "a value"),
            ("set X-A:", "a value"),
            ("remove X-A: b", "only the name"),
            ("status=6xx set X: y", "is not a status"),
            ("status=99 set X: y", "is not a status"),
            ("status= set X: y", "needs a value"),
            ("ext=js,,css set X: y", "needs a value"),
            ("ext=. set X: y", "needs a value"),
            ("type=html set X: y", "media type"),
            ("host=a set X: y", "the conditions are path, ext"),
        ] {
            let error = wrong.parse::<MessageRule>().unwrap_err();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }
}
