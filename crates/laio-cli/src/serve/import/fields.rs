//! Header fields: `add_header` and `expires`.

use super::parser::Directive;
use super::table::Table;
use super::translate::Shared;
use super::values::seconds;

/// The fields that a block sets.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    /// `add_header`, except for `Cache-Control`; none if the block has no `add_header`.
    added: Option<Vec<Added>>,
    /// `add_header Cache-Control`.
    directives: Vec<String>,
    /// `expires`, as directives of `Cache-Control`; `Some(None)` turns it off.
    expires: Option<Option<String>>,
}

/// A field of an `add_header`.
#[derive(Clone, Debug)]
struct Added {
    name: String,
    value: String,
    /// Whether errors have it too.
    always: bool,
}

/// The statuses of responses that have the fields of an `add_header` without `always`, and of `expires`.
const STATUSES: &str = "status=200,201,204,206,301,302,303,304,307,308";

/// Fields that the server sets itself.
const OWN: [&str; 12] = [
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "location",
    "transfer-encoding",
    "trailer",
];

/// The field that options of their own set.
const HSTS: &str = "Strict-Transport-Security";

impl Fields {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_none() && self.expires.is_none()
    }

    /// Takes an `expires` directive.
    pub(super) fn expires(&mut self, shared: &mut Shared<'_>, directive: &Directive) {
        let word = directive.word();
        self.expires = match word {
            "off" => Some(None),
            "max" => Some(Some("max-age=315360000".to_owned())),
            "epoch" => Some(Some("no-cache".to_owned())),
            _ if word.starts_with('-') => Some(Some("no-cache".to_owned())),
            _ => match seconds(word) {
                Some(time) => Some(Some(format!("max-age={}", time as u64))),
                None => {
                    shared.remarks.lost(
                        directive,
                        "write the age in seconds: --cache-control 'GLOB=max-age=SECONDS'",
                    );
                    return;
                }
            },
        };
    }

    /// Takes an `add_header` directive. `site` gets what is an option of its own, unless it is that of a location.
    pub(super) fn add_header(
        &mut self,
        shared: &mut Shared<'_>,
        directive: &Directive,
        site: Option<&mut Table>,
    ) {
        let added = self.added.get_or_insert_default();
        let [name, value, ..] = &directive.words[..] else {
            return shared.remarks.lost(directive, "the value is missing");
        };
        let own = OWN.contains(&&*name.to_ascii_lowercase());
        let wrong = value.contains('$') || value.chars().any(char::is_control);
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if own || wrong || name.is_empty() || !name.bytes().all(token) {
            let why = match (own, wrong) {
                (true, _) => "laio sets this field itself",
                (_, true) => "the value of --response-header is a text without variables",
                _ => "that is no name of a field",
            };
            return shared.remarks.lost(directive, why);
        }
        if name.eq_ignore_ascii_case(HSTS) {
            let done = site.is_some_and(|site| hsts(site, value));
            if !done {
                shared.remarks.lost(
                    directive,
                    "use --hsts, --hsts-subdomains and --hsts-preload for the host",
                );
            }
            return;
        }
        if name.eq_ignore_ascii_case("Cache-Control") {
            return self.directives.push(value.trim_end_matches(',').to_owned());
        }
        if value.is_empty() {
            return; // nginx adds none
        }
        added.push(Added {
            name: name.clone(),
            value: value.clone(),
            always: directive.words.get(2).is_some_and(|word| word == "always"),
        });
    }

    /// Returns `Cache-Control` of a block inside the one with the fields `outer`, if it sets it.
    fn cache_control(&self, outer: &Fields) -> Option<String> {
        let expires = self.expires.as_ref().or(outer.expires.as_ref());
        let directives = if self.added.is_some() {
            &self.directives
        } else {
            &outer.directives
        };
        let mut all: Vec<&str> = expires.iter().filter_map(|it| it.as_deref()).collect();
        for directive in directives
            .iter()
            .flat_map(|it| it.split(','))
            .map(str::trim)
        {
            let name = directive.split('=').next().unwrap_or(directive);
            // `expires` and the field may both have an age; the one with more directives is meant.
            all.retain(|other| other.split('=').next() != Some(name));
            all.push(directive);
        }
        let (own, theirs) = (
            !self.is_empty(),
            outer.expires.is_some() || !outer.directives.is_empty(),
        );
        (own && (!all.is_empty() || theirs)).then(|| all.join(", "))
    }

    /// Writes the fields for paths that match the globs. `outer` are those of the block around this one. `everywhere`:
    /// an upstream may answer for these paths, whose responses have no fields of `header`.
    pub(super) fn write(
        &self,
        globs: &[String],
        outer: &Fields,
        everywhere: bool,
        site: &mut Table,
    ) {
        // What a rule for all responses has added, only another one removes, after all fields of `header`.
        let outer_always = outer.added.iter().flatten().any(|it| it.always);
        let everywhere = everywhere || outer_always;
        for glob in globs {
            let path = condition(glob);
            if let Some(added) = &self.added {
                // A block with fields of its own has none of those around it.
                for other in outer.added.iter().flatten() {
                    let has = |own: &Added| own.name.eq_ignore_ascii_case(&other.name);
                    let name = &other.name;
                    if everywhere {
                        site.add("response-header", format!("{path}remove {name}"));
                    } else if !added.iter().any(has) {
                        site.add("header", format!("{glob}={name}:"));
                    }
                }
                for Added {
                    name,
                    value,
                    always,
                } in added
                {
                    let rule = format!("add {name}: {value}");
                    match (everywhere, always) {
                        (_, true) => site.add("response-header", format!("{path}{rule}")),
                        (true, false) => {
                            site.add("response-header", format!("{path}{STATUSES} {rule}"));
                        }
                        (false, false) => site.add("header", format!("{glob}={name}: {value}")),
                    }
                }
            }
            match self.cache_control(outer) {
                Some(directives) if everywhere && directives.is_empty() => {
                    site.add("response-header", format!("{path}remove Cache-Control"));
                }
                Some(directives) if everywhere => {
                    let rule = format!("{path}{STATUSES} set Cache-Control: {directives}");
                    site.add("response-header", rule);
                }
                Some(directives) => site.add("cache-control", format!("{glob}={directives}")),
                None => {}
            }
        }
    }
}

/// Returns the condition of a rule for paths that match a glob, with the blank after it.
pub(super) fn condition(glob: &str) -> String {
    match glob {
        "**" => String::new(),
        // A blank would end the condition.
        glob => format!("path={} ", glob.replace(char::is_whitespace, "?")),
    }
}

/// Sets the options for a value of `Strict-Transport-Security`. Returns whether they can say it.
fn hsts(site: &mut Table, value: &str) -> bool {
    let (mut age, mut subdomains, mut preload) = (None, false, false);
    for directive in value.split(';').map(|it| it.trim().to_ascii_lowercase()) {
        match directive.split_once('=') {
            Some(("max-age", seconds)) => age = seconds.trim_matches('"').parse::<u32>().ok(),
            None if directive == "includesubdomains" => subdomains = true,
            None if directive == "preload" => preload = true,
            None if directive.is_empty() => {}
            _ => return false,
        }
    }
    let Some(age) = age else { return false };
    // What the server refuses, because browsers would.
    if preload && !(subdomains && age >= 31_536_000) {
        return false;
    }
    site.set("hsts", i64::from(age));
    if subdomains {
        site.set("hsts-subdomains", true);
    }
    if preload {
        site.set("hsts-preload", true);
    }
    true
}
