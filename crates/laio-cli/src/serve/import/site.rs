//! The `server` blocks: addresses, certificates and names, and which of them is the main site.

use super::location;
use super::parser::Directive;
use super::ranking::is_slash;
use super::table::Table;
use super::translate::{EMPTY_ROOT, Shared};
use super::values::{Listening, listening};
use std::collections::HashSet;

/// A `server` block.
pub(super) struct Server<'d> {
    pub(super) directive: &'d Directive,
    /// Its directives, except for those below.
    pub(super) own: Vec<&'d Directive>,
    pub(super) locations: Vec<&'d Directive>,
    /// The names; none for a server of all other names.
    pub(super) names: Vec<String>,
    pub(super) listens: Vec<Listening>,
}

impl<'d> Server<'d> {
    pub(super) fn new(directive: &'d Directive, shared: &mut Shared<'d>) -> Server<'d> {
        let mut server = Server {
            directive,
            own: Vec::new(),
            locations: Vec::new(),
            names: Vec::new(),
            listens: Vec::new(),
        };
        for inner in directive.inner() {
            match &*inner.name {
                "location" => server.locations.push(inner),
                "listen" => match listening(inner) {
                    Some(listening) => {
                        for word in &listening.lost {
                            let why = format!("{word} has no equivalent");
                            shared.remarks.lost(inner, why);
                        }
                        server.listens.push(listening);
                    }
                    None => shared
                        .remarks
                        .lost(inner, "write an address and a port: --listen ADDRESS:PORT"),
                },
                "server_name" => server.add_names(inner, shared),
                _ => server.own.push(inner),
            }
        }
        if server.listens.is_empty() {
            server.listens.push(Listening {
                address: "0.0.0.0:80".to_owned(),
                ..Listening::default()
            });
        }
        server
    }

    fn add_names(&mut self, directive: &Directive, shared: &mut Shared<'_>) {
        for name in &directive.words {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.[]:".contains(c);
            let rest = name.strip_prefix("*.").or_else(|| name.strip_prefix('.'));
            match rest {
                None if name.is_empty() || name == "_" => {}
                None if name.chars().all(plain) => self.names.push(name.clone()),
                Some(rest) if !rest.is_empty() && rest.chars().all(plain) => {
                    if name.starts_with('.') {
                        self.names.push(rest.to_owned());
                    }
                    self.names.push(format!("*.{rest}"));
                }
                _ => {
                    let why = format!("{name} is neither a name nor *.NAME, as in [host.NAME]");
                    shared.remarks.lost(directive, why);
                }
            }
        }
    }

    pub(super) fn has_tls(&self) -> bool {
        self.listens.iter().any(|it| it.tls)
    }

    fn is_default(&self) -> bool {
        self.listens.iter().any(|it| it.is_default)
    }

    /// Whether the server does nothing but redirect to https, with the directives that say so.
    fn redirects_to_https(&self, encrypted: &HashSet<&str>) -> bool {
        if self.has_tls() {
            return false;
        }
        let own = self.own.iter().any(|it| self.is_to_https(it, encrypted));
        let slash = self.locations.iter().filter(|it| is_slash(it));
        own || slash
            .flat_map(|it| it.inner())
            .any(|it| self.is_to_https(it, encrypted))
    }

    /// Whether the server redirects the requests that arrive in the clear, beside answering others.
    fn redirects_those_in_the_clear(&self, encrypted: &HashSet<&str>) -> bool {
        self.own
            .iter()
            .any(|it| it.name == "if" && self.is_to_https(it, encrypted))
    }

    /// Whether a directive redirects a request to the same address of https.
    fn is_to_https(&self, directive: &Directive, encrypted: &HashSet<&str>) -> bool {
        let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        let url = match (&*directive.name, &words[..]) {
            // Certbot writes such conditions, for each name.
            ("if", _) => {
                return directive
                    .inner()
                    .iter()
                    .any(|it| it.name != "if" && self.is_to_https(it, encrypted));
            }
            ("return", ["301" | "302" | "307" | "308", url] | [url]) => url,
            ("rewrite", ["^" | "^/(.*)$" | "^(.*)$" | "^/(.*)" | "^(.*)", url, ..]) => url,
            _ => return false,
        };
        let Some(rest) = url.strip_prefix("https://") else {
            return false;
        };
        let end = rest.find(['/', '$']).filter(|&at| at > 0);
        let (host, path) = match ["$host", "$server_name", "$http_host"]
            .iter()
            .find_map(|it| rest.strip_prefix(it))
        {
            Some(path) => (None, path),
            None => match end {
                Some(end) => (Some(&rest[..end]), &rest[end..]),
                None => (Some(rest), ""),
            },
        };
        let here = host.is_none_or(|host| {
            encrypted.contains(host) || self.names.iter().any(|name| name == host)
        });
        let whole = [
            "$request_uri",
            "$request_uri?",
            "$uri",
            "$1",
            "/$1",
            "$uri$is_args$args",
        ]
        .contains(&path);
        here && whole
    }
}

