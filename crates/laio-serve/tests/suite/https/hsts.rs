//! `Strict-Transport-Security`.

use crate::common::Running;
use crate::common::certs::{connect, make, trusting};
use crate::upstreams::backend::Backend;
use laio_serve::{HstsAge, Upstream};
use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;

const FIELD: &str = "Strict-Transport-Security: max-age=600; includeSubDomains\r\n";

#[test]
fn every_response_over_tls_and_no_other_has_the_field() {
    let dir = tempfile::tempdir().unwrap();
    let made = make(dir.path(), "localhost");
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("a.txt"), "a").unwrap();
    let own =
        "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nContent-Length: 0\r\n\r\n";
    let backend = Backend::start(move |peer| {
        while let Some(head) = peer.request() {
            let answer = if head.contains("/own") {
                own
            } else {
                "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"
            };
            peer.send(answer);
        }
    });
    let server = Running::with(dir.path(), |options| {
        options.listen = ["127.0.0.1:0", "tls:127.0.0.1:0"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        options.certificates = vec![made.files.clone()];
        options.site.hsts.age = Some(HstsAge::Seconds(600));
        options.site.hsts.subdomains = true;
        let upstream = format!("/app=http://{}", backend.address());
        options.site.upstreams.http = vec![Upstream::http(&upstream).unwrap()];
    });
    let config = Arc::new(trusting(&[&made], &["http/1.1"]));
    let encrypted = |request: &str| {
        let address = server.places()[1].inet().unwrap();
        let mut stream = connect(address, &config, "localhost");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let get = |target: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    };
    for (target, status) in [
        ("/a.txt", "200"),
        // From the cache.
        ("/a.txt", "200"),
        ("/missing", "404"),
        ("/sub", "301"),
        ("/app", "500"),
        ("/%zz", "400"),
    ] {
        let answer = encrypted(&get(target));
        assert_eq!(answer.split(' ').nth(1), Some(status), "{target}");
        assert_eq!(answer.matches(FIELD).count(), 1, "{target}: {answer}");
        assert!(
            !server.get(target).head.contains("Strict-Transport"),
            "{target}"
        );
    }
    // A malformed head has no host.
    let answer = encrypted("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains(FIELD),
        "{answer}"
    );
    let answer = encrypted(&get("/app/own"));
    assert!(
        answer.contains("max-age=1\r\n") && !answer.contains(FIELD),
        "{answer}"
    );
}
