//! `proxy_pass` and `fastcgi_pass`: the upstreams of a site, and what they get.

use super::fields::condition;
use super::location::Site;
use super::parser::Directive;
use super::patterns::Paths;
use super::ranking::{OUTSIDE, Pattern};
use super::variables::of_request;
use laio_serve::{MessageRule, Upstream, UpstreamAddress};

impl Site<'_, '_> {
    pub(super) fn proxy(&mut self, directive: &Directive, location: &Directive, pattern: &Pattern) {
        let mut group = match self.group(directive) {
            Ok(group) => group,
            Err(why) => return self.lost(directive, why),
        };
        if let Some(path) = inner_path(location, pattern) {
            let has_path = |url: &String| url.split("://").nth(1).is_none_or(|it| it.contains('/'));
            if group.urls.iter().any(has_path) {
                return self.lost(directive, "the URL and the rewrite both change the path");
            }
            for url in &mut group.urls {
                let at = url.find(',').unwrap_or(url.len());
                url.insert_str(at, &path);
            }
        }
        let prefix = match pattern {
            Pattern::Prefix(prefix) => prefix.clone(),
            Pattern::Exact(path) => {
                self.shared
                    .remarks
                    .differs(location, "the upstream gets the paths below this one too");
                path.clone()
            }
            _ => return self.lost(location, "--proxy knows prefixes of paths"),
        };
        self.proxies_all |= prefix == "/";
        self.redirect_to_slash(&prefix);
        for url in &group.urls {
            let value = format!("{prefix}={url}");
            match Upstream::http(&value) {
                Ok(_) => self.table.add("proxy", value),
                Err(why) => self.lost(directive, why),
            }
        }
        if let Some(balance) = group.balance {
            self.table.add("balance", format!("{prefix}={balance}"));
        }
        let names_host = |it: &&Directive| it.word().eq_ignore_ascii_case("Host");
        let own = location
            .inner()
            .iter()
            .filter(|it| it.name == "proxy_set_header");
        let (own, outer) = (
            own.collect::<Vec<_>>(),
            self.shared.in_force(self.server, "proxy_set_header"),
        );
        let includes = location
            .inner()
            .iter()
            .any(|it| it.word().ends_with("proxy_params"));
        let fields = if own.is_empty() { outer } else { own };
        if !includes && !fields.iter().any(names_host) {
            self.shared
                .remarks
                .differs(directive, "the upstream gets the Host of the client");
        }
    }

    /// Redirects the path of a prefix without the slash at its end to the prefix, unless another location has that
    /// path.
    fn redirect_to_slash(&mut self, prefix: &str) {
        let path = prefix.strip_suffix('/').filter(|path| !path.is_empty());
        let Some(path) = path else { return };
        let has = |it: &&Directive| it.words.last().is_some_and(|word| word == path);
        let known = self.server.locations.iter().any(has);
        if !known && !path.contains(['=', '*', ' ']) {
            let redirect = format!("{path}={prefix}=301");
            self.redirects.push((OUTSIDE, redirect));
        }
    }

    /// Returns the URLs of `proxy_pass` or `grpc_pass` as `--proxy` takes them.
    pub(super) fn group(&mut self, directive: &Directive) -> Result<UpstreamGroup, String> {
        let url = directive.word();
        if url.contains('$') {
            return Err("--proxy names upstreams, without variables".to_owned());
        }
        let (scheme, rest) = match url.split_once("://") {
            Some(("grpc", rest)) => ("h2c", rest),
            Some(("grpcs", rest)) => ("h2", rest),
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            None if directive.name == "grpc_pass" => ("h2c", url),
            _ => return Err("that is no URL".to_owned()),
        };
        if let Some(socket) = rest.strip_prefix("unix:") {
            let urls = vec![format!("{scheme}+unix:{socket}")];
            let balance = None;
            return Ok(UpstreamGroup { urls, balance });
        }
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (servers, balance) = match self.servers(host)? {
            Some(found) => found,
            None => (vec![(host.to_owned(), 1)], None),
        };
        let url = |(address, weight): (String, u32)| {
            let url = match (address.strip_prefix("unix:"), path) {
                (Some(socket), "") => format!("{scheme}+unix:{socket}"),
                (Some(socket), path) => format!("{scheme}+unix:{socket}:{path}"),
                (None, path) => format!("{scheme}://{address}{path}"),
            };
            match weight {
                1 => url,
                weight => format!("{url},weight={weight}"),
            }
        };
        let urls = servers.into_iter().map(url).collect();
        Ok(UpstreamGroup { urls, balance })
    }