/// Returns the configuration file of all servers.
pub(super) fn all<'d>(shared: &mut Shared<'d>, servers: &[Server<'d>]) -> String {
    let encrypted: HashSet<&str> = servers
        .iter()
        .filter(|it| it.has_tls())
        .flat_map(|it| it.names.iter().map(String::as_str))
        .collect();
    let any_tls = servers.iter().any(Server::has_tls);
    let redirects = |server: &&Server<'_>| any_tls && server.redirects_to_https(&encrypted);
    let (redirecting, kept): (Vec<&Server<'_>>, Vec<&Server<'_>>) =
        servers.iter().partition(redirects);
    addresses(shared, servers);
    certificates(shared, servers);
    let real_ip = shared.all_of(servers, &["set_real_ip_from", "real_ip_header"]);
    let proxied = servers
        .iter()
        .find(|it| it.listens.iter().any(|it| it.proxied));
    shared.real_ip(&real_ip, proxied.map(|it| it.directive));
    let all: Vec<_> = servers.iter().collect();
    shared.limits(&all);
    redirect_http(shared, &redirecting, &kept, &encrypted);
    let default = kept.iter().position(|it| it.is_default()).unwrap_or(0);
    let Some(main) = kept.get(default) else {
        shared.global.set("root", EMPTY_ROOT);
        let mut global = std::mem::take(&mut shared.global);
        for (key, why) in global.leave_malformed_out(shared.reader) {
            shared.remarks.lost_key(key, &why);
        }
        return format!("{HEAD}\n{}", global.text());
    };
    let mut tables: Vec<Table> = kept.iter().map(|it| location::table(shared, it)).collect();
    let mut hosts = hosts(shared, &kept, default);
    // What a host cannot turn off must not be on in the main site.
    let mut main_table = tables[default].clone();
    let keys = ["auth", "php", "upstream-ca", "upload"];
    let on = |key: &&str| {
        main_table.has(key) && hosts.iter().any(|(number, _)| !tables[*number].has(key))
    };
    if let Some(key) = keys.iter().find(|key| on(key)) {
        match main.names.is_empty() {
            true => {
                let text = format!(
                    "--{key} of this server holds for the other hosts too, because a host cannot turn it off; run \
                     another `laio serve` for it"
                );
                shared.remarks.lost(main.directive, text);
            }
            false => {
                let text = "requests for other names than those of the hosts get 404";
                shared.remarks.differs(main.directive, text);
                hosts.insert(0, (default, main.names.clone()));
                main_table = Table::default();
                main_table.set("root", EMPTY_ROOT);
                main_table.add("try", "=404");
                needs_empty_root(shared, main.directive);
            }
        }
    }
    for (number, _) in &hosts {
        tables[*number].unset_those_of(&main_table);
    }
    let mut written = Written {
        global: std::mem::take(&mut shared.global),
        main: (main.directive, main_table),
        hosts: Vec::new(),
    };
    for (number, names) in hosts {
        let table = std::mem::take(&mut tables[number]);
        written
            .hosts
            .push((kept[number].directive, names.join(" "), table));
    }
    if shared.reader.check(&written.text()).is_err() {
        written.leave_malformed_out(shared);
    }
    written.text()
}

