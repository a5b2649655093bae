//! `return` and `rewrite`: redirects and errors.

use super::location::Site;
use super::parser::Directive;
use super::ranking::{Pattern, Rank, globs};
use super::rewrites::{expression, new_address, new_path};
use super::values::target;
use laio_serve::Status;

impl Site<'_, '_> {
    /// A `return` or `rewrite` of a location.
    pub(super) fn redirect(
        &mut self,
        directive: &Directive,
        pattern: &Pattern,
        text: &str,
        rank: Rank,
    ) {
        let words: Vec<&str> = directive.words.iter().map(String::as_str).collect();
        let (from, status, to, capture) = match (&*directive.name, &words[..]) {
            ("return", [to]) if to.contains(['/', '$']) => {
                (of_pattern(pattern, text), "302", *to, false)
            }
            ("return", [status @ ("301" | "302" | "307" | "308"), to]) => {
                (of_pattern(pattern, text), *status, *to, true)
            }
            ("return", [status, ..]) if status.starts_with('4') => {
                return self.refuse(directive, pattern, status);
            }
            ("rewrite", [regex, to, flag @ ("permanent" | "redirect")]) => {
                let status = if *flag == "permanent" { "301" } else { "302" };
                match of_regex(regex) {
                    None => return self.matched(directive, (regex, pattern), to, status, rank),
                    from => (from, status, *to, true),
                }
            }
            ("rewrite", [regex, to, ..]) if to.starts_with("http") || to.starts_with("$scheme") => {
                match of_regex(regex) {
                    None => return self.matched(directive, (regex, pattern), to, "302", rank),
                    from => (from, "302", *to, true),
                }
            }
            ("rewrite", [regex, to] | [regex, to, "last" | "break"]) => {
                return self.rewrite(directive, (regex, pattern), to, rank);
            }
            ("rewrite", _) => {
                return self.lost(
                    directive,
                    "a rewrite has an expression, a target, and last, break, redirect or permanent",
                );
            }
            _ => return self.lost(directive, "laio returns files, redirects and errors"),
        };
        let Some(from) = from else {
            return self.lost(
                directive,
                "--redirect knows paths, and a * at the end of one",
            );
        };
        let name = self.host_in(directive);
        let https = self.server.has_tls();
        match target(to, name, https, capture) {
            Err(why) => self.lost(directive, why),
            Ok((to, has_rest)) => {
                let whole = words.iter().any(|it| it.contains("uri"));
                let to = match (has_rest, pattern, to.strip_suffix("/*")) {
                    // The target has the whole path, not only what follows the prefix.
                    (true, Pattern::Prefix(prefix), Some(start))
                        if whole && directive.name == "return" =>
                    {
                        format!("{start}{prefix}*")
                    }
                    (true, Pattern::Exact(path), Some(start)) if whole => format!("{start}{path}"),
                    (true, ..) if !from.ends_with('*') || (whole && from != "/*") => {
                        return self.lost(
                            directive,
                            "--redirect replaces a path, or the rest after a prefix",
                        );
                    }
                    _ => to,
                };
                if from.contains('=') || from.contains(' ') {
                    return self.lost(
                        directive,
                        "the path of a --redirect has neither = nor a space",
                    );
                }
                // Another location answers the target in nginx.
                if from
                    .strip_suffix('*')
                    .is_some_and(|prefix| to.starts_with(prefix))
                {
                    return self.lost(
                        directive,
                        "the redirect would lead to itself: its target matches the path",
                    );
                }
                self.redirects.push((rank, format!("{from}={to}={status}")));
            }
        }
    }

    /// Returns what the variables of the host stand for in a directive.
    fn host_in(&self, directive: &Directive) -> Option<&str> {
        match &self.server.names[..] {
            [name] if !name.starts_with('*') => Some(name.as_str()),
            names => names
                .first()
                .map(String::as_str)
                .filter(|_| directive.words.iter().any(|it| it.contains("$server_name"))),
        }
    }

