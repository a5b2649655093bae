//! `auth_request`: servers that decide which requests are let in, and what upstreams learn from them.

use super::location::{Site, is_handled};
use super::parser::Directive;
use super::ranking::{Pattern, is_slash, pattern};

impl<'d> Site<'_, 'd> {
    /// Takes the `auth_request` of a block, for paths that match the globs, or for all paths without any.
    pub(super) fn auth_request(
        &mut self,
        directive: &'d Directive,
        location: Option<&Directive>,
        globs: &[String],
    ) {
        let whole = self.server.own.iter().find(|it| it.name == "auth_request");
        let whole = whole.filter(|it| it.word() != "off" && !globs.is_empty());
        match (directive.word(), whole) {
            ("off", Some(_)) => {
                return location
                    .into_iter()
                    .for_each(|it| self.let_in(directive, it, globs));
            }
            ("off", None) => return,
            (uri, Some(whole)) if whole.word() == uri => return,
            (_, Some(_)) => {
                let how = "the auth_request of the server holds for these paths too";
                self.shared.remarks.differs(directive, how);
            }
            (_, None) => {}
        }
        let uri = directive.word();
        let location = self.location_of(uri);
        let pass = location.and_then(|it| it.inner().iter().find(|it| it.name == "proxy_pass"));
        let urls = match pass.map(|pass| self.group(pass)) {
            Some(Ok(group)) => Ok(group.urls),
            Some(Err(why)) => Err(why),
            None => Err(format!("there is no location {uri} with proxy_pass")),
        };
        let urls = match urls {
            Ok(urls) => urls,
            Err(why) => {
                self.refuse_everyone(globs);
                let how = "laio answers 403 for these paths; use --auth-request URL";
                return self.lost(directive, format_args!("{why}: {how}"));
            }
        };
        for url in urls {
            let url = with_path(&url, uri);
            match globs {
                [] => self.table.add("auth-request", url),
                globs => globs
                    .iter()
                    .for_each(|glob| self.table.add("auth-request", format!("{glob}={url}"))),
            }
        }
        location.into_iter().for_each(|it| self.question(it));
    }

    /// Lets requests for the paths of a location in without asking, unless another location asks about some of them.
    fn let_in(&mut self, directive: &Directive, location: &Directive, globs: &[String]) {
        let own = pattern(location).0;
        let mut all = Vec::new();
        flatten(&self.server.locations, &mut all);
        let asks_within = |it: &&Directive| match (&own, pattern(it).0) {
            (
                Pattern::Exact(own) | Pattern::Prefix(own),
                Pattern::Exact(path) | Pattern::Prefix(path),
            ) => path.starts_with(own),
            _ => true,
        };
        let mut asking = all
            .into_iter()
            .filter(|it| !is_slash(it) && it.inner().iter().any(asks));
        if let Some(other) = asking.find(asks_within) {
            let why = format!(
                "laio asks about these paths too, because =off would hold for those of {} as well",
                other.place
            );
            return self.lost(directive, why);
        }
        for glob in globs {
            self.table.add("auth-request", format!("{glob}=off"));
        }
    }

    /// Lets requests for a location in, if only `location /` asks about its own, and not the server.
    pub(super) fn let_in_beside_slash(&mut self, location: &Directive, globs: &[String]) {
        let slash = self.server.locations.iter();
        let mut slash = slash.filter(|it| is_slash(it));
        if slash.any(|it| it.inner().iter().any(asks))
            && !self.server.own.iter().any(|it| asks(it))
            && !location.inner().iter().any(asks)
        {
            self.let_in(location, location, globs);
        }
    }

    /// Whether a location is that of an auth server, which clients do not ask.
    pub(super) fn is_of_auth_server(&self, location: &Directive) -> bool {
        let (Pattern::Exact(path) | Pattern::Prefix(path), _) = pattern(location) else {
            return false;
        };
        let inner = self.server.locations.iter().flat_map(|it| it.inner());
        let mut all = self.server.own.iter().copied().chain(inner);
        all.any(|it| it.name == "auth_request" && it.word() == path)
            && location.inner().iter().any(|it| it.name == "proxy_pass")
    }

    fn location_of(&self, uri: &str) -> Option<&'d Directive> {
        let is_it = |it: &&&Directive| match pattern(it).0 {
            Pattern::Exact(path) | Pattern::Prefix(path) => path == uri,
            _ => false,
        };
        self.server.locations.iter().find(is_it).copied()
    }

    /// Takes the other directives of the location of an auth server.
    fn question(&mut self, location: &Directive) {
        for directive in location.inner() {
            let name = directive.word().to_ascii_lowercase();
            match &*directive.name {
                "proxy_pass" | "internal" | "proxy_pass_request_body" => {}
                "proxy_pass_request_headers" if directive.word() == "off" => self.lost(
                    directive,
                    "name the fields that the auth server gets: --auth-request-send",
                ),
                "proxy_set_header" if SENT.contains(&&*name) => {}
                "proxy_set_header" if name == "x-real-ip" => self.shared.remarks.differs(
                    directive,
                    "the auth server gets the address of the client in X-Forwarded-For",
                ),
                "proxy_set_header" => self.lost(
                    directive,
                    "an auth server gets the fields of the client, X-Forwarded-… and X-Original-…",
                ),
                name if is_handled(name) => {}
                _ => self.shared.without_translation(directive),
            }
        }
    }

    /// Takes a directive that gives a field of the auth server to an upstream or the client. Returns whether it is one.
    pub(super) fn copies(&mut self, directive: &Directive, block: &Directive) -> bool {
        let (Some(to), Some(variable)) = (directive.words.first(), directive.words.get(1)) else {
            return false;
        };
        let Some(from) = self.field_of(variable, block) else {
            return false;
        };
        let same = |name: &str| name.eq_ignore_ascii_case(&from);
        match &*directive.name {
            "proxy_set_header" if same(to) => self.table.add("auth-request-copy", to.as_str()),
            "proxy_set_header" => self.table.add("auth-request-copy", format!("{from}={to}")),
            // The first field names the user.
            "fastcgi_param" if to == "REMOTE_USER" && !self.table.has("auth-request-copy") => {
                self.table.add("auth-request-copy", from);
            }
            "add_header" if same(to) && same("Set-Cookie") => {
                self.table.set("auth-request-cookies", true);
            }
            _ => return false,
        }
        true
    }

    /// Returns the name of the field that a variable of `auth_request_set` is.
    fn field_of(&self, variable: &str, block: &Directive) -> Option<String> {
        let own = block.inner().iter().chain(self.server.own.iter().copied());
        let mut sets = own.filter(|it| it.name == "auth_request_set" && it.word() == variable);
        let value = sets.next()?.words.get(1)?;
        let name = value.strip_prefix("$upstream_http_")?;
        let capital = |part: &str| match part.split_at_checked(1) {
            Some((first, rest)) => first.to_ascii_uppercase() + rest,
            None => String::new(),
        };
        let parts: Vec<_> = name.split('_').map(capital).collect();
        Some(parts.join("-"))
    }

    /// Takes an `auth_request_set` whose variable nothing uses that has a translation.
    pub(super) fn auth_request_set(&mut self, directive: &Directive, block: &[&Directive]) {
        let variable = directive.word();
        let uses = |it: &&&Directive| {
            let names = ["proxy_set_header", "fastcgi_param", "add_header"];
            names.contains(&&*it.name) && it.words.iter().any(|word| word == variable)
        };
        let is_field = directive
            .words
            .get(1)
            .is_some_and(|it| it.starts_with("$upstream_http_"));
        let inner = self.server.locations.iter().flat_map(|it| it.inner());
        let mut all = block.iter().copied().chain(inner);
        if !is_field || !all.any(|it| uses(&&it)) {
            let why = "--auth-request-copy gives fields of the auth server to upstreams, and nothing else of it";
            self.lost(directive, why);
        }
    }

    /// Takes an `error_page` for 401 of an auth server. Returns whether it is one.
    pub(super) fn login(&mut self, directive: &Directive) -> bool {
        let [status, how @ .., target] = &directive.words[..] else {
            return false;
        };
        let inner = self.server.locations.iter().flat_map(|it| it.inner());
        let mut all = self.server.own.iter().copied().chain(inner);
        if status != "401" || !all.any(|it| it.name == "auth_request") {
            return false;
        }
        let redirects = how.iter().any(|it| it.starts_with("=3"));
        let named = || {
            let mut locations = self.server.locations.iter();
            let named = locations.find(|it| it.word() == target)?;
            match named.inner() {
                [only] if only.name == "return" && only.word().starts_with('3') => {
                    only.words.get(1)
                }
                _ => None,
            }
        };
        let url = match target.starts_with('@') {
            true => named().cloned(),
            false if redirects => Some(target.clone()),
            false if target.starts_with("/oauth2/") && !target.contains('?') => {
                let how = "browsers are redirected to this page";
                self.shared.remarks.differs(directive, how);
                Some(format!("{target}?rd=$request_uri"))
            }
            false => return false,
        };
        match url.as_deref().and_then(login_of) {
            Some(login) => self.table.set("auth-request-login", login),
            None => self.lost(
                directive,
                "a 401 of the auth server goes to the client; --auth-request-login URL redirects browsers, with {url} for \
                 the address of the request",
            ),
        }
        true
    }
}