/// A configuration file, with the servers that its tables are those of.
struct Written<'d> {
    global: Table,
    main: (&'d Directive, Table),
    hosts: Vec<(&'d Directive, String, Table)>,
}

impl Written<'_> {
    fn text(&self) -> String {
        let (directive, table) = &self.main;
        let (global, place) = (self.global.text(), &directive.place);
        let mut text = format!(
            "{HEAD}\n{global}\n# The server of {place}.\n{}",
            table.text()
        );
        for (directive, names, table) in &self.hosts {
            let (name, place) = (toml::Value::from(names.as_str()), &directive.place);
            text += &format!(
                "\n# The server of {place}.\n[host.{name}]\n{}",
                table.text()
            );
        }
        text
    }

    /// Removes the keys whose values the server does not read, such as an empty name of a file.
    fn leave_malformed_out(&mut self, shared: &mut Shared<'_>) {
        let (directive, main) = &mut self.main;
        let hosts = self
            .hosts
            .iter_mut()
            .map(|(directive, _, table)| (*directive, table));
        let main = [(*directive, &mut self.global), (*directive, main)];
        for (directive, table) in main.into_iter().chain(hosts) {
            for (key, why) in table.leave_malformed_out(shared.reader) {
                let why = format!("no value for {key}: {why}");
                shared.remarks.lost(directive, why);
            }
        }
    }
}

/// The first line of the file.
const HEAD: &str = "# Made from a configuration of nginx by `laio serve --import`.\n";

/// Says that a site without files has a directory that must exist.
pub(super) fn needs_empty_root(shared: &mut Shared<'_>, directive: &Directive) {
    let text = format!(
        "there is no directory of files: create an empty one, with `mkdir -p {EMPTY_ROOT}`"
    );
    shared.remarks.differs(directive, text);
}

/// Returns the servers that become hosts, by their number, with their names.
fn hosts<'d>(
    shared: &mut Shared<'d>,
    kept: &[&Server<'d>],
    default: usize,
) -> Vec<(usize, Vec<String>)> {
    let mut known: HashSet<&str> = kept[default].names.iter().map(String::as_str).collect();
    let mut hosts = Vec::new();
    for (number, server) in kept
        .iter()
        .enumerate()
        .filter(|(number, _)| *number != default)
    {
        if server.names.is_empty() {
            let why = "laio tells sites apart by the names of hosts, not by addresses, and this server has no name";
            shared.remarks.lost(server.directive, why);
            continue;
        }
        let (new, old): (Vec<&String>, Vec<&String>) =
            server.names.iter().partition(|name| known.insert(name));
        if !old.is_empty() {
            let old: Vec<_> = old.iter().map(|name| name.as_str()).collect();
            let why = format!(
                "another server has the name {} too: laio tells sites apart by names, not by addresses",
                old.join(" ")
            );
            shared.remarks.lost(server.directive, why);
        }
        if !new.is_empty() {
            hosts.push((number, new.into_iter().cloned().collect()));
        }
    }
    hosts
}

fn addresses(shared: &mut Shared<'_>, servers: &[Server<'_>]) {
    let encrypted: HashSet<&str> = servers
        .iter()
        .flat_map(|it| &it.listens)
        .filter(|it| it.tls)
        .map(|it| &*it.address)
        .collect();
    let proxied: HashSet<&str> = servers
        .iter()
        .flat_map(|it| &it.listens)
        .filter(|it| it.proxied)
        .map(|it| &*it.address)
        .collect();
    for listening in servers.iter().flat_map(|it| &it.listens) {
        let prefix = match (
            proxied.contains(&*listening.address),
            encrypted.contains(&*listening.address),
        ) {
            (false, false) => "",
            (false, true) => "tls:",
            (true, false) => "proxy:",
            (true, true) => "proxy:tls:",
        };
        shared
            .global
            .add("listen", format!("{prefix}{}", listening.address));
    }
}