    /// Returns the servers of an `upstream` block with their weights, and how requests are divided among them, if
    /// there is one of this name.
    fn servers(&mut self, name: &str) -> Result<Option<Servers>, String> {
        let Some(block) = self.shared.upstreams.get(name).copied() else {
            return Ok(None);
        };
        let (mut servers, mut balance) = (Vec::new(), None);
        for inner in block.inner() {
            let has = |what: &str| inner.words.iter().any(|word| word == what);
            match &*inner.name {
                "server" if has("down") => {}
                "server" if has("backup") => {
                    self.lost(inner, "an upstream of laio answers always, or not at all");
                }
                "server" => {
                    let weight = inner
                        .words
                        .iter()
                        .find_map(|word| word.strip_prefix("weight="));
                    let weight = weight.and_then(|weight| weight.parse().ok()).unwrap_or(1);
                    servers.push((inner.word().to_owned(), weight));
                }
                "ip_hash" => balance = Some("hash=client".to_owned()),
                "hash" => match hash(inner.word()) {
                    Some(hash) => balance = Some(hash),
                    None => self.lost(
                        inner,
                        "--balance knows a hash of the client, the URI, a cookie or a header field",
                    ),
                },
                // What laio does by itself.
                "least_conn" | "random" | "keepalive" | "keepalive_timeout"
                | "keepalive_requests" | "keepalive_time" | "zone" | "resolver" => {}
                _ => self.shared.without_translation(inner),
            }
        }
        match servers.len() {
            0 => Err(format!("the upstream {name} has no server")),
            1 => Ok(Some((servers, None))),
            _ => Ok(Some((servers, balance))),
        }
    }

    pub(super) fn fastcgi(
        &mut self,
        directive: &Directive,
        location: &Directive,
        pattern: &Pattern,
    ) {
        let address = directive.word();
        let (servers, balance) = match self.servers(address) {
            Ok(Some(found)) => found,
            Ok(None) => (vec![(address.to_owned(), 1)], None),
            Err(why) => return self.lost(directive, why),
        };
        let (address, _) = servers[0].clone();
        if let Err(why) = address.parse::<UpstreamAddress>() {
            if matches!(pattern, Pattern::Regex(Paths::Scripts(_))) {
                self.hide_scripts();
            }
            return self.lost(directive, why);
        }
        let scripts = match pattern {
            Pattern::Regex(Paths::Scripts(extensions)) => Some(extensions.clone()),
            Pattern::Exact(path) if path.ends_with(".php") => Some(vec!["php".to_owned()]),
            Pattern::Regex(Paths::Globs(globs)) if globs.iter().all(|it| it.ends_with(".php")) => {
                let how = "laio executes every script of the site, not only these";
                self.shared.remarks.differs(location, how);
                Some(vec!["php".to_owned()])
            }
            _ => None,
        };
        match (scripts, pattern) {
            (Some(extensions), _) => {
                let other = self
                    .table
                    .get("php")
                    .and_then(toml::Value::as_str)
                    .filter(|own| *own != address);
                if other.is_some() {
                    return self.lost(directive, "one program executes all scripts of a site");
                }
                if servers.len() > 1 {
                    self.lost(
                        directive,
                        "one program executes all scripts of a site: only the first server does",
                    );
                }
                self.table.set("php", address);
                if extensions != ["php"] {
                    self.table.set("php-extension", extensions);
                }
            }
            (None, Pattern::Prefix(prefix)) => {
                self.proxies_all |= prefix == "/";
                self.redirect_to_slash(prefix);
                for (address, weight) in servers {
                    let weight = match weight {
                        1 => String::new(),
                        weight => format!(",weight={weight}"),
                    };
                    self.table
                        .add("fastcgi", format!("{prefix}={address}{weight}"));
                }
                if let Some(balance) = balance {
                    self.table.add("balance", format!("{prefix}={balance}"));
                }
            }
            (None, _) => self.lost(
                location,
                "--fastcgi knows prefixes of paths, --php extensions of files",
            ),
        }
    }

