//! `allow` and `deny`, and limits of requests, connections and rates.

use super::location::Site;
use super::parser::Directive;
use super::translate::Shared;
use super::values::bytes;
use laio_serve::Network;

/// All clients.
const EVERYONE: [&str; 3] = ["0.0.0.0/0", "::/0", "unix"];

impl Site<'_, '_> {
    /// Takes the `allow` and `deny` of a block, for paths that match the globs, or for all paths without any.
    pub(super) fn networks(&mut self, rules: &[&Directive], globs: &[String]) {
        let (mut allowed, mut denied, mut refuses_others) = (Vec::new(), Vec::new(), false);
        for rule in rules {
            let text = match rule.word() {
                "all" => {
                    // Later rules do not count.
                    refuses_others = rule.name == "deny";
                    break;
                }
                "unix:" => "unix",
                text => text,
            };
            match text.parse::<Network>() {
                Ok(_) if rule.name == "deny" => denied.push((text, rule)),
                Ok(_) => allowed.push((text, rule)),
                Err(why) => {
                    self.lost(rule, why);
                    // Whom the rule would let in is refused, and not the other way round.
                    refuses_others |= rule.name == "deny";
                }
            }
        }
        match (refuses_others, &allowed[..]) {
            (true, []) => return self.refuse_everyone(globs),
            (true, _) => {
                for (network, _) in &allowed {
                    self.rule("allow", globs, network);
                }
            }
            (false, [(_, first), ..]) if !denied.is_empty() => {
                let why =
                    "with an allow, laio refuses all others: write deny for the smaller networks";
                self.lost(first, why);
            }
            _ => {}
        }
        for (network, _) in &denied {
            self.rule("deny", globs, network);
        }
    }

    /// Refuses all clients, for paths that match the globs.
    pub(super) fn refuse_everyone(&mut self, globs: &[String]) {
        let mut refuse = |globs: &[String]| {
            for network in EVERYONE {
                self.rule("deny", globs, network);
            }
        };
        match globs {
            [] => refuse(&[]),
            globs => globs.chunks(1).for_each(refuse),
        }
    }

    /// Adds a value that may have globs before it.
    fn rule(&mut self, key: &'static str, globs: &[String], value: &str) {
        match globs {
            [] => self.table.add(key, value),
            globs => globs
                .iter()
                .for_each(|glob| self.table.add(key, format!("{glob}={value}"))),
        }
    }

    /// Takes a `limit_req`.
    pub(super) fn requests(&mut self, directive: &Directive, globs: &[String]) {
        let (mut zone, mut burst) = (None, 0);
        for word in &directive.words {
            match word.split_once('=') {
                Some(("zone", name)) => zone = Some(name),
                Some(("burst", count)) => burst = count.parse::<u32>().unwrap_or(0),
                _ => {} // nodelay, delay
            }
        }
        let zone = zone.and_then(|name| self.shared.zones.get(name).copied());
        let Some((rate, by)) = zone.and_then(rate_of) else {
            return self.lost(directive, "use --rate, such as 10/s,burst=20");
        };
        if !directive.words.iter().any(|word| word == "nodelay") {
            self.shared
                .remarks
                .differs(directive, "laio delays no request: it answers 429");
        }
        let burst = burst.saturating_add(1);
        self.rule("rate", globs, &format!("{rate},burst={burst},by={by}"));
    }

    /// Takes a `limit_rate`.
    pub(super) fn speed(
        &mut self,
        directive: &Directive,
        after: Option<&Directive>,
        globs: &[String],
    ) {
        let size = bytes(directive.word());
        let after = after.map_or(Some(0), |after| bytes(after.word()));
        match (size, after) {
            (Some(0), _) => {}
            (Some(size), Some(0)) => self.rule("limit-rate", globs, &size.to_string()),
            (Some(size), Some(after)) => {
                self.rule("limit-rate", globs, &format!("{size},after={after}"))
            }
            _ => self.lost(directive, "write --limit-rate BYTES,after=BYTES"),
        }
    }

    /// Takes a `limit_conn`.
    pub(super) fn connections(&mut self, directive: &Directive) {
        let zone = self.shared.zones.get(directive.word()).copied();
        let by_client = zone.is_some_and(|zone| is_client(zone.word()));
        match directive
            .words
            .get(1)
            .and_then(|count| count.parse::<u32>().ok())
        {
            Some(count) if count > 0 && by_client => {
                self.shared
                    .global
                    .set("max-connections-per-address", i64::from(count));
                let how = "this holds for all connections of an address, not only for those with a request";
                self.shared.remarks.differs(directive, how);
            }
            _ => self.lost(
                directive,
                "--max-connections-per-address limits the connections of an address",
            ),
        }
    }
}

/// Returns the rate of a `limit_req_zone`, and what has a bucket of its own.
fn rate_of(zone: &Directive) -> Option<(String, &'static str)> {
    let rate = zone
        .words
        .iter()
        .find_map(|word| word.strip_prefix("rate="))?;
    let (count, unit) = rate.split_once("r/")?;
    let count: u32 = count.parse().ok().filter(|count| *count > 0)?;
    let by = match zone.word() {
        key if is_client(key) => "client",
        "$server_name" | "$host" => "site",
        "$binary_remote_addr$request_uri" | "$binary_remote_addr$uri" => "client+path",
        "$request_uri" | "$uri" => "path",
        _ => return None,
    };
    matches!(unit, "s" | "m").then(|| (format!("{count}/{unit}"), by))
}

fn is_client(key: &str) -> bool {
    matches!(key, "$binary_remote_addr" | "$remote_addr")
}

impl<'d> Shared<'d> {
    /// Sets the proxies that say who the client is. `proxied` is a server whose connections begin with the header of
    /// a proxy.
    pub(super) fn real_ip(&mut self, directives: &[&'d Directive], proxied: Option<&'d Directive>) {
        for directive in directives {
            match (&*directive.name, directive.word()) {
                ("set_real_ip_from", "unix:") => self.global.add("trust-proxy", "unix"),
                ("set_real_ip_from", network) => match network.parse::<Network>() {
                    Ok(_) => self.global.add("trust-proxy", network),
                    Err(why) => self.remarks.lost(directive, why),
                },
                (_, "proxy_protocol") if proxied.is_some() => {}
                (_, "proxy_protocol") => self.remarks.lost(
                    directive,
                    "no address has proxy_protocol: write proxy: before the address of --listen",
                ),
                (_, "X-Forwarded-For") => {}
                (_, name) => self.global.set("client-field", name),
            }
        }
        if let Some(server) = proxied.filter(|_| !self.global.has("trust-proxy")) {
            self.remarks.lost(
                server,
                "no set_real_ip_from names the proxy, and laio does not start without: set trust-proxy to its network",
            );
        }
    }
}