fn certificates<'d>(shared: &mut Shared<'d>, servers: &[Server<'d>]) {
    let mut pairs = Vec::new();
    for server in servers.iter().filter(|it| it.has_tls()) {
        let chains = shared.in_force(server, "ssl_certificate");
        let keys = shared.in_force(server, "ssl_certificate_key");
        if chains.is_empty() || chains.len() != keys.len() {
            shared.remarks.lost(
                server.directive,
                "each address with TLS needs a certificate and its key: --tls-cert, --tls-key",
            );
        }
        for (chain, key) in chains.into_iter().zip(keys) {
            let pair = (chain.word(), key.word());
            if pair.0.contains('$') || pair.1.contains('$') {
                shared.remarks.lost(
                    chain,
                    "name the files of each certificate: --tls-cert, --tls-key",
                );
            } else if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    if !pairs.is_empty() {
        let (chains, keys): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        shared.global.set("tls-cert", chains);
        shared.global.set("tls-key", keys);
    }
    let all: Vec<_> = servers.iter().filter(|it| it.has_tls()).collect();
    versions(shared, &all);
    clients(shared, &all);
    let off = |it: &&Directive| it.word() == "off";
    if shared.one_of(&all, "http2").filter(off).is_some() {
        shared.global.set("no-http2", true);
    }
    for name in ["ssl_ciphers", "ssl_stapling"] {
        if let Some(directive) = shared.one_of(&all, name).filter(|it| it.word() != "off") {
            shared
                .remarks
                .differs(directive, super::known::advice(name));
        }
    }
}

fn versions<'d>(shared: &mut Shared<'d>, servers: &[&Server<'d>]) {
    let Some(directive) = shared.one_of(servers, "ssl_protocols") else {
        return;
    };
    let mut versions = Vec::new();
    for word in &directive.words {
        match &**word {
            "TLSv1.2" => versions.push("1.2"),
            "TLSv1.3" => versions.push("1.3"),
            old => shared
                .remarks
                .differs(directive, format_args!("laio does not speak {old}")),
        }
    }
    match versions.len() {
        0 => shared
            .remarks
            .lost(directive, "laio speaks TLS 1.2 and 1.3"),
        1 => shared.global.set("tls-versions", versions),
        _ => {}
    }
}

/// Sets the authorities of client certificates.
fn clients<'d>(shared: &mut Shared<'d>, servers: &[&Server<'d>]) {
    let Some(verify) = shared
        .one_of(servers, "ssl_verify_client")
        .filter(|it| it.word() != "off")
    else {
        return;
    };
    let ca = shared.one_of(servers, "ssl_client_certificate");
    match (verify.word(), ca) {
        (whether @ ("on" | "optional"), Some(ca)) => {
            shared.global.set("client-ca", ca.word());
            if whether == "optional" {
                shared.global.set("client-auth", "optional");
            }
        }
        _ => shared.remarks.lost(
            verify,
            "use --client-ca and --client-auth required or optional",
        ),
    }
    if let Some(list) = shared.one_of(servers, "ssl_crl") {
        shared.global.add("client-crl", list.word());
    }
}

/// Sets the redirect to https.
fn redirect_http<'d>(
    shared: &mut Shared<'d>,
    redirecting: &[&Server<'d>],
    kept: &[&Server<'d>],
    encrypted: &HashSet<&str>,
) {
    let clear = kept.iter().find(|server| {
        server.listens.iter().any(|it| !it.tls) && !server.redirects_those_in_the_clear(encrypted)
    });
    let asked = redirecting.iter().chain(
        kept.iter()
            .filter(|it| it.redirects_those_in_the_clear(encrypted)),
    );
    let asked: Vec<_> = asked.collect();
    let Some(first) = asked.first() else { return };
    match clear {
        None => shared.global.set("redirect-http", true),
        Some(clear) => {
            let why = format!(
                "--redirect-http holds for all addresses without TLS, and the server of {} answers on one",
                clear.directive.place
            );
            shared.remarks.lost(first.directive, why);
        }
    }
    for server in redirecting {
        for location in server.locations.iter().filter(|it| !is_slash(it)) {
            match location.words.last().is_some_and(|path| path.starts_with("/.well-known/")) {
                true => shared.remarks.differs(
                    location,
                    "--redirect-http redirects these paths too: put the files below the root of the site, where clients find them by https",
                ),
                false => shared.remarks.lost(location, "--redirect-http redirects these paths too"),
            }
        }
    }
}
