//! From the tree of an nginx configuration to a configuration file: what holds for the whole server. `site`
//! translates each `server` block.

use super::known::{advice, is_needless};
use super::parser::Directive;
use super::remarks::Remarks;
use super::site::{self, Server};
use super::table::Table;
use super::values::{bytes, seconds};
use crate::serve::config::ConfigurationReader;
use std::collections::HashMap;

/// What the servers of a configuration share.
pub(super) struct Shared<'d> {
    /// Checks what is written.
    pub(super) reader: &'d ConfigurationReader,
    pub(super) remarks: Remarks,
    /// Directives of `http` that servers inherit.
    http: Vec<&'d Directive>,
    pub(super) upstreams: HashMap<&'d str, &'d Directive>,
    /// `limit_req_zone` and `limit_conn_zone` by name.
    pub(super) zones: HashMap<&'d str, &'d Directive>,
    /// Formats of the access log by name.
    formats: HashMap<&'d str, &'d Directive>,
    /// The keys of the whole server.
    pub(super) global: Table,
}

/// The file of the default site, where the configuration names none: it has no files.
pub(super) const EMPTY_ROOT: &str = "/var/empty";

/// Directives that hold for all blocks inside theirs.
pub(super) const INHERITED: [&str; 51] = [
    "allow",
    "deny",
    "limit_conn",
    "limit_rate",
    "limit_rate_after",
    "limit_req",
    "real_ip_header",
    "set_real_ip_from",
    "access_log",
    "add_header",
    "create_full_put_path",
    "dav_access",
    "dav_ext_methods",
    "dav_methods",
    "fastcgi_hide_header",
    "min_delete_depth",
    "auth_basic",
    "auth_basic_user_file",
    "autoindex",
    "brotli",
    "brotli_static",
    "client_body_timeout",
    "client_header_timeout",
    "client_max_body_size",
    "error_page",
    "expires",
    "gzip",
    "gzip_static",
    "http2",
    "index",
    "keepalive_requests",
    "keepalive_timeout",
    "proxy_connect_timeout",
    "proxy_hide_header",
    "proxy_read_timeout",
    "proxy_set_header",
    "proxy_ssl_trusted_certificate",
    "root",
    "send_timeout",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_ciphers",
    "ssl_client_certificate",
    "ssl_crl",
    "ssl_protocols",
    "ssl_stapling",
    "ssl_verify_client",
    "zstd",
    "zstd_static",
    "disable_symlinks",
    "charset",
];

/// Limits, of which laio has one for the whole server.
pub(super) const LIMITS: [&str; 8] = [
    "client_body_timeout",
    "client_header_timeout",
    "client_max_body_size",
    "keepalive_requests",
    "keepalive_timeout",
    "proxy_connect_timeout",
    "proxy_read_timeout",
    "send_timeout",
];

/// Returns the configuration file, and the messages about the directives of nginx.
pub(super) fn translate<'d>(
    tree: &'d [Directive],
    reader: &'d ConfigurationReader,
) -> (String, Remarks) {
    let mut shared = Shared {
        reader,
        remarks: Remarks::default(),
        http: Vec::new(),
        upstreams: HashMap::new(),
        zones: HashMap::new(),
        formats: HashMap::new(),
        global: Table::default(),
    };
    let mut servers = Vec::new();
    for directive in tree {
        match &*directive.name {
            "user" => {
                shared.global.set("user", directive.word());
                if let Some(group) = directive.words.get(1) {
                    shared.global.set("group", group.as_str());
                }
            }
            "worker_processes" => match directive.word().parse::<u32>() {
                Ok(number) if number > 0 => shared.global.set("workers", i64::from(number)),
                _ => {} // auto: one for each processor, in both
            },
            "events" => events(&mut shared, directive),
            "http" => {
                for inner in directive.inner() {
                    in_http(&mut shared, inner, &mut servers);
                }
            }
            _ => in_http(&mut shared, directive, &mut servers),
        }
    }
    let servers: Vec<_> = servers
        .into_iter()
        .map(|it| Server::new(it, &mut shared))
        .collect();
    let text = site::all(&mut shared, &servers);
    (text, shared.remarks)
}

