//! The directives of a `server` block and of its locations, as the keys of a site.

use super::aliases::alias;
use super::fields::Fields;
use super::known::advice;
use super::parser::Directive;
use super::patterns::Paths;
use super::ranking::{OUTSIDE, Pattern, Rank, globs, is_below, is_slash, pattern, rank};
use super::site::{Server, needs_empty_root};
use super::table::Table;
use super::translate::{EMPTY_ROOT, INHERITED, LIMITS, Shared};
use super::upstreams::inner_path;
use super::values::candidate;
use laio_serve::Status;
use std::cmp::Reverse;

pub(super) struct Site<'s, 'd> {
    pub(super) shared: &'s mut Shared<'d>,
    pub(super) server: &'s Server<'d>,
    pub(super) table: Table,
    pub(super) root: String,
    /// The fields of the whole site.
    fields: Fields,
    /// The fields of locations, with their globs, and whether an upstream answers there. Of several that fit, the
    /// last one counts.
    inner: Vec<(Rank, Vec<String>, Fields, bool)>,
    pub(super) redirects: Vec<(Rank, String)>,
    pub(super) rewrites: Vec<(Rank, String)>,
    /// The number of locations so far.
    places: usize,
    /// Locations that answer, with their paths.
    answering: Vec<(String, &'d Directive)>,
    /// An upstream answers all paths that no other one does.
    pub(super) proxies_all: bool,
}

/// Returns the keys of a server's site.
pub(super) fn table<'d>(shared: &mut Shared<'d>, server: &Server<'d>) -> Table {
    let mut site = Site {
        shared,
        server,
        table: Table::default(),
        root: String::new(),
        fields: Fields::default(),
        inner: Vec::new(),
        redirects: Vec::new(),
        rewrites: Vec::new(),
        places: 0,
        answering: Vec::new(),
        proxies_all: false,
    };
    site.files();
    site.encodings();
    site.whole();
    let slash = |it: &&&Directive| is_slash(it);
    for location in server.locations.iter().filter(slash) {
        site.location(location);
    }
    for location in server.locations.iter().filter(|it| !is_slash(it)) {
        site.location(location);
    }
    site.candidates();
    site.finish()
}

