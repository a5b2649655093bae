//! Variables of nginx, where laio has an equivalent.

/// Replaces the variables of the own address.
///
/// # Errors
/// Names the variable that is not one name.
pub(super) fn of_host(text: &str, name: Option<&str>, https: bool) -> Result<String, String> {
    let mut text = text.to_owned();
    for (variable, value) in [
        ("$scheme", Some(if https { "https" } else { "http" })),
        ("$server_name", name),
        ("$http_host", name),
        ("$host", name),
    ] {
        if text.contains(variable) {
            let value = value.ok_or_else(|| format!("{variable} is not one name here"))?;
            text = text.replace(variable, value);
        }
    }
    Ok(text)
}

/// Returns the value of a field for upstreams, with the placeholders of `--request-header`.
///
/// # Errors
/// Names the variable that has no equivalent.
pub(super) fn of_request(text: &str) -> Result<String, String> {
    let mut value = text.replace('{', "{{");
    for (variable, placeholder) in [
        ("$remote_addr", "{client}"),
        ("$realip_remote_addr", "{client}"),
        ("$http_host", "{host}"),
        ("$host", "{host}"),
        ("$scheme", "{scheme}"),
        ("$request_uri", "{uri}"),
        ("$document_uri", "{path}"),
        ("$uri", "{path}"),
        ("$query_string", "{query}"),
        ("$args", "{query}"),
    ] {
        value = value.replace(variable, placeholder);
    }
    match value.find('$') {
        None => Ok(value),
        Some(at) => {
            let rest = &value[at + 1..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            Err(format!(
                "--request-header has no ${name}: its placeholders are {{client}}, {{host}}, {{scheme}}, {{path}}, \
                 {{query}} and {{uri}}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(
            of_request("a {$remote_addr}").as_deref(),
            Ok("a {{{client}}")
        );
        assert_eq!(
            of_request("$scheme://$host$request_uri").as_deref(),
            Ok("{scheme}://{host}{uri}")
        );
        assert!(
            of_request("$ssl_client_cert")
                .unwrap_err()
                .contains("$ssl_client_cert")
        );
        assert_eq!(
            of_host("$scheme://$host/", Some("a"), false).as_deref(),
            Ok("http://a/")
        );
        assert!(of_host("$host", None, false).is_err());
    }
}
