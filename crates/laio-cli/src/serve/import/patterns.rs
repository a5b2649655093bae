//! From the patterns of nginx to globs: the regular expressions that configurations contain.

/// What a regular expression of paths means, as far as globs can say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Paths {
    /// Paths that match one of these globs.
    Globs(Vec<String>),
    /// Names that begin with a dot.
    Hidden,
    /// Scripts, by the extension of their names.
    Scripts(Vec<String>),
}

/// The most alternatives of an expression.
const ALTERNATIVES: usize = 200;
/// Groups within one another.
const GROUPS: usize = 8;

/// Translates a regular expression, or returns none for one that globs cannot say.
pub(super) fn paths(regex: &str) -> Option<Paths> {
    if is_hidden(regex) {
        return Some(Paths::Hidden);
    }
    let (from_start, rest) = match regex.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, regex),
    };
    // What php-fpm's documentation puts around the extension.
    let rest = rest
        .strip_prefix("[^/]")
        .or_else(|| rest.strip_prefix(".+"))
        .unwrap_or(rest);
    let rest = rest
        .strip_prefix("(.+")
        .and_then(|it| it.strip_suffix(")(/.+)$"))
        .map_or(rest.to_owned(), |it| format!("{it}(/|$)"));
    let (rest, or_below) = match rest
        .strip_suffix("(/|$)")
        .or_else(|| rest.strip_suffix("(?:$|/)"))
        .or_else(|| rest.strip_suffix("($|/)"))
    {
        Some(rest) => (format!("{rest}$"), true),
        None => (rest, false),
    };
    let (to_end, rest) = match rest.strip_suffix('$') {
        Some(rest) if !rest.ends_with('\\') => (true, rest),
        _ => (false, &*rest),
    };
    let mut chars: Vec<char> = rest.chars().collect();
    chars.reverse();
    let texts = alternatives(&mut chars, 0)?;
    if !chars.is_empty() || texts.iter().any(String::is_empty) {
        return None;
    }
    let extensions: Option<Vec<_>> = texts.iter().map(|text| extension(text)).collect();
    if let Some(extensions) = extensions
        && to_end
        && (or_below
            || extensions
                .iter()
                .all(|it| it.starts_with("php") || it == "phtml"))
    {
        return Some(Paths::Scripts(extensions));
    }
    let mut globs = Vec::new();
    for text in texts {
        let own = of_text(&text, from_start, to_end)?;
        // What follows a slash counts too.
        if or_below && !text.ends_with(".php") {
            globs.extend(own.iter().map(|glob| format!("{glob}/**")));
        }
        globs.extend(own);
    }
    (from_start || !or_below).then_some(Paths::Globs(globs))
}

/// Returns the globs of a prefix of paths, which need not end at a slash.
pub(super) fn of_prefix(prefix: &str) -> Vec<String> {
    let literal = escaped(prefix);
    match prefix {
        "/" => vec!["**".to_owned()],
        _ if prefix.ends_with('/') => vec![format!("{literal}**")],
        _ => vec![format!("{literal}*"), format!("{literal}*/**")],
    }
}

/// Returns the glob of one path.
pub(super) fn escaped(path: &str) -> String {
    let mut glob = String::new();
    for c in path.chars() {
        match c {
            '*' | '?' | '[' | ']' | '{' | '}' => glob.extend(['[', c, ']']),
            c => glob.push(c),
        }
    }
    glob
}

/// Whether an expression is one of those that keep names with a dot from being served.
fn is_hidden(regex: &str) -> bool {
    let rest = regex
        .strip_prefix("(^|/)")
        .or_else(|| regex.strip_prefix("(?:^|/)"));
    let rest = rest
        .or_else(|| regex.strip_prefix("^/"))
        .or_else(|| regex.strip_prefix('/'));
    let Some(rest) = rest.and_then(|rest| rest.strip_prefix("\\.")) else {
        return false;
    };
    let rest = rest
        .strip_prefix("(?!well-known")
        .map_or(rest, |it| it.trim_start_matches(['/', '.', '*', '\\', ')']));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.*+()|?:[]^$/".contains(c);
    rest.chars().all(plain)
}

/// Returns the extension that a text such as `.php` is.
fn extension(text: &str) -> Option<String> {
    let extension = text.strip_prefix('.')?;
    let plain = !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| extension.to_owned())
}

/// Returns the globs for a text that begins or ends somewhere in a path. `**` in it stands for any text.
fn of_text(text: &str, from_start: bool, to_end: bool) -> Option<Vec<String>> {
    // Any text after a slash is any directories and a part of a name.
    let any = text.replace("/**", "/\u{1}");
    if any.contains("**") {
        return None;
    }
    let expand = |text: String| match text.strip_suffix("/\u{1}") {
        Some(start) => format!("{}/**", start.replace('\u{1}', "**/*")),
        None => text.replace('\u{1}', "**/*"),
    };
    match (from_start, to_end) {
        (true, _) if !text.starts_with('/') => None,
        (true, true) => Some(vec![expand(any)]),
        (true, false) if any.ends_with('\u{1}') => Some(vec![expand(any)]),
        (true, false) if any.ends_with('/') => Some(vec![expand(format!("{any}\u{1}"))]),
        (true, false) => Some(vec![
            expand(format!("{any}*")),
            expand(format!("{any}*/\u{1}")),
        ]),
        (false, true) if !any.contains(['/', '\u{1}']) => Some(vec![format!("*{any}")]),
        (false, true) if any.starts_with('/') => Some(vec![expand(format!("**{any}"))]),
        _ => None,
    }
}