impl<'d> Site<'_, 'd> {
    /// Returns the directives of a name that hold for all paths: those of `location /`, of the server, or of `http`.
    pub(super) fn in_force(&self, name: &str) -> Vec<&'d Directive> {
        let slash = self.server.locations.iter().filter(|it| is_slash(it));
        let inner: Vec<_> = slash
            .flat_map(|it| it.inner())
            .filter(|it| it.name == name)
            .collect();
        match inner.is_empty() {
            false => inner,
            true => self.shared.in_force(self.server, name),
        }
    }

    pub(super) fn lost(&mut self, directive: &Directive, why: impl std::fmt::Display) {
        self.shared.remarks.lost(directive, why);
    }

    /// The directory, its index files and listings, and error pages.
    fn files(&mut self) {
        let root = self.in_force("root").last().copied();
        self.root = match root {
            Some(root) if root.word().contains('$') => {
                self.lost(root, "write [host.NAME] with a root for each name");
                EMPTY_ROOT.to_owned()
            }
            Some(root) => root.word().to_owned(),
            None => {
                needs_empty_root(self.shared, self.server.directive);
                EMPTY_ROOT.to_owned()
            }
        };
        let root = self.root.clone();
        self.table.set("root", root);
        if let Some(index) = self.in_force("index").last() {
            let plain = |name: &&String| !name.contains(['/', '$', ',']);
            let names: Vec<String> = index.words.iter().filter(plain).cloned().collect();
            if names.len() < index.words.len() {
                self.lost(index, "an index file is a name in the directory");
            }
            if !names.is_empty() && names != ["index.html"] {
                self.table.set("index", names);
            }
        }
        if self
            .in_force("autoindex")
            .last()
            .is_some_and(|it| it.word() == "on")
        {
            self.table.set("listing", true);
        }
        if self
            .in_force("disable_symlinks")
            .last()
            .is_some_and(|it| it.word() == "on")
        {
            self.table.set("symlinks", "refuse");
        }
        for page in self.in_force("error_page") {
            self.error_page(page);
        }
    }

    fn error_page(&mut self, directive: &Directive) {
        if self.login(directive) {
            return;
        }
        let Some((file, codes)) = directive.words.split_last() else {
            return;
        };
        let name = file.trim_start_matches('/');
        let plain =
            file.starts_with('/') && !file.contains(['$', '?', '=']) && !name.ends_with(".php");
        if !plain || codes.iter().any(|code| code.starts_with('=')) {
            return self.lost(
                directive,
                "--error-page answers an error with a file of the site, and the same status",
            );
        }
        for code in codes {
            let status = code.parse().ok().and_then(Status::from_code);
            match status.filter(|status| status.is_error()) {
                Some(_) => self.table.add("error-page", format!("{code}={name}")),
                None => self.lost(directive, format_args!("laio sends no error {code}")),
            }
        }
    }

    fn encodings(&mut self) {
        for (key, codings) in [
            (
                "compress",
                [("zstd", "zstd"), ("brotli", "br"), ("gzip", "gzip")],
            ),
            (
                "precompressed",
                [
                    ("brotli_static", "br"),
                    ("zstd_static", "zst"),
                    ("gzip_static", "gz"),
                ],
            ),
        ] {
            for (name, coding) in codings {
                let on = |it: &&Directive| matches!(it.word(), "on" | "always");
                if self.in_force(name).last().copied().filter(on).is_some() {
                    self.table.add(key, coding);
                }
            }
        }
    }

    /// The other directives of the server itself.
    fn whole(&mut self) {
        for directive in self.shared.in_force(self.server, "add_header") {
            self.fields
                .add_header(self.shared, directive, Some(&mut self.table));
        }
        for directive in self.shared.in_force(self.server, "expires") {
            self.fields.expires(self.shared, directive);
        }
        let users = self
            .shared
            .in_force(self.server, "auth_basic_user_file")
            .last()
            .copied();
        if let Some(realm) = self
            .shared
            .in_force(self.server, "auth_basic")
            .last()
            .copied()
        {
            self.guard(realm, users, &[]);
        }
        if let Some(ca) = self.in_force("proxy_ssl_trusted_certificate").last() {
            self.table.set("upstream-ca", ca.word());
        }
        for directive in self
            .shared
            .any_in_force(self.server, &["proxy_hide_header", "fastcgi_hide_header"])
        {
            self.hide(directive, &[]);
        }
        let networks = self.shared.any_in_force(self.server, &["allow", "deny"]);
        self.networks(&networks, &[]);
        for directive in self.shared.in_force(self.server, "limit_req") {
            self.requests(directive, &[]);
        }
        for directive in self.shared.in_force(self.server, "limit_conn") {
            self.connections(directive);
        }
        let after = self.shared.in_force(self.server, "limit_rate_after");
        for directive in self.shared.in_force(self.server, "limit_rate") {
            self.speed(directive, after.last().copied(), &[]);
        }
        for directive in self.server.own.clone() {
            match &*directive.name {
                "return" | "rewrite" => {
                    let all = Pattern::Prefix("/".to_owned());
                    self.redirect(directive, &all, "/", OUTSIDE);
                }
                // The redirect to https.
                "if" if directive.inner().iter().all(|it| {
                    it.name == "return" && it.words.iter().any(|word| word.starts_with("https://"))
                }) && self.shared.global.has("redirect-http") => {}
                "try_files" => {} // candidates
                "auth_request" => self.auth_request(directive, None, &[]),
                "auth_request_set" => self.auth_request_set(directive, &[]),
                "ssl" => self.lost(
                    directive,
                    "write tls: before each address: --listen tls:ADDRESS:PORT",
                ),
                name if is_handled(name) => {}
                _ => self.shared.without_translation(directive),
            }
        }
    }

    fn location(&mut self, location: &'d Directive) {
        let (pattern, text) = pattern(location);
        if pattern == Pattern::Named {
            return; // where it is named
        }
        if pattern == Pattern::Other {
            let why = match location.words.first().is_some_and(|it| it.starts_with('~')) {
                true => {
                    "the regular expression is none that globs can say; laio answers these paths as the other ones"
                }
                false => "laio knows paths, prefixes, and regular expressions of file names",
            };
            if text.contains("php") {
                self.hide_scripts();
            }
            return self.lost(location, why);
        }
        if pattern == Pattern::Regex(Paths::Hidden) {
            return self.hidden(location);
        }
        if self.is_of_auth_server(location) {
            return;
        }
        let slash = is_slash(location);
        self.places += 1;
        let rank = rank(location, &pattern, self.places);
        let mut fields = match slash {
            true => self.fields.clone(),
            false => Fields::default(),
        };
        let globs = globs(&pattern);
        let answers = |name: &str| location.inner().iter().any(|it| it.name == name);
        let passes = answers("proxy_pass") || answers("fastcgi_pass") || answers("grpc_pass");
        let refuses = location.inner().iter().all(|it| match &*it.name {
            "deny" | "allow" | "access_log" | "log_not_found" => true,
            "return" => it.word().starts_with('4'),
            _ => false,
        });
        if let Pattern::Regex(Paths::Scripts(_)) = &pattern
            && !answers("fastcgi_pass")
            && !refuses
        {
            self.hide_scripts();
            let why = "scripts of laio are executed by a FastCGI program: set php to its address (the present one is an \
                       example, without which the scripts would be sent as text)";
            return self.lost(location, why);
        }
        let of = |names: &[&str]| -> Vec<&'d Directive> {
            let all = location.inner().iter();
            all.filter(|it| names.contains(&&*it.name)).collect()
        };
        // Those of all paths need no glob.
        let places: &[String] = if slash { &[] } else { &globs };
        if !slash {
            self.let_in_beside_slash(location, &globs);
        }
        let networks = of(&["allow", "deny"]);
        if !networks.is_empty() {
            let outer = self.shared.in_force(self.server, "deny");
            if !outer.is_empty() {
                let how = "the networks of the server hold for these paths too";
                self.shared.remarks.differs(networks[0], how);
            }
            self.networks(&networks, places);
        }
        if let Pattern::Exact(path) | Pattern::Prefix(path) = &pattern
            && !location
                .inner()
                .iter()
                .any(|it| matches!(&*it.name, "return" | "rewrite"))
        {
            self.answering.push((path.clone(), location));
        }
        let is_error_page = matches!(&pattern, Pattern::Exact(path) if self.is_error_page(path));
        let only_logs = location
            .inner()
            .iter()
            .all(|it| matches!(&*it.name, "access_log" | "log_not_found"));
        if self.proxies_all
            && !passes
            && !refuses
            && !answers("return")
            && !is_error_page
            && !only_logs
            && !self.serves_directory_beside_upstream(location, &pattern)
        {
            let why = "files beside an upstream of all paths: let root be a directory with nothing but public files, and \
                       add try = [\"{path}\", \"@upstream\"]";
            return self.lost(location, why);
        }
        let users = location
            .inner()
            .iter()
            .find(|it| it.name == "auth_basic_user_file");
        let users = users.or_else(|| {
            self.shared
                .in_force(self.server, "auth_basic_user_file")
                .last()
                .copied()
        });
        let after = of(&["limit_rate_after"]).first().copied();
        for directive in location.inner() {
            match &*directive.name {
                "allow" | "deny" | "limit_rate_after" => {}
                "limit_req" => self.requests(directive, places),
                "limit_rate" => self.speed(directive, after, places),
                "limit_conn" => self.connections(directive),
                "proxy_pass" | "grpc_pass" => self.proxy(directive, location, &pattern),
                "fastcgi_pass" => self.fastcgi(directive, location, &pattern),
                // The path of the upstream.
                "rewrite" if passes && inner_path(location, &pattern).is_some() => {}
                "rewrite" if passes && directive.words.last().is_some_and(|it| it == "break") => {
                    self.lost(
                        directive,
                        "the new path would have another upstream: let the URL of --proxy replace the prefix",
                    );
                }
                "return" | "rewrite" => self.redirect(directive, &pattern, text, rank),
                "auth_request" => self.auth_request(directive, Some(location), places),
                "auth_request_set" => self.auth_request_set(directive, &of(&["add_header"])),
                "add_header" | "proxy_set_header" | "fastcgi_param"
                    if self.copies(directive, location) => {}
                "add_header" if slash => {
                    let mut table = std::mem::take(&mut self.table);
                    fields.add_header(self.shared, directive, Some(&mut table));
                    self.table = table;
                }
                "add_header" => fields.add_header(self.shared, directive, None),
                "expires" => fields.expires(self.shared, directive),
                "auth_basic" => self.guard(directive, users, &globs),
                "auth_basic_user_file" => {}
                "access_log" | "log_not_found" => self.log(directive, &globs),
                "root" if directive.word() == self.root => {}
                "alias" if is_below(directive.word(), &self.root, text) => {}
                "root" | "alias" => match alias(directive, &pattern) {
                    Some(alias) => self.table.add("alias", alias),
                    None => {
                        let advice = advice("alias");
                        self.lost(directive, advice);
                    }
                },
                "internal" if !is_error_page => {
                    self.refuse_everyone(places);
                    self.lost(
                    directive,
                    "laio answers 403 for these paths: keep the files out of the root, and let the upstream name \
                     them in X-Sendfile (--sendfile-root)",
                    );
                }
                "try_files" if slash || answers("fastcgi_pass") => {}
                "try_files" if directive.words.last().is_some_and(|it| it == "=404") => {
                    if self.has_candidates() {
                        self.lost(directive, "--try holds for the whole site");
                    }
                }
                "try_files" => self.lost(directive, "--try holds for the whole site"),
                // The paths of these are whole.
                "location"
                    if slash
                        || matches!(
                            super::ranking::pattern(directive).0,
                            Pattern::Exact(_) | Pattern::Prefix(_)
                        ) =>
                {
                    self.location(directive);
                }
                "location" => self.lost(directive, "write it beside the outer location"),
                "fastcgi_param" => self.parameter(directive),
                "internal" if is_error_page => {}
                "proxy_redirect" if directive.word() == "off" => {}
                "proxy_set_header" if passes => self.forwarded(directive, places),
                "proxy_hide_header" | "fastcgi_hide_header" => self.hide(directive, places),
                "dav_methods" if slash || self.allows_same_changes(directive) => {}
                "create_full_put_path" | "dav_ext_methods" | "dav_access" | "min_delete_depth"
                    if slash => {}
                "dav_methods" => self.lost(
                    directive,
                    "--upload holds for the whole site: give the directory a host of its own",
                ),
                "error_page" if !slash && self.login(directive) => {}
                name if LIMITS.contains(&name) => {} // translate
                name if is_handled(name) && slash => {}
                name if is_handled(name) => self.for_one_location(directive),
                _ => self.shared.without_translation(directive),
            }
        }
        // A location without fields of its own for its upstream has those around it.
        if passes && of(&["proxy_set_header"]).is_empty() {
            for directive in self.shared.in_force(self.server, "proxy_set_header") {
                if !self.copies(directive, location) {
                    self.forwarded(directive, places);
                }
            }
        }
        match slash {
            true => self.fields = fields,
            false if fields.is_empty() => {}
            false => self.inner.push((rank, globs, fields, passes)),
        }
    }

    /// Whether the methods of a location are those of all paths.
    fn allows_same_changes(&self, directive: &Directive) -> bool {
        let whole = self.in_force("dav_methods");
        whole.last().is_some_and(|it| it.words == directive.words)
    }

    /// A setting that laio has for the whole site, in a location.
    fn for_one_location(&mut self, directive: &Directive) {
        let whole = self.in_force(&directive.name);
        if whole.last().is_some_and(|it| it.words == directive.words) {
            return;
        }
        let off = directive.word() == "off";
        let key = match &*directive.name {
            "autoindex" if off && !self.table.has("listing") => return,
            "gzip" if !off => ("compress", "gzip"),
            "brotli" if !off => ("compress", "br"),
            "gzip_static" if !off => ("precompressed", "gz"),
            "brotli_static" if !off => ("precompressed", "br"),
            _ => return self.lost(directive, "laio has one setting for the whole site"),
        };
        self.table.add(key.0, key.1);
        self.shared
            .remarks
            .differs(directive, "this holds for the whole site");
    }

    /// A location of names that begin with a dot, which are not served anyway.
    fn hidden(&mut self, location: &Directive) {
        for directive in location.inner() {
            match &*directive.name {
                "deny" | "access_log" | "log_not_found" => {}
                "return" if directive.word().starts_with('4') => {}
                "allow" => self.lost(
                    directive,
                    "use --dotfiles, which serves all names that begin with a dot",
                ),
                _ => self.shared.without_translation(directive),
            }
        }
    }

    /// Keeps scripts from being sent as text, where the configuration does not say what executes them.
    pub(super) fn hide_scripts(&mut self) {
        if !self.table.has("php") {
            self.table.set("php", "unix:/run/php/php-fpm.sock");
        }
    }

    fn is_error_page(&self, path: &str) -> bool {
        let name = path.trim_start_matches('/');
        let pages = self.table.get("error-page").and_then(toml::Value::as_array);
        let mut pages = pages.into_iter().flatten().filter_map(toml::Value::as_str);
        pages.any(|page| page.split_once('=').is_some_and(|(_, file)| file == name))
    }

    fn log(&mut self, directive: &Directive, globs: &[String]) {
        if directive.name != "access_log" {
            return;
        }
        let whole = self.shared.in_force(self.server, "access_log");
        if whole.last().is_some_and(|it| it.words == directive.words) {
            return;
        }
        if directive.word() != "off" {
            return self.lost(directive, "laio has one log for all paths");
        }
        // Those of a host would be paths of the others too.
        if globs == ["**"] {
            return self
                .shared
                .remarks
                .differs(directive, "the log has these requests too");
        }
        for glob in globs {
            self.shared.global.add("log-skip", glob.clone());
        }
    }

    /// Requires passwords for paths, or for all of them.
    fn guard(&mut self, realm: &Directive, users: Option<&Directive>, globs: &[String]) {
        if realm.word() == "off" {
            if self.table.has("auth") {
                self.lost(
                    realm,
                    "these paths need a password too: list in auth-path those that do",
                );
            }
            return;
        }
        let Some(users) = users else {
            return self.lost(
                realm,
                "there is no auth_basic_user_file: laio would serve these paths to everyone",
            );
        };
        let file = users.word();
        let other = self
            .table
            .get("auth")
            .and_then(toml::Value::as_str)
            .filter(|own| *own != file);
        if other.is_some() {
            self.lost(users, "a site has one file of users");
        } else {
            if !self.table.has("auth") {
                self.shared.remarks.differs(
                    users,
                    "its hashes must be those of bcrypt or Argon2 (`htpasswd -B`): see --check",
                );
            }
            self.table.set("auth", file);
            self.table.set("auth-realm", realm.word());
        }
        // Without paths, all of them are guarded already.
        let all = self.table.has("auth") && !self.table.has("auth-path") && self.guards_all();
        if !globs.is_empty() && !all && globs != ["**"] {
            globs
                .iter()
                .for_each(|glob| self.table.add("auth-path", glob.clone()));
        }
    }

    /// Whether the server itself requires passwords.
    fn guards_all(&self) -> bool {
        let whole = self.in_force("auth_basic");
        whole.last().is_some_and(|it| it.word() != "off")
    }

    /// Whether other candidates than the path itself may answer.
    fn has_candidates(&self) -> bool {
        let tried = self.in_force("try_files");
        tried
            .last()
            .is_some_and(|it| it.words.last().is_some_and(|last| last != "=404"))
    }

    /// `try_files` of all paths.
    fn candidates(&mut self) {
        let Some(tried) = self.in_force("try_files").last().copied() else {
            return;
        };
        let mut candidates = Vec::new();
        for word in &tried.words {
            let translated = match word.strip_prefix('@') {
                Some(_) => self.named(word),
                None => candidate(word),
            };
            match translated {
                Ok(text) => candidates.push(text),
                Err(why) => return self.lost(tried, why),
            }
        }
        if candidates.iter().any(|it| it.contains(".php")) && !self.table.has("php") {
            self.hide_scripts();
            self.lost(
                tried,
                "nothing executes the script: set php to the address of a FastCGI program",
            );
        }
        if candidates != ["{path}", "{path}/", "=404"] && !candidates.is_empty() {
            self.table.set("try", candidates);
        }
    }

    /// Returns the candidate for a named location.
    fn named(&mut self, name: &str) -> Result<String, String> {
        let found = self
            .server
            .locations
            .iter()
            .copied()
            .find(|it| it.word() == name);
        let Some(location) = found else {
            return Err(format!("there is no location {name}"));
        };
        let all = Pattern::Prefix("/".to_owned());
        let mut is_upstream = false;
        for directive in location.inner() {
            match &*directive.name {
                "proxy_pass" => {
                    self.proxy(directive, location, &all);
                    is_upstream = true;
                }
                "fastcgi_pass" => {
                    self.fastcgi(directive, location, &all);
                    is_upstream = true;
                }
                "proxy_set_header" => self.forwarded(directive, &[]),
                "proxy_hide_header" => self.hide(directive, &[]),
                "fastcgi_param" => self.parameter(directive),
                name if is_handled(name) => {}
                _ => self.shared.without_translation(directive),
            }
        }
        match is_upstream {
            true => Ok("@upstream".to_owned()),
            false => Err(format!("{name} passes requests on to no upstream")),
        }
    }

    fn finish(mut self) -> Table {
        let answers = |key: &&str| self.table.has(key);
        if self.table.has("compress") && ["proxy", "fastcgi", "php"].iter().any(answers) {
            self.table.set("compress-upstreams", true);
        }
        if let Some(methods) = self.in_force("dav_methods").last().copied() {
            self.changes(methods);
            for name in [
                "create_full_put_path",
                "dav_access",
                "dav_ext_methods",
                "min_delete_depth",
            ] {
                if let Some(directive) = self.in_force(name).last().copied() {
                    self.of_changes(directive);
                }
            }
        }
        let has_upstreams = ["proxy", "fastcgi", "php"]
            .iter()
            .any(|key| self.table.has(key));
        let everything = ["**".to_owned()];
        let outermost = Fields::default();
        self.fields
            .write(&everything, &outermost, has_upstreams, &mut self.table);
        // Of several rules the last one counts: those of the more important locations come last.
        self.inner.sort_by_key(|(rank, ..)| Reverse(*rank));
        for (_, globs, fields, passes) in &self.inner {
            let everywhere = has_upstreams || *passes;
            fields.write(globs, &self.fields, everywhere, &mut self.table);
        }
        if self.rewrites.iter().any(|(_, it)| it.contains(".php")) {
            self.hide_scripts();
        }
        self.rewrites.sort_by_key(|(rank, _)| *rank);
        for (_, rewrite) in &self.rewrites {
            self.table.add("rewrite", rewrite.clone());
        }
        self.redirects.sort_by_key(|(rank, _)| *rank);
        for (_, redirect) in &self.redirects {
            let Some((prefix, _)) = redirect.split_once("*=") else {
                continue;
            };
            // In nginx the longer prefix answers.
            for (path, location) in &self.answering {
                if path.len() > prefix.len() && path.starts_with(prefix) {
                    let why = format!("the redirect of {prefix}* holds for these paths too");
                    self.shared.remarks.lost(location, why);
                }
            }
        }
        for (_, redirect) in &self.redirects {
            self.table.add("redirect", redirect.clone());
        }
        self.table
    }
}

/// Directives that are looked up where they hold, not one after the other.
pub(super) fn is_handled(name: &str) -> bool {
    // A charset is reported where it stands.
    INHERITED.contains(&name) && name != "charset"
}
