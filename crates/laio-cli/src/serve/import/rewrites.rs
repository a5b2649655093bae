//! `rewrite` with an expression: what `--rewrite` and `--redirect` take after a `~`.

use super::ranking::Pattern;
use super::variables::of_host;
use regex::bytes::RegexBuilder;

/// Returns an expression for the paths of a location, as it stands after the `~`.
///
/// # Errors
/// Says why laio has no such expression.
pub(super) fn expression(regex: &str, pattern: &Pattern) -> Result<String, String> {
    let own = match pattern {
        Pattern::Prefix(prefix) if prefix == "/" => regex.to_owned(),
        Pattern::Prefix(prefix) | Pattern::Exact(prefix) => within(regex, prefix)?,
        _ => return Err("laio cannot combine the expression with that of its location".to_owned()),
    };
    let compiled = RegexBuilder::new(&own).unicode(false).build();
    if compiled.is_err() {
        return Err(
            "the expressions of laio have no look-around and no back-references; write a simpler one in --rewrite or \
             --redirect"
                .to_owned(),
        );
    }
    if own.chars().any(char::is_whitespace) {
        return Err("the expression has a blank: write \\x20 in --rewrite".to_owned());
    }
    // The first = before a / would end it.
    Ok(own.replace('=', "\\x3D"))
}

/// Restricts an expression to the paths below a prefix.
fn within(regex: &str, prefix: &str) -> Result<String, String> {
    let escaped = regex::escape(prefix);
    let rest = regex.strip_prefix('^');
    let unescaped = rest.map(|rest| rest.replace('\\', ""));
    if unescaped.is_some_and(|rest| rest.starts_with(&prefix.replace('\\', ""))) {
        return Ok(regex.to_owned());
    }
    Ok(match regex {
        "^" | ".*" | "^.*" | "^.*$" | "." => format!("^{escaped}"),
        "^(.*)$" | "^(.*)" | "(.*)" => format!("^({escaped}.*)$"),
        "^/(.*)$" | "^/(.*)" | "/(.*)" => {
            let inner = escaped.strip_prefix('/').unwrap_or(&escaped);
            format!("^/({inner}.*)$")
        }
        _ => {
            return Err(
                "the location restricts the expression: write both in one, after a ^, in --rewrite"
                    .to_owned(),
            );
        }
    })
}

/// Returns the target of a rewrite as laio writes it. nginx adds the query of the request to that of the target, unless
/// the target ends in a `?`.
///
/// # Errors
/// Names a variable that has no equivalent.
pub(super) fn new_path(target: &str) -> Result<String, String> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let path = path
        .replace("$document_uri", "$uri")
        .replace("$request_uri", "$uri");
    if path.contains("$uri") {
        return Err(
            "$uri cannot be part of a target: write what an expression matches, as $1".to_owned(),
        );
    }
    let query = query.map(|query| {
        let (query, adds) = match query.strip_suffix('?') {
            Some(query) => (query, false),
            None => (query, !query.is_empty()),
        };
        let own = query
            .replace("$query_string", "{query}")
            .replace("$args", "{query}");
        match adds && !own.contains("{query}") {
            true => format!("?{own}&{{query}}"),
            false => format!("?{own}"),
        }
    });
    let text = format!("{path}{}", query.unwrap_or_default());
    only_groups(&text)?;
    match text.starts_with('/') {
        true => Ok(text),
        false => Err("the target of --rewrite begins with a /".to_owned()),
    }
}

/// Returns the target of a redirect with groups. `names` is the name of the host, if it has one.
///
/// # Errors
/// Names a variable that has no equivalent.
pub(super) fn new_address(target: &str, name: Option<&str>, https: bool) -> Result<String, String> {
    let mut text = of_host(target, name, https)?;
    for query in ["$is_args$args", "?$args", "?$query_string", "?"] {
        if let Some(start) = text.strip_suffix(query) {
            text = start.to_owned();
        }
    }
    only_groups(&text)?;
    Ok(text)
}

/// Checks that all that follows a `$` is a group.
fn only_groups(text: &str) -> Result<(), String> {
    if text.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err("the target is no address".to_owned());
    }
    for (at, _) in text.match_indices('$') {
        let rest = &text[at + 1..];
        let name = rest.strip_prefix('{').unwrap_or(rest);
        if !name.starts_with(|c: char| ('1'..='9').contains(&c)) {
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &name[..end.unwrap_or(name.len())];
            return Err(format!("${name} cannot be part of a target"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_locations() {
        let of = |regex: &str, prefix: &str| expression(regex, &Pattern::Prefix(prefix.to_owned()));
        for (regex, prefix, expected) in [
            (r"^/a/(\d+)$", "/", Ok(r"^/a/(\d+)$")),
            (r"^/a/(\d+)$", "/a/", Ok(r"^/a/(\d+)$")),
            (r"^/a\.b/(.*)$", "/a.b/", Ok(r"^/a\.b/(.*)$")),
            ("^(.*)$", "/a.b/", Ok(r"^(/a\.b/.*)$")),
            ("^/(.*)$", "/blog/", Ok("^/(blog/.*)$")),
            (".*", "/a", Ok("^/a")),
            ("^/x=(.*)$", "/", Ok(r"^/x\x3D(.*)$")),
            (r"\.html$", "/a/", Err("location restricts")),
            ("^/(?!a)", "/", Err("look-around")),
            (r"^/(a)\1$", "/", Err("look-around")),
            ("(", "/", Err("look-around")),
        ] {
            let actual = of(regex, prefix);
            match expected {
                Ok(expected) => assert_eq!(actual.as_deref(), Ok(expected), "{regex}"),
                Err(why) => assert!(actual.unwrap_err().contains(why), "{regex}"),
            }
        }
    }

    #[test]
    fn targets() {
        for (target, expected) in [
            ("/b/$1", Ok("/b/$1")),
            ("/b?id=$1", Ok("/b?id=$1&{query}")),
            ("/b?id=$1?", Ok("/b?id=$1")),
            ("/b?", Ok("/b?")),
            ("/b?q=$1&$args", Ok("/b?q=$1&{query}")),
            ("/b$uri", Err("$uri")),
            ("/b/$host", Err("$host")),
            ("b", Err("begins with a /")),
        ] {
            let actual = new_path(target);
            match expected {
                Ok(expected) => assert_eq!(actual.as_deref(), Ok(expected), "{target}"),
                Err(why) => assert!(actual.unwrap_err().contains(why), "{target}"),
            }
        }
        assert_eq!(
            new_address("$scheme://$host/x/$1?", Some("a.example"), true).as_deref(),
            Ok("https://a.example/x/$1")
        );
        assert!(new_address("https://$weird/", None, true).is_err());
    }
}
