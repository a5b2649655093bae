//! FastCGI programs.

use super::backend::Peer;
use super::*;
use laio_http::fastcgi::{
    self, Head, PARAMS, STDERR, STDIN, STDOUT, params, push_end, push_stream,
};

/// The parameters and the body of a request.
type Asked = (Vec<(String, String)>, Vec<u8>);

fn read(peer: &mut Peer) -> Option<Asked> {
    let (mut described, mut body) = (Vec::new(), Vec::new());
    loop {
        let head = peer.try_read(fastcgi::HEAD)?;
        let head = Head::parse(head.try_into().unwrap()).unwrap();
        let content = peer.read(head.content.into());
        peer.read(head.padding.into());
        match head.kind {
            PARAMS => described.extend(content),
            STDIN if content.is_empty() => break,
            STDIN => body.extend(content),
            _ => {}
        }
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let described = params(&described).unwrap();
    let described = described
        .into_iter()
        .map(|(name, value)| (text(name), text(value)));
    Some((described.collect(), body))
}

fn program(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Backend {
    Backend::start(move |peer| {
        while let Some(asked) = read(peer) {
            peer.send(answer(&asked));
        }
    })
}

fn fcgi(prefix: &str, backend: &Backend) -> Upstream {
    Upstream::fastcgi(&format!("{prefix}={}", backend.address())).unwrap()
}

fn output(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_stream(&mut out, STDOUT, text.as_bytes());
    push_end(&mut out, 0);
    out
}

#[test]
fn variables_of_a_program() {
    for kind in crate::common::every_backend() {
        let backend = program(|(described, body)| {
            let mut text = "Status: 201 Made\nContent-Type: text/plain\n\n".to_owned();
            described
                .iter()
                .for_each(|(name, value)| text.push_str(&format!("{name}={value}\n")));
            text.push_str(&String::from_utf8_lossy(body));
            output(&text)
        });
        let (server, root) = serve_with(kind, vec![fcgi("/app", &backend)], |options| {
            options.workers = Some(1);
        });
        let root = std::path::absolute(root.path()).unwrap();
        let request = "POST /app/run/%41%20b?x=1&y HTTP/1.1\r\nHost: site.example:81\r\nContent-Length: 5\r\n\
                       Content-Type: text/x\r\nX-Some-Field: v\r\nX_Some_Field: w\r\nProxy: evil\r\n\
                       Connection: close\r\n\r\nHello";
        for _ in 0..2 {
            let answer = exchange(&server, request);
            assert_eq!(status(&answer), "201", "{kind}: {answer}");
            assert!(!answer.contains("Status:") && answer.contains("Content-Type: text/plain\r\n"));
            let variables = forwarding::unchunked(body(&answer));
            for line in [
                "REQUEST_METHOD=POST",
                "SCRIPT_NAME=/app",
                "PATH_INFO=/run/A b",
                "QUERY_STRING=x=1&y",
                "REQUEST_URI=/app/run/A%20b?x=1&y",
                "DOCUMENT_URI=/app/run/A b",
                "CONTENT_LENGTH=5",
                "CONTENT_TYPE=text/x",
                "HTTP_X_SOME_FIELD=v",
                "SERVER_NAME=site.example",
                "SERVER_PORT=81",
                "REMOTE_ADDR=127.0.0.1",
                "GATEWAY_INTERFACE=CGI/1.1",
                "HTTP_X_FORWARDED_FOR=127.0.0.1",
                "HTTP_HOST=site.example:81",
                &format!("SCRIPT_FILENAME={}/app/run/A b", root.display()),
                &format!("DOCUMENT_ROOT={}", root.display()),
            ] {
                assert!(
                    variables.contains(&format!("{line}\n")),
                    "{line} not in {variables}"
                );
            }
            assert!(
                variables.ends_with("\nHello")
                    && !variables.contains("evil")
                    && !variables.contains("=w")
            );
        }
        assert_kept(kind, backend.connections(), 2);
    }
}

#[test]
fn bodies_in_many_records_and_error_output() {
    let large = "fastcgi ".repeat(30_000);
    let expected = large.clone();
    let backend = program(move |(_, body)| {
        assert!(body == expected.as_bytes());
        let mut out = Vec::new();
        push_stream(&mut out, STDERR, b"a word\nfor the log");
        let head = format!("Content-Length: {}\r\n\r\n", body.len());
        push_stream(&mut out, STDOUT, head.as_bytes());
        push_stream(&mut out, STDOUT, body);
        fastcgi::push_stream_end(&mut out, STDOUT);
        push_end(&mut out, 0);
        out
    });
    let (server, _root) = serve(vec![fcgi("/", &backend)], |_| {});
    for framing in ["length", "chunks"] {
        let mut client = connect(&server);
        let mut reading = client.try_clone().unwrap();
        let reader = std::thread::spawn(move || {
            let mut answer = String::new();
            reading.read_to_string(&mut answer).unwrap();
            answer
        });
        let start = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        let request = match framing {
            "length" => format!("{start}Content-Length: {}\r\n\r\n{large}", large.len()),
            _ => format!(
                "{start}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
                large.len()
            ),
        };
        client.write_all(request.as_bytes()).unwrap();
        let answer = reader.join().unwrap();
        assert!(
            status(&answer) == "200" && body(&answer) == large,
            "{framing}"
        );
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn programs_that_fail_or_do_not_use_fastcgi() {
    let mut refused = Vec::new();
    push_end(&mut refused, 0);
    refused[fastcgi::HEAD + 4] = 1;
    for (bytes, expected) in [
        (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), "502"),
        (output(""), "502"),
        (output("no head at all"), "502"),
        (output("Status: what\n\n"), "502"),
        (refused, "502"),
        (Vec::new(), "502"),
        (output("Content-Length: 9\n\nshort"), "200"),
    ] {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let backend = Backend::start(move |peer| {
            if read(peer).is_some() {
                peer.send(&bytes);
            }
        });
        let (server, _root) = serve(vec![fcgi("/", &backend)], |_| {});
        let answer = exchange(&server, get("/"));
        assert_eq!(status(&answer), expected, "{shown:?}: {answer}");
        if expected == "200" {
            assert_eq!(
                body(&answer),
                "short",
                "less than was said: the connection ends"
            );
        }
    }
}

#[test]
fn output_beyond_the_length_is_dropped() {
    let backend = program(|_| output("Content-Length: 5\n\nhello and more"));
    let (server, _root) = serve(vec![fcgi("/", &backend)], |_| {});
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "hello");
    assert_eq!(client.get("/").text(), "hello");
}

#[test]
fn a_spooled_body_is_sent_again_to_another_program() {
    // The first program reads the whole body, and closes without an answer.
    let dead = Backend::start(|peer| drop(read(peer)));
    let alive = program(|(_, body)| output(&format!("A: b\n\n{}", body.len())));
    let upstreams = vec![fcgi("/", &dead), fcgi("/", &alive)];
    let (server, _root) = serve(upstreams, |options| {
        options.site.upstreams.balance = vec!["round-robin".parse().unwrap()];
        options.limits.upstream.failures = u32::MAX;
    });
    // In memory, and in a file.
    for length in [1_000, 300_000] {
        let chunk = "x".repeat(length);
        let request = format!(
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{length:x}\r\n{chunk}\r\n0\r\n\r\n"
        );
        for _ in 0..2 {
            let answer = exchange(&server, &request);
            assert_eq!(status(&answer), "200", "{answer}");
            assert!(forwarding::unchunked(body(&answer)) == length.to_string());
        }
    }
    assert!(dead.connections() >= 2);
}

#[test]
fn fields_that_come_twice_are_one_variable() {
    let backend = program(|(described, _)| {
        let mut text = "Content-Type: text/plain\n\n".to_owned();
        let fields = described
            .iter()
            .filter(|(name, _)| name.starts_with("HTTP_"));
        fields.for_each(|(name, value)| text.push_str(&format!("{name}={value}\n")));
        output(&text)
    });
    let (server, _root) = serve(vec![fcgi("/", &backend)], |_| {});
    let answer = exchange(
        &server,
        "GET / HTTP/1.1\r\nHost: x\r\nCookie: a=1\r\nX-Other: 1\r\nVia: 1.0 first\r\nCookie: b=2; c=3\r\n\
         x-other: 2\r\nConnection: close\r\n\r\n",
    );
    let variables = forwarding::unchunked(body(&answer));
    for line in [
        "HTTP_COOKIE=a=1; b=2; c=3",
        "HTTP_X_OTHER=1, 2",
        "HTTP_VIA=1.0 first, 1.1 laio",
    ] {
        assert!(
            variables.lines().any(|own| own == line),
            "{line} is not in\n{variables}"
        );
    }
    let mut names: Vec<_> = variables
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup_by_key(|(name, _)| *name);
    assert_eq!(names.len(), count, "{variables}");
}

#[test]
fn variables_are_ascii_where_the_target_is_not() {
    let backend = program(|(described, _)| {
        let of = |wanted: &str| &described.iter().find(|(name, _)| name == wanted).unwrap().1;
        let text = format!(
            "{}\n{}\n{}\n",
            of("REQUEST_URI"),
            of("QUERY_STRING"),
            of("PATH_INFO")
        );
        output(&format!("Content-Type: text/plain\n\n{text}"))
    });
    let (server, _root) = serve(vec![fcgi("/app", &backend)], |_| {});
    let answer = exchange(
        &server,
        "GET /app/é?q=日&r=%20 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    let variables = forwarding::unchunked(body(&answer));
    assert_eq!(
        variables,
        "/app/%C3%A9?q=%E6%97%A5&r=%20\nq=%E6%97%A5&r=%20\n/é\n"
    );
}
