//! `dav_methods`: the files that clients may change.

use super::location::Site;
use super::parser::Directive;
use super::values::bytes;

/// Methods that need no WebDAV.
const PLAIN: [&str; 3] = ["PUT", "DELETE", "MKCOL"];

impl<'d> Site<'_, 'd> {
    /// Takes the `dav_methods` of all paths.
    pub(super) fn changes(&mut self, directive: &Directive) {
        let methods: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        if methods == ["off"] {
            return;
        }
        let php = self.table.has("php") || self.table.has("fastcgi");
        if php {
            let why = "laio changes no files of a site with scripts, because an uploaded one would be executed: give the \
                       uploads a host of their own";
            return self.lost(directive, why);
        }
        match self.table.has("auth") {
            true => self.table.set("upload", "users"),
            false => {
                self.table.set("upload", "anyone");
                let how = "every client that can connect may change every file of the root: use --auth for users with a \
                           password";
                self.shared.remarks.differs(directive, how);
            }
        }
        if methods.iter().any(|method| !PLAIN.contains(method)) {
            self.table.set("webdav", true);
        }
        if methods != PLAIN && methods.iter().any(|method| PLAIN.contains(method)) {
            let missing = PLAIN.iter().find(|method| !methods.contains(method));
            if let Some(missing) = missing {
                let how =
                    format!("--upload allows PUT, DELETE and MKCOL together, so {missing} too");
                self.shared.remarks.differs(directive, how);
            }
        }
        let limit = self.in_force("client_max_body_size").last().copied();
        match limit.and_then(|limit| bytes(limit.word())) {
            Some(0) => self.table.set("upload-bytes", i64::MAX),
            Some(size) => self.table.set("upload-bytes", size),
            None => {}
        }
    }

    /// Takes the other directives of the module.
    pub(super) fn of_changes(&mut self, directive: &Directive) {
        match (&*directive.name, directive.word()) {
            ("create_full_put_path", "off") | ("min_delete_depth", "0") => {}
            ("create_full_put_path", _) => self.lost(
                directive,
                "PUT into a directory that is missing is 409: let the client make it with MKCOL",
            ),
            ("dav_ext_methods", _) => self.table.set("webdav", true),
            _ => self.shared.without_translation(directive),
        }
    }
}