    /// A redirect whose target has what an expression matched.
    fn matched(
        &mut self,
        directive: &Directive,
        (regex, pattern): (&str, &Pattern),
        to: &str,
        status: &str,
        rank: Rank,
    ) {
        let https = self.server.has_tls();
        let to = new_address(to, self.host_in(directive), https);
        match expression(regex, pattern).and_then(|from| Ok((from, to?))) {
            Ok((from, to)) => self
                .redirects
                .push((rank, format!("~{from}={to}={status}"))),
            Err(why) => self.lost(directive, why),
        }
    }

    /// A rewrite that the client does not see.
    fn rewrite(
        &mut self,
        directive: &Directive,
        (regex, pattern): (&str, &Pattern),
        to: &str,
        rank: Rank,
    ) {
        match expression(regex, pattern).and_then(|from| Ok((from, new_path(to)?))) {
            Ok((from, to)) => {
                if directive.words.len() == 2 {
                    let how =
                        "laio rewrites a request once: the next rewrite does not see the new path";
                    self.shared.remarks.differs(directive, how);
                }
                self.rewrites.push((rank, format!("~{from}={to}")));
            }
            Err(why) => self.lost(directive, why),
        }
    }

    /// An error for paths.
    fn refuse(&mut self, directive: &Directive, pattern: &Pattern, status: &str) {
        let known = status.parse().ok().and_then(Status::from_code);
        let known = known.is_some_and(|status| status.is_error());
        if *pattern != Pattern::Prefix("/".to_owned()) {
            let globs = globs(pattern);
            if globs.is_empty() {
                return self.lost(
                    directive,
                    "laio would answer for these paths: move their files out of the root",
                );
            }
            if status != "403" {
                self.shared.remarks.differs(directive, "laio answers 403");
            }
            return self.refuse_everyone(&globs);
        }
        // 444 closes the connection.
        if !known {
            self.shared.remarks.differs(directive, "laio answers 404");
        }
        let status = if known { status } else { "404" };
        self.table.set("try", vec![format!("={status}")]);
    }
}

/// Returns the paths of a location as `--redirect` takes them.
fn of_pattern(pattern: &Pattern, text: &str) -> Option<String> {
    match pattern {
        Pattern::Exact(path) => Some(path.clone()),
        Pattern::Prefix(prefix) => Some(format!("{prefix}*")),
        _ => of_regex(text),
    }
}

/// Returns the paths of a regular expression as `--redirect` takes them: a path, or one with a * at its end.
fn of_regex(regex: &str) -> Option<String> {
    if regex == "^" {
        return Some("/*".to_owned());
    }
    let rest = regex.strip_prefix('^')?;
    let open = ["(.*)$", "(.*)", "(.+)$", "(.+)", ".*$", ".*"]
        .iter()
        .find_map(|end| rest.strip_suffix(end));
    let (literal, any) = match (open, rest.strip_suffix('$')) {
        (Some(start), _) => (start, true),
        (None, Some(whole)) => (whole.strip_suffix("/?").unwrap_or(whole), false),
        (None, None) => (rest, true),
    };
    let literal = match literal.is_empty() && any {
        true => "/".to_owned(),
        false => literal
            .replace("\\.", ".")
            .replace("\\-", "-")
            .replace("\\/", "/"),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~,".contains(c);
    // A dot without a backslash means any character, and is meant as a dot.
    let good = literal.starts_with('/') && literal.chars().all(plain);
    good.then(|| if any { format!("{literal}*") } else { literal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_redirects() {
        for (regex, expected) in [
            ("^", Some("/*")),
            ("^/old$", Some("/old")),
            ("^/old/?$", Some("/old")),
            ("^/old/(.*)$", Some("/old/*")),
            (r"^/a\.html$", Some("/a.html")),
            ("^(.*)$", Some("/*")),
            ("^/a", Some("/a*")),
            ("/a", None),
            ("^/(a|b)$", None),
            (r"^/\d+$", None),
        ] {
            assert_eq!(of_regex(regex).as_deref(), expected, "{regex}");
        }
    }
}
