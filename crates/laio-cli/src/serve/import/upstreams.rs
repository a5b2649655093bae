//! `proxy_pass` and `fastcgi_pass`: the upstreams of a site, and what they get.

use super::location::{OUTSIDE, Pattern, Site};
use super::parser::Directive;
use super::patterns::Paths;
use laio_serve::{Upstream, UpstreamAddress};

impl Site<'_, '_> {
    pub(super) fn proxy(&mut self, directive: &Directive, location: &Directive, pattern: &Pattern) {
        let url = match self.upstream_url(directive) {
            Ok(url) => url,
            Err(why) => return self.lost(directive, why),
        };
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
        let value = format!("{prefix}={url}");
        match Upstream::http(&value) {
            Ok(_) => self.table.add("proxy", value),
            Err(why) => self.lost(directive, why),
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

    /// Returns the URL of `proxy_pass` as `--proxy` takes it.
    fn upstream_url(&mut self, directive: &Directive) -> Result<String, String> {
        let url = directive.word();
        if url.contains('$') {
            return Err("--proxy names one upstream, without variables".to_owned());
        }
        if let Some(rest) = url.strip_prefix("http://unix:") {
            return Ok(format!("http+unix:{rest}"));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err("that is no URL".to_owned());
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = match self.first_server(host)? {
            Some(address) => address,
            None => host.to_owned(),
        };
        match host.strip_prefix("unix:") {
            Some(socket) if path.is_empty() => Ok(format!("http+unix:{socket}")),
            Some(socket) => Ok(format!("http+unix:{socket}:{path}")),
            None => Ok(format!("{scheme}://{host}{path}")),
        }
    }

    /// Returns the address of the first server of an `upstream` block, if there is one of this name.
    fn first_server(&mut self, name: &str) -> Result<Option<String>, String> {
        let Some(block) = self.shared.upstreams.get(name).copied() else {
            return Ok(None);
        };
        let is_server = |it: &&Directive| it.name == "server";
        let down = |it: &&Directive| it.words.iter().any(|word| word == "down");
        let servers: Vec<_> = block
            .inner()
            .iter()
            .filter(is_server)
            .filter(|it| !down(it))
            .collect();
        let Some((first, others)) = servers.split_first() else {
            return Err(format!("the upstream {name} has no server"));
        };
        for other in others {
            self.lost(other, "laio passes requests on to the first server of an upstream; put a balancer between, or see `laio serve --help` for several upstreams");
        }
        for inner in block.inner() {
            let single = others.is_empty()
                && matches!(&*inner.name, "least_conn" | "ip_hash" | "random" | "hash");
            match &*inner.name {
                "server" | "keepalive" | "keepalive_timeout" | "keepalive_requests"
                | "keepalive_time" | "zone" => {}
                _ if single => {}
                _ => self.shared.without_translation(inner),
            }
        }
        Ok(Some(first.word().to_owned()))
    }

    pub(super) fn fastcgi(
        &mut self,
        directive: &Directive,
        location: &Directive,
        pattern: &Pattern,
    ) {
        let address = directive.word();
        let address = match self.first_server(address) {
            Ok(Some(own)) => own,
            Ok(None) => address.to_owned(),
            Err(why) => return self.lost(directive, why),
        };
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
                self.table.set("php", address);
                if extensions != ["php"] {
                    self.table.set("php-extension", extensions);
                }
            }
            (None, Pattern::Prefix(prefix)) => {
                self.proxies_all |= prefix == "/";
                self.redirect_to_slash(prefix);
                self.table.add("fastcgi", format!("{prefix}={address}"));
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

    /// A field of requests to an upstream.
    pub(super) fn forwarded(&mut self, directive: &Directive) {
        let name = directive.word().to_ascii_lowercase();
        let value = directive.words.get(1).map_or("", String::as_str);
        match (&*name, value) {
            ("host", "$host" | "$http_host" | "$server_name") => {}
            (
                "upgrade" | "connection" | "x-forwarded-for" | "x-forwarded-proto"
                | "x-forwarded-host" | "x-forwarded-port" | "x-forwarded-server" | "forwarded"
                | "proxy",
                _,
            ) => {}
            ("x-real-ip", _) => {
                self.shared.remarks.differs(
                    directive,
                    "the address of the client is in X-Forwarded-For and Forwarded",
                );
            }
            _ => self.lost(
                directive,
                "an upstream gets the fields of the client, and X-Forwarded-For, -Proto and -Host",
            ),
        }
    }
}