/// Whether a directive is an `auth_request` that names a location.
fn asks(directive: &Directive) -> bool {
    directive.name == "auth_request" && directive.word() != "off"
}

/// Adds locations, and those within them.
fn flatten<'d>(locations: &[&'d Directive], all: &mut Vec<&'d Directive>) {
    for location in locations {
        all.push(location);
        let inner = location.inner().iter().filter(|it| it.name == "location");
        flatten(&inner.collect::<Vec<_>>(), all);
    }
}

/// Fields that auth servers get from laio, in lower case.
const SENT: [&str; 12] = [
    "content-length",
    "host",
    "x-auth-request-redirect",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-method",
    "x-forwarded-proto",
    "x-forwarded-uri",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-scheme",
];

/// Returns a URL of `--proxy` with a path, if it has none.
fn with_path(url: &str, path: &str) -> String {
    let (url, weight) = match url.find(",weight=") {
        Some(at) => url.split_at(at),
        None => (url, ""),
    };
    let (separator, has_path) = match url.split_once("://") {
        Some((_, rest)) => ("", rest.contains('/')),
        None => (":", url.matches(':').count() > 1),
    };
    match has_path {
        true => format!("{url}{weight}"),
        false => format!("{url}{separator}{path}{weight}"),
    }
}

/// Returns the address of a login page without the variables of nginx, if it can be said.
fn login_of(url: &str) -> Option<String> {
    let hosts = ["$host", "$http_host", "$server_name"];
    let mut text = url.to_owned();
    for host in hosts {
        for scheme in ["$scheme", "https", "http"] {
            let origin = format!("{scheme}://{host}");
            text = text.replace(&format!("{origin}$request_uri"), "{url}");
            if let Some(path) = text.strip_prefix(&origin)
                && path.starts_with('/')
            {
                text = path.to_owned();
            }
        }
    }
    let text = text
        .replace("$escaped_request_uri", "{uri}")
        .replace("$request_uri", "{uri}");
    (!text.contains('$')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_auth_servers() {
        assert_eq!(with_path("http://a:1", "/v"), "http://a:1/v");
        assert_eq!(
            with_path("http://a:1/w,weight=2", "/v"),
            "http://a:1/w,weight=2"
        );
        assert_eq!(
            with_path("http+unix:/s,weight=2", "/v"),
            "http+unix:/s:/v,weight=2"
        );
        assert_eq!(with_path("http+unix:/s:/w", "/v"), "http+unix:/s:/w");
    }

    #[test]
    fn addresses_of_logins() {
        let login = |url| login_of(url);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            login("/in?rd=$scheme://$host$request_uri"),
            text("/in?rd={url}")
        );
        assert_eq!(
            login("https://$host/in?rd=$request_uri"),
            text("/in?rd={uri}")
        );
        assert_eq!(
            login("https://b.c/?rd=https://$http_host$request_uri"),
            text("https://b.c/?rd={url}")
        );
        assert_eq!(login("$redirection_url"), None);
    }
}