    /// A variable of a FastCGI program.
    pub(super) fn parameter(&mut self, directive: &Directive) {
        const STANDARD: [&str; 23] = [
            "CONTENT_LENGTH",
            "CONTENT_TYPE",
            "DOCUMENT_ROOT",
            "DOCUMENT_URI",
            "GATEWAY_INTERFACE",
            "HTTPS",
            "HTTP_HOST",
            "HTTP_PROXY",
            "PATH_INFO",
            "PATH_TRANSLATED",
            "QUERY_STRING",
            "REDIRECT_STATUS",
            "REMOTE_ADDR",
            "REMOTE_PORT",
            "REQUEST_METHOD",
            "REQUEST_SCHEME",
            "REQUEST_URI",
            "SCRIPT_FILENAME",
            "SCRIPT_NAME",
            "SERVER_ADDR",
            "SERVER_NAME",
            "SERVER_PORT",
            "SERVER_PROTOCOL",
        ];
        if !STANDARD.contains(&directive.word()) && directive.word() != "SERVER_SOFTWARE" {
            self.lost(directive, "a program gets the variables of CGI; set others where it starts (env[NAME] of php-fpm)");
        }
    }

    /// A field of requests to an upstream, for paths that match the globs, or for all paths without any.
    pub(super) fn forwarded(&mut self, directive: &Directive, globs: &[String]) {
        let name = directive.word().to_ascii_lowercase();
        let value = directive.words.get(1).map_or("", String::as_str);
        match (&*name, value) {
            ("host", "$host" | "$http_host" | "$server_name") => return,
            (
                "upgrade" | "connection" | "x-forwarded-for" | "x-forwarded-proto"
                | "x-forwarded-host" | "forwarded" | "proxy",
                _,
            ) => return,
            _ => {}
        }
        let change = match value {
            "" => format!("remove {}", directive.word()),
            value => match of_request(value) {
                Ok(value) => format!("set {}: {value}", directive.word()),
                Err(why) => return self.lost(directive, why),
            },
        };
        let rule = change.parse::<MessageRule>();
        let checked = rule.and_then(|rule| rule.check_for_requests());
        match checked {
            Ok(()) => self.rules("request-header", globs, &change),
            Err(why) => self.lost(directive, why),
        }
    }

    /// A field that responses of upstreams do not have.
    pub(super) fn hide(&mut self, directive: &Directive, globs: &[String]) {
        let change = format!("remove {}", directive.word());
        let rule = change.parse::<MessageRule>();
        match rule.and_then(|rule| rule.check_for_responses()) {
            Ok(()) => self.rules("response-header", globs, &change),
            Err(why) => self.lost(directive, why),
        }
    }

    /// Adds a rule for fields, for paths that match the globs.
    fn rules(&mut self, key: &'static str, globs: &[String], change: &str) {
        match globs {
            [] => self.table.add(key, change),
            globs => globs.iter().for_each(|glob| {
                let path = condition(glob);
                self.table.add(key, format!("{path}{change}"));
            }),
        }
    }
}

/// Addresses with their weights, and how requests are divided among them, if it is said.
type Servers = (Vec<(String, u32)>, Option<String>);

/// The upstreams of a prefix.
pub(super) struct UpstreamGroup {
    /// With their weights.
    pub(super) urls: Vec<String>,
    /// How requests are divided among them, if it is said.
    balance: Option<String>,
}

/// Returns the hash for a key of nginx.
fn hash(key: &str) -> Option<String> {
    let key = match key {
        "$remote_addr" | "$binary_remote_addr" => "client".to_owned(),
        "$request_uri" | "$uri" => "uri".to_owned(),
        _ => match (key.strip_prefix("$cookie_"), key.strip_prefix("$http_")) {
            (Some(name), _) => format!("cookie:{name}"),
            (None, Some(name)) => format!("header:{}", name.replace('_', "-")),
            (None, None) => return None,
        },
    };
    Some(format!("hash={key}"))
}

/// Returns the path that replaces the prefix of a location, if a `rewrite … break` in it says so.
pub(super) fn inner_path(location: &Directive, pattern: &Pattern) -> Option<String> {
    let Pattern::Prefix(prefix) = pattern else {
        return None;
    };
    let mut rewrites = location.inner().iter().filter(|it| it.name == "rewrite");
    let (first, None) = (rewrites.next()?, rewrites.next()) else {
        return None;
    };
    let [regex, target, flag] = &first.words[..] else {
        return None;
    };
    let rest = regex.strip_prefix('^')?.replace('\\', "");
    let rest = rest.strip_prefix(&**prefix)?;
    let whole = matches!(rest, "(.*)" | "(.*)$");
    let path = target.strip_suffix("$1")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    let good = flag == "break" && whole && prefix.ends_with('/') && path.ends_with('/');
    (good && path.starts_with('/') && path.chars().all(plain)).then(|| path.to_owned())
}