fn events(shared: &mut Shared<'_>, events: &Directive) {
    for directive in events.inner() {
        match (&*directive.name, directive.word().parse::<i64>()) {
            ("worker_connections", Ok(number)) if number > 0 => {
                shared.global.set("max-connections", number)
            }
            _ => shared.without_translation(directive),
        }
    }
}

fn in_http<'d>(
    shared: &mut Shared<'d>,
    directive: &'d Directive,
    servers: &mut Vec<&'d Directive>,
) {
    match &*directive.name {
        "server" if directive.block.is_some() => servers.push(directive),
        "upstream" => {
            shared.upstreams.insert(directive.word(), directive);
        }
        "limit_req_zone" | "limit_conn_zone" => {
            let zone = directive
                .words
                .iter()
                .find_map(|it| it.strip_prefix("zone="));
            let name = zone.and_then(|zone| zone.split(':').next());
            shared.zones.insert(name.unwrap_or_default(), directive);
        }
        "log_format" => {
            shared.formats.insert(directive.word(), directive);
        }
        // WebSockets are passed on without it.
        "map" if directive.word() == "$http_upgrade" => {}
        name if INHERITED.contains(&name) => shared.http.push(directive),
        _ => shared.without_translation(directive),
    }
}

impl<'d> Shared<'d> {
    /// Returns the directives of a name that hold in a server: its own, or those of `http`.
    pub(super) fn in_force(&self, server: &Server<'d>, name: &str) -> Vec<&'d Directive> {
        self.any_in_force(server, &[name])
    }

    /// Returns the directives of several names that hold in a server, in their order.
    pub(super) fn any_in_force(&self, server: &Server<'d>, names: &[&str]) -> Vec<&'d Directive> {
        let named = |it: &&'d Directive| names.contains(&&*it.name);
        let own: Vec<_> = server.own.iter().copied().filter(named).collect();
        match own.is_empty() {
            false => own,
            true => self.http.iter().copied().filter(named).collect(),
        }
    }

    /// Says what a directive without a translation takes.
    pub(super) fn without_translation(&mut self, directive: &Directive) {
        let built_in = [
            "mime.types",
            "proxy_params",
            "fastcgi_params",
            "fastcgi.conf",
            "fastcgi-php.conf",
        ];
        match &*directive.name {
            // Its settings of TLS are those of certbot: the versions and suites of laio.
            "include" if directive.word().ends_with("options-ssl-nginx.conf") => {}
            "include" if built_in.iter().any(|name| directive.word().ends_with(name)) => {}
            "include" => self.remarks.lost(directive, "there is no such file"),
            "charset"
                if !directive.word().eq_ignore_ascii_case("utf-8") && directive.word() != "off" =>
            {
                self.remarks.lost(
                    directive,
                    "laio declares text to be UTF-8; convert the files (iconv)",
                );
            }
            "server_tokens" => self.remarks.differs(
                directive,
                "the Server field stays laio/VERSION; --response-header 'remove Server' leaves it out",
            ),
            name if is_needless(name) => self.remarks.needless(directive),
            name => {
                let advice = advice(name);
                self.remarks.lost(directive, advice);
            }
        }
    }

    /// Sets the keys of limits that hold for the whole server, from what holds in each `server` block.
    pub(super) fn limits(&mut self, servers: &[&Server<'d>]) {
        for (name, keys) in [
            ("keepalive_timeout", &["idle-timeout"][..]),
            ("client_header_timeout", &["header-timeout"]),
            ("client_body_timeout", &["body-timeout"]),
            ("send_timeout", &["write-timeout"]),
            ("proxy_connect_timeout", &["upstream-connect-timeout"]),
            (
                "proxy_read_timeout",
                &["upstream-first-byte-timeout", "upstream-timeout"],
            ),
        ] {
            let Some(directive) = self.one_of(servers, name) else {
                continue;
            };
            match seconds(directive.word()) {
                Some(time) if time > 0.0 && time.fract() == 0.0 => {
                    keys.iter()
                        .for_each(|key| self.global.set(key, time as i64));
                }
                Some(time) if time > 0.0 => keys.iter().for_each(|key| self.global.set(key, time)),
                Some(_) => self.remarks.lost(
                    directive,
                    "laio has no connections without keep-alive; use --max-requests 1",
                ),
                None => self.remarks.lost(directive, "that is no time"),
            }
        }
        if let Some(directive) = self.one_of(servers, "keepalive_requests") {
            match directive.word().parse::<u32>() {
                Ok(number) if number > 0 => self.global.set("max-requests", i64::from(number)),
                _ => self
                    .remarks
                    .lost(directive, "that is no number of requests"),
            }
        }
        if let Some(directive) = self.one_of(servers, "client_max_body_size") {
            match bytes(directive.word()) {
                // No limit.
                Some(0) => self.global.set("max-upstream-body-bytes", i64::MAX),
                Some(size) => self.global.set("max-upstream-body-bytes", size),
                None => self.remarks.lost(directive, "that is no size"),
            }
        }
        self.log(servers);
    }

    /// Sets the target and the format of the access log.
    fn log(&mut self, servers: &[&Server<'d>]) {
        let Some(directive) = self.one_of(servers, "access_log") else {
            return;
        };
        let target = directive.word();
        if target.contains('$') {
            return self
                .remarks
                .lost(directive, "--log names one file, without variables");
        }
        let target = match (target, target.strip_prefix("syslog:")) {
            ("/dev/stdout", _) => "-".to_owned(),
            (_, Some(parameters)) => self.syslog(directive, parameters),
            (file, None) => file.to_owned(),
        };
        self.global.set("log", target);
        let format = directive
            .words
            .get(1)
            .map(String::as_str)
            .filter(|it| !it.contains('='));
        for word in directive.words.iter().skip(1).filter(|it| it.contains('=')) {
            self.remarks.differs(
                directive,
                format_args!("{word} is left out: laio writes lines as soon as it can"),
            );
        }
        match format {
            None | Some("combined" | "off") => {}
            Some(name) => match self.formats.get(name).copied() {
                Some(format) if format.words.iter().any(|word| word == "escape=json") => {
                    self.global.set("log-format", "json");
                    self.remarks.differs(
                        format,
                        "the JSON of laio has names of its own for the fields",
                    );
                }
                Some(format) => self
                    .remarks
                    .differs(format, "laio writes the format combined instead"),
                None => self
                    .remarks
                    .lost(directive, format_args!("there is no log_format {name}")),
            },
        }
    }

    /// Returns the target for the parameters of a syslog.
    fn syslog(&mut self, directive: &Directive, parameters: &str) -> String {
        let mut target = "syslog".to_owned();
        for parameter in parameters.split(',') {
            match parameter.split_once('=') {
                Some(("server", address)) => {
                    target = match address.strip_prefix("unix:") {
                        Some(path) => format!("syslog:{path}"),
                        None => format!("syslog:udp://{address}"),
                    };
                }
                _ => {
                    let how = "laio sends messages of RFC 5424, as laio with the facility local7";
                    self.remarks.differs(directive, how);
                }
            }
        }
        target
    }

    /// Returns all directives of `http` and of the servers with one of these names.
    pub(super) fn all_of(&self, servers: &[Server<'d>], names: &[&str]) -> Vec<&'d Directive> {
        let own = servers.iter().flat_map(|server| server.own.iter());
        let all = self.http.iter().chain(own).copied();
        all.filter(|it| names.contains(&&*it.name)).collect()
    }

    /// Returns the directive that sets something for the whole server. Of several values the first one is used,
    /// and the others are remarked.
    pub(super) fn one_of(&mut self, servers: &[&Server<'d>], name: &str) -> Option<&'d Directive> {
        let mut all: Vec<&Directive> = self
            .http
            .iter()
            .copied()
            .filter(|it| it.name == name)
            .collect();
        for server in servers {
            all.extend(server.own.iter().copied().filter(|it| it.name == name));
            if LIMITS.contains(&name) {
                let inner = server.locations.iter().flat_map(|it| it.inner());
                all.extend(inner.filter(|it| it.name == name));
            }
        }
        let (first, others) = all.split_first()?;
        for other in others.iter().filter(|other| other.words != first.words) {
            let text = format!(
                "laio has one setting for all hosts, that of {}: {}",
                first.place,
                first.shown()
            );
            self.remarks.lost(other, text);
        }
        Some(first)
    }
}
