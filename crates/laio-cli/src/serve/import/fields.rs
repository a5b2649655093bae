//! Header fields: `add_header` and `expires`.

use super::parser::Directive;
use super::table::Table;
use super::translate::Shared;
use super::values::seconds;

/// The fields that a block sets.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    /// `add_header`, except for `Cache-Control`; none if the block has no `add_header`.
    added: Option<Vec<(String, String)>>,
    /// `add_header Cache-Control`.
    directives: Vec<String>,
    /// `expires`, as directives of `Cache-Control`; `Some(None)` turns it off.
    expires: Option<Option<String>>,
}

/// Fields that the server sets itself.
const OWN: [&str; 14] = [
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
    "server",
    "transfer-encoding",
    "trailer",
    "vary",
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
                (_, true) => "the value of --header is a text without variables",
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
        if directive.words.get(2).is_some_and(|word| word == "always") && !shared.said_always {
            shared.said_always = true;
            shared.remarks.differs(
                directive,
                "responses with an error do not have the fields of --header",
            );
        }
        added.push((name.clone(), value.clone()));
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

    /// Writes the fields for paths that match the globs. `outer` are those of the block around this one.
    pub(super) fn write(&self, globs: &[String], outer: &Fields, site: &mut Table) {
        for glob in globs {
            if let Some(added) = &self.added {
                for (name, value) in added {
                    site.add("header", format!("{glob}={name}: {value}"));
                }
                // A block with fields of its own has none of those around it.
                for (name, _) in outer.added.iter().flatten() {
                    if !added.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                        site.add("header", format!("{glob}={name}:"));
                    }
                }
            }
            if let Some(directives) = self.cache_control(outer) {
                site.add("cache-control", format!("{glob}={directives}"));
            }
        }
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
