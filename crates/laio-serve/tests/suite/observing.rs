//! The statistics of a server.

use crate::common::Running;
use crate::common::certs::{connect, make, trusting};
use crate::common::http2::Client;
use crate::common::multiplexed::{Multiplexed, run};
use laio::BackendKind;
use laio_serve::{Admin, IoStep, Observer, Policies, Seen, Stage};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn ask(admin: &Admin, request: &str) -> String {
    let mut client = TcpStream::connect(admin.address()).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

fn get(admin: &Admin, path: &str) -> String {
    ask(admin, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

/// Returns the statistics of a finished server with one file, after three requests for it and one
/// for another.
fn seen(timing: bool) -> (Observer, Seen) {
    let root = tempfile::Builder::new().prefix("site").tempdir().unwrap();
    std::fs::write(root.path().join("file"), "0123456789").unwrap();
    let observer = Observer::new(timing);
    let seen = observer.clone();
    let server = Running::with(root.path(), |options| options.observer = observer);
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/file").status, 200);
    }
    let absent = client.get("/absent");
    assert_eq!(absent.status, 404);
    drop(client);
    server.stop();
    let sum = seen.seen();
    assert_eq!((sum.responses, sum.connections), ([0, 3, 0, 1, 0], 1));
    assert_eq!(sum.bytes, 30 + absent.body.len() as u64);
    (seen, sum)
}

/// Returns how often a stage was measured.
fn times(seen: &Seen, stage: Stage) -> u64 {
    let mut stages = seen.stages.iter();
    let found = stages.find(|(own, _)| *own == stage);
    found.map_or(0, |(_, times)| times.len())
}

#[test]
fn counts_and_stages() {
    let (_, seen) = seen(true);
    let times = |stage| times(&seen, stage);
    assert_eq!(times(Stage::Total), 4);
    assert_eq!((times(Stage::Resolve), times(Stage::Log)), (4, 4));
    assert!(times(Stage::Open) >= 1 && times(Stage::Stat) >= 1 && times(Stage::Read) >= 1);
    assert!(times(Stage::Send) >= 4 && times(Stage::Upstream) == 0);
    assert!(
        seen.calls.contains_key("openat2"),
        "{:?}",
        seen.calls.keys()
    );
}

/// Requests a file twice, over TLS, in HTTP/1.1 or HTTP/2.
fn fetch_encrypted(server: &Running, made: &crate::common::certs::Made, version_2: bool) {
    if !version_2 {
        let address = server.places()[0].inet().unwrap();
        let config = std::sync::Arc::new(trusting(&[made], &["http/1.1"]));
        let mut stream = connect(address, &config, "localhost");
        let close = "GET /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let keep = "GET /file HTTP/1.1\r\nHost: a\r\n\r\n";
        stream
            .write_all((keep.to_owned() + close).as_bytes())
            .unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
        return;
    }
    run(async {
        let client = Client::encrypted(server, trusting(&[made], &["h2"])).await;
        client.answers("GET /file => 200").await;
        client.answers("GET /file => 200").await;
        let Client {
            requests,
            connection,
        } = client;
        drop(requests);
        connection.await.unwrap().unwrap();
    });
}

#[test]
fn stages_over_tls_and_in_http_2() {
    let root = tempfile::Builder::new().prefix("site").tempdir().unwrap();
    std::fs::write(root.path().join("file"), "0123456789").unwrap();
    let keys = tempfile::tempdir().unwrap();
    let made = make(keys.path(), "localhost");
    for version_2 in [false, true] {
        let observer = Observer::new(true);
        let server = Running::with(root.path(), |options| {
            options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
            options.certificates = vec![made.files.clone()];
            options.observer = observer.clone();
        });
        fetch_encrypted(&server, &made, version_2);
        server.stop();
        let seen = observer.seen();
        assert_eq!((seen.connections, seen.responses), (1, [0, 2, 0, 0, 0]));
        assert_eq!(seen.bytes, 20);
        for stage in [Stage::Receive, Stage::Resolve, Stage::Log, Stage::Total] {
            assert_eq!(times(&seen, stage), 2, "{stage:?} in HTTP/2: {version_2}");
        }
        assert!(times(&seen, Stage::Open) >= 1 && times(&seen, Stage::Send) >= 2);
        assert_eq!(times(&seen, Stage::Accept), 1);
    }
}

/// Calls in an extra context count too.
#[test]
fn calls_of_another_back_end() {
    let root = tempfile::Builder::new().prefix("site").tempdir().unwrap();
    std::fs::write(root.path().join("file"), "0123456789").unwrap();
    let observer = Observer::new(false);
    let server = Running::with(root.path(), |options| {
        options.observer = observer.clone();
        options.io.policies = Policies::NONE.with(IoStep::FileRead, BackendKind::Threads);
    });
    assert_eq!(server.get("/file").body, b"0123456789");
    server.stop();
    let read = observer.seen().calls["pread64"];
    assert_eq!((read.inline, read.background + read.fallback), (0, 1));
}

#[test]
fn without_timing_there_are_no_stages_and_without_an_observer_nothing() {
    let (_, counted) = seen(false);
    assert_eq!(counted.stages.iter().count(), 0);
    let off = Observer::default();
    assert!(!off.is_on() && off.seen().responses == [0; 5]);
}

#[test]
fn the_page_the_metrics_and_json() {
    let (observer, _) = seen(true);
    let admin = Admin::start(([127, 0, 0, 1], 0).into(), observer).unwrap();
    let metrics = get(&admin, "/metrics");
    assert!(metrics.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    for line in [
        "laio_responses_total{status=\"2xx\"} 3",
        "laio_responses_total{status=\"4xx\"} 1",
        "laio_connections_total 1",
        "laio_stage_seconds_count{stage=\"total\"} 4",
        "laio_stage_seconds_bucket{stage=\"total\",le=\"+Inf\"} 4",
    ] {
        assert!(
            metrics.lines().any(|own| own == line),
            "{line} not in {metrics}"
        );
    }
    assert!(metrics.contains("laio_calls_total{call=\"openat2\",way=\"inline\"}"));
    // Every line is a comment, or a name and a number.
    let (_, body) = metrics.split_once("\r\n\r\n").unwrap();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(
            name.starts_with("laio_") && value.parse::<f64>().is_ok(),
            "{line}"
        );
    }
    let page = get(&admin, "/");
    assert!(page.contains("<h2>Stages of a request</h2>") && page.contains("<td>openat2"));
    let json = get(&admin, "/status.json");
    let json: serde_json::Value =
        serde_json::from_str(json.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(json["responses"]["2xx"], 3);
    assert_eq!(json["stages"]["total"]["nanoseconds"]["count"], 4);
    assert!(get(&admin, "/other").starts_with("HTTP/1.1 404 "));
    assert!(ask(&admin, "POST / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask(&admin, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(ask(&admin, "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("\r\n\r\n"));
}
