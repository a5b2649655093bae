//! Upstreams of single hosts.

use super::*;
use laio_serve::{Host, Site};

const GENERAL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ngeneral";
const SHOP: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nshop";

fn asked(server: &Running, host: &str, target: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = exchange(server, request);
    match status(&answer) {
        "200" => body(&answer).to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn a_host_before_the_prefix() {
    let (general, shop) = (Backend::answering(GENERAL), Backend::answering(SHOP));
    let upstreams = vec![
        http("/api", &general),
        http("shop.example/", &shop),
        http("*.shop.example/x", &shop),
    ];
    let (server, root) = serve(upstreams, |_| {});
    std::fs::write(root.path().join("a.txt"), "a file").unwrap();
    for (host, target, expected) in [
        ("other.example", "/api", "general"),
        ("other.example", "/a.txt", "a file"),
        ("other.example", "/", "404"),
        ("shop.example", "/", "shop"),
        ("Shop.Example:8080", "/a.txt", "shop"),
        ("shop.example", "/api", "general"),
        ("www.shop.example", "/x", "shop"),
        ("www.shop.example", "/a.txt", "a file"),
    ] {
        assert_eq!(asked(&server, host, target), expected, "{host} {target}");
    }
}

#[test]
fn a_host_with_upstreams_of_its_own() {
    let (general, shop) = (Backend::answering(GENERAL), Backend::answering(SHOP));
    let (server, _root) = serve(vec![http("/api", &general)], |options| {
        let site = Site {
            upstreams: vec![http("/", &shop)].into(),
            ..options.site.clone()
        };
        options.hosts.push(Host {
            names: vec!["shop.example".to_owned()],
            site,
        });
    });
    assert_eq!(asked(&server, "shop.example", "/api"), "shop");
    assert_eq!(asked(&server, "other.example", "/api"), "general");
    assert_eq!(asked(&server, "other.example", "/"), "404");
}