/// Returns all texts of a sequence and its alternatives, as globs. Takes characters from the end of `chars`.
fn alternatives(chars: &mut Vec<char>, groups: usize) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut texts = vec![String::new()];
    loop {
        let piece = match chars.pop() {
            None => break,
            Some(')') => {
                chars.push(')');
                break;
            }
            Some('|') => {
                all.append(&mut std::mem::replace(&mut texts, vec![String::new()]));
                continue;
            }
            Some('(') if groups < GROUPS => {
                if chars.ends_with(&[':', '?']) {
                    chars.truncate(chars.len() - 2);
                }
                let inner = alternatives(chars, groups + 1)?;
                if chars.pop() != Some(')') {
                    return None;
                }
                inner
            }
            Some('.') if matches!(chars.last(), Some('*' | '+')) => {
                chars.pop();
                vec!["**".to_owned()]
            }
            Some('\\') => match chars.pop()? {
                c @ ('.' | '-' | '/' | '_' | '+' | '~' | '@') => vec![escaped(&c.to_string())],
                _ => return None,
            },
            Some(c) if c.is_alphanumeric() || "/-_~@=%,".contains(c) => vec![c.to_string()],
            Some(_) => return None,
        };
        let mut pieces = piece;
        match chars.last() {
            Some('?') => {
                chars.pop();
                pieces.push(String::new());
            }
            Some('*' | '+' | '{') => return None,
            _ => {}
        }
        if texts.len() * pieces.len() > ALTERNATIVES {
            return None;
        }
        let longer = |text: &String| {
            pieces
                .iter()
                .map(|piece| format!("{text}{piece}"))
                .collect::<Vec<_>>()
        };
        texts = texts.iter().flat_map(longer).collect();
    }
    all.append(&mut texts);
    (all.len() <= ALTERNATIVES).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let globs = |globs: &[&str]| {
            Some(Paths::Globs(
                globs.iter().map(|&it| it.to_owned()).collect(),
            ))
        };
        let scripts = |names: &[&str]| {
            Some(Paths::Scripts(
                names.iter().map(|&it| it.to_owned()).collect(),
            ))
        };
        for (regex, expected) in [
            (r"\.php$", scripts(&["php"])),
            (r"\.php(/|$)", scripts(&["php"])),
            (r"[^/]\.php(/|$)", scripts(&["php"])),
            (r"^(.+\.php)(/.+)$", scripts(&["php"])),
            (r"\.(php|phtml)$", scripts(&["php", "phtml"])),
            (r"\.css$", globs(&["*.css"])),
            (r"\.(?:css|js)$", globs(&["*.css", "*.js"])),
            (
                r"\.(jpe?g|woff2?)$",
                globs(&["*.jpeg", "*.jpg", "*.woff2", "*.woff"]),
            ),
            (r"\.tar\.(gz|bz2)$", globs(&["*.tar.gz", "*.tar.bz2"])),
            (r"/favicon\.ico$", globs(&["**/favicon.ico"])),
            (r"^/(img|css)/", globs(&["/img/**", "/css/**"])),
            (r"^/a/.*\.js$", globs(&["/a/**/*.js"])),
            (r"^/a/.*$", globs(&["/a/**"])),
            (r"^/a/.*", globs(&["/a/**"])),
            (r"^/a$", globs(&["/a"])),
            (r"^/a", globs(&["/a*", "/a*/**"])),
            (r"^/index\.php(/|$)", globs(&["/index.php"])),
            (r"^/(?:a|b)(?:$|/)", globs(&["/a/**", "/a", "/b/**", "/b"])),
            (r"/\.", Some(Paths::Hidden)),
            (r"/\.ht", Some(Paths::Hidden)),
            (r"/\.(?!well-known).*", Some(Paths::Hidden)),
            (r"(^|/)\.", Some(Paths::Hidden)),
            (r"^/user/(\d+)$", None),
            (r"[0-9]", None),
            (r"a{2}", None),
            (r"(a", None),
            (r"a)", None),
            (r"", None),
            (r"$", None),
            (r"^a", None),
            (r"abc", None),
            (
                r"(a|b|c|d|e|f)(a|b|c|d|e|f)(a|b|c|d|e|f)(a|b|c|d|e|f)$",
                None,
            ),
        ] {
            assert_eq!(paths(regex), expected, "{regex}");
        }
        assert_eq!(of_prefix("/a/"), ["/a/**"]);
        assert_eq!(of_prefix("/a[1]"), ["/a[[]1[]]*", "/a[[]1[]]*/**"]);
        assert_eq!(of_prefix("/"), ["**"]);
    }
}
