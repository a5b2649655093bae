//! Requests as FastCGI parameters (RFC 3875, section 4.1).

use super::fields::VIA;
use super::proxy_request::ProxyRequest;
use super::request::{for_each_field, host};
use laio_http::fastcgi::{PARAMS, push_begin, push_param, push_stream, push_stream_end};
use laio_http::{Framing, ascii_query};
use laio_serve_core::request::auth_state::AuthState;
use laio_serve_upstream::target::Target;
use std::path::Path;

/// Appends the begin record and all parameters of a request.
pub(super) fn push_head(out: &mut Vec<u8>, proxy_request: &ProxyRequest<'_>, target: &Target) {
    push_begin(out, target.keeps_connections);
    let mut params = Vec::new();
    describe(&mut params, proxy_request, target);
    let mut fields = Fields::default();
    for_each_field(proxy_request, |name, value| fields.add(name, value));
    let host = host(proxy_request).unwrap_or_default();
    fields.add(b"Host", host.as_bytes());
    fields.add(b"Via", format!("1.1 {VIA}").as_bytes());
    for (name, value) in &fields.0 {
        push_param(&mut params, name, value);
    }
    push_stream(out, PARAMS, &params);
    push_stream_end(out, PARAMS);
}

fn describe(params: &mut Vec<u8>, proxy_request: &ProxyRequest<'_>, target: &Target) {
    let request = proxy_request.ctx.request;
    let program = target.mount.program(proxy_request.path);
    let (script, file, info) = match proxy_request.script {
        Some(script) => {
            let file = [b"/", &*script.name].concat();
            (file.clone(), file, script.info.clone())
        }
        None => (program.script_name(), program.file(), program.path_info()),
    };
    let query = match proxy_request
        .script
        .and_then(|script| script.query.as_deref())
    {
        Some(query) => query,
        None => request.query.unwrap_or_default(),
    };
    let site = proxy_request.ctx.site;
    let below = |path: &[u8]| site.file_path(path.strip_prefix(b"/").unwrap_or(path));
    let mut push = |name: &str, value: &[u8]| push_param(params, name.as_bytes(), value);
    push("GATEWAY_INTERFACE", b"CGI/1.1");
    // PHP with cgi.force_redirect requires this variable.
    push("REDIRECT_STATUS", b"200");
    push(
        "SERVER_SOFTWARE",
        laio_serve_base::server_name::SERVER_NAME.as_bytes(),
    );
    push("SERVER_PROTOCOL", request.version.as_str().as_bytes());
    push("REQUEST_METHOD", request.method.as_str().as_bytes());
    // Programs choose what to do by the path that the client sees, so a rewrite does not change it.
    let before = proxy_request.ctx.before_rewrite;
    let uri = match before.and_then(|sent| Some((sent.path.as_ref().ok()?, sent.query))) {
        Some((path, query)) => target.mount.program(path).request_uri(query),
        None => program.request_uri(request.query),
    };
    push("REQUEST_URI", uri.as_bytes());
    match proxy_request.script {
        Some(_) => push("DOCUMENT_URI", &[&*script, &info].concat()),
        None => push("DOCUMENT_URI", &program.document_uri()),
    }
    push("QUERY_STRING", ascii_query(query).as_bytes());
    push("SCRIPT_NAME", &script);
    push("PATH_INFO", &info);
    push("SCRIPT_FILENAME", &below(&file));
    if !info.is_empty() {
        push("PATH_TRANSLATED", &below(&info));
    }
    let root = site.directory.as_deref().map(Path::as_os_str);
    push("DOCUMENT_ROOT", root.unwrap_or_default().as_encoded_bytes());
    let auth = proxy_request.ctx.auth;
    if let Some(user) = auth.and_then(AuthState::user) {
        push("REMOTE_USER", &user);
    }
    push("REMOTE_ADDR", proxy_request.ctx.client.name.as_bytes());
    let [own, client] = proxy_request.endpoints();
    if let Some(own) = own {
        let address = own.ip().to_canonical();
        push("SERVER_ADDR", address.to_string().as_bytes());
    }
    // The port of a client behind a proxy is not known.
    if let Some(client) = client.filter(|_| proxy_request.is_from_socket()) {
        push("REMOTE_PORT", client.port().to_string().as_bytes());
    }
    let (name, port) = server(request.host.unwrap_or_default(), proxy_request.ctx.secure);
    push("SERVER_NAME", name.as_bytes());
    push("SERVER_PORT", port.as_bytes());
    push(
        "REQUEST_SCHEME",
        if proxy_request.ctx.secure {
            b"https"
        } else {
            b"http"
        },
    );
    if proxy_request.ctx.secure {
        push("HTTPS", b"on");
    }
    if let Some(content_type) = request.headers.get("Content-Type") {
        push("CONTENT_TYPE", content_type);
    }
    match (request.framing, proxy_request.spooled) {
        (Framing::Length(length), _) | (Framing::Chunked, Some(length)) => {
            push("CONTENT_LENGTH", length.to_string().as_bytes());
        }
        (Framing::None | Framing::Chunked, _) => push("CONTENT_LENGTH", b""),
    }
}

/// Returns the name and port of the `Host` field.
fn server(host: &str, secure: bool) -> (&str, &str) {
    let colon = host
        .rfind(':')
        .filter(|&colon| !host[colon..].contains(']'));
    match colon {
        Some(colon) => (&host[..colon], &host[colon + 1..]),
        None => (host, if secure { "443" } else { "80" }),
    }
}

/// The fields of a request as variables, each name once.
#[derive(Default)]
struct Fields(Vec<(Vec<u8>, Vec<u8>)>);

impl Fields {
    /// Adds a field as `HTTP_NAME`. Joins the values of the same name (RFC 3875, section 4.1.18), because of several
    /// variables with one name each program reads another one. Skips a name with an underscore, which would collide
    /// with the one with a hyphen.
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if name.contains(&b'_') || name.eq_ignore_ascii_case(b"Content-Type") {
            return;
        }
        let mut param = b"HTTP_".to_vec();
        let capital = |&byte: &u8| match byte {
            b'-' => b'_',
            byte => byte.to_ascii_uppercase(),
        };
        param.extend(name.iter().map(capital));
        match self.0.iter_mut().find(|(known, _)| *known == param) {
            Some((_, values)) => {
                // A list has commas (RFC 9110, section 5.3), and cookies semicolons (RFC 6265, section 5.4).
                let is_cookie = param == b"HTTP_COOKIE";
                values.extend_from_slice(if is_cookie { b"; " } else { b", " });
                values.extend_from_slice(value);
            }
            None => self.0.push((param, value.to_vec())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_are_one_variable() {
        let mut fields = Fields::default();
        for (name, value) in [
            ("Cookie", "a=1"),
            ("Accept-Language", "de"),
            ("X_A", "hidden"),
            ("cookie", "b=2"),
            ("ACCEPT-LANGUAGE", "en;q=0.5"),
            ("X-A", ""),
            ("X-A", "2"),
        ] {
            fields.add(name.as_bytes(), value.as_bytes());
        }
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
        let fields: Vec<_> = fields
            .0
            .iter()
            .map(|(name, value)| text(name) + "=" + &text(value))
            .collect();
        assert_eq!(
            fields,
            [
                "HTTP_COOKIE=a=1; b=2",
                "HTTP_ACCEPT_LANGUAGE=de, en;q=0.5",
                "HTTP_X_A=, 2"
            ]
        );
    }
}
