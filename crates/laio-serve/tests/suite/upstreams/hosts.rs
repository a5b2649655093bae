//! Upstreams of single hosts.

use super::*;
use laio_serve::{Host, Site};

const GENERAL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ngeneral";
const SHOP: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nshop";

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
    server.answers(
        r#"
        GET /api | Host: other.example => 200 | "general"
        GET /a.txt | Host: other.example => 200 | "a file"
        GET / | Host: other.example => 404
        GET / | Host: shop.example => 200 | "shop"
        GET /a.txt | Host: Shop.Example:8080 => 200 | "shop"
        GET /api | Host: shop.example => 200 | "general"
        GET /x | Host: www.shop.example => 200 | "shop"
        GET /a.txt | Host: www.shop.example => 200 | "a file"
        "#,
    );
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
    server.answers(
        r#"
        GET /api | Host: shop.example => 200 | "shop"
        GET /api | Host: other.example => 200 | "general"
        GET / | Host: other.example => 404
        "#,
    );
}
