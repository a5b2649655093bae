//! Directories as zip files.

use crate::common::{Client, Running, every_backend, until};
use crate::upstreams::backend::Backend;
use laio_serve::{Auth, Options, Upstream, Zip};
use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::{FaultFs, or_skip};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("d/e/empty")).unwrap();
    fs::write(root.join("d/text.txt"), text()).unwrap();
    fs::write(root.join("d/noise.bin"), noise()).unwrap();
    fs::write(root.join("d/nothing"), "").unwrap();
    fs::write(root.join("d/e/\u{fc} & \u{4e2d}.txt"), "umlaut").unwrap();
    fs::write(root.join("d/run.sh"), "#!/bin/sh").unwrap();
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(root.join("d/run.sh"), executable).unwrap();
    fs::write(root.join("d/.hidden"), "secret").unwrap();
    symlink("text.txt", root.join("d/link.txt")).unwrap();
    symlink("..", root.join("d/up")).unwrap();
    symlink("/etc/hostname", root.join("d/outside")).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = fs::File::options()
        .append(true)
        .open(root.join("d/text.txt"));
    file.unwrap().set_modified(time).unwrap();
    dir
}

const NAMES: [&str; 8] = [
    "e/",
    "e/empty/",
    "e/\u{fc} & \u{4e2d}.txt",
    "link.txt",
    "noise.bin",
    "nothing",
    "run.sh",
    "text.txt",
];

fn text() -> String {
    (0..20_000)
        .map(|number| format!("line {number}\n"))
        .collect()
}

fn noise() -> Vec<u8> {
    let words = (0..50_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes());
    words.collect()
}

fn packs(zip: Zip) -> impl Fn(&mut Options) {
    move |options| options.site.archives.zip = Some(zip)
}

/// Reads a response with a length or in chunks. Returns its head and its body.
fn fetch(client: &mut Client, target: &str) -> (String, Vec<u8>) {
    let answer = client.get(target);
    match answer.header("Transfer-Encoding") {
        Some(_) => (answer.head, client.chunks()),
        None => (answer.head, answer.body),
    }
}

/// Unpacks with Python, which checks all checksums. Returns the names in their order.
fn unpack(archive: &[u8], into: &Path) -> Option<Vec<String>> {
    let file = into.join("archive.zip");
    fs::write(&file, archive).unwrap();
    let program = "import sys, zipfile\n\
                   z = zipfile.ZipFile(sys.argv[1])\n\
                   assert z.testzip() is None\n\
                   z.extractall(sys.argv[2])\n\
                   sys.stdout.buffer.write(''.join(n + '\\n' for n in z.namelist()).encode())\n";
    let run = Command::new("python3")
        .args(["-c", program])
        .arg(&file)
        .arg(into)
        .output();
    let Ok(run) = run else {
        laio_testing::skip("python3", "python3 is not installed");
        return None;
    };
    let error = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{error}");
    let names = String::from_utf8(run.stdout).unwrap();
    Some(names.lines().map(str::to_owned).collect())
}

#[test]
fn a_directory_with_all_that_is_in_it() {
    let dir = site();
    for backend in every_backend() {
        for zip in [Zip::Store, Zip::Deflate] {
            let server = Running::on(backend, dir.path(), packs(zip));
            let mut client = server.connect();
            let (head, body) = fetch(&mut client, "/d/?zip");
            assert!(head.contains("Content-Type: application/zip"), "{head}");
            let name = "Content-Disposition: attachment; filename=\"d.zip\"";
            assert!(head.contains(name), "{head}");
            assert_eq!(head.contains("Content-Length"), zip == Zip::Store);
            let (_, again) = fetch(&mut client, "/d?zip");
            assert!(body == again, "{backend}: always the same bytes");
            let unpacked = TempDir::new().unwrap();
            let Some(names) = unpack(&body, unpacked.path()) else {
                return;
            };
            assert_eq!(names, NAMES, "{backend}");
            let read = |name: &str| fs::read(unpacked.path().join(name)).unwrap();
            assert!(read("text.txt") == text().as_bytes());
            assert!(read("link.txt") == text().as_bytes());
            assert!(read("noise.bin") == noise());
            assert_eq!(read("e/\u{fc} & \u{4e2d}.txt"), b"umlaut");
            let (small, large) = (body.len() < noise().len() + text().len(), zip == Zip::Store);
            assert_ne!(small, large, "{backend}: {zip:?}");
        }
    }
}

#[test]
fn other_programs_read_it() {
    let dir = site();
    for zip in [Zip::Store, Zip::Deflate] {
        let server = Running::with(dir.path(), packs(zip));
        let (_, body) = fetch(&mut server.connect(), "/d/?zip");
        let into = TempDir::new().unwrap();
        let file = into.path().join("a.zip");
        fs::write(&file, &body).unwrap();
        let run = |program: &str, arguments: &[&str], from_file: bool| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(into.path());
            if from_file {
                command.stdin(fs::File::open(&file).unwrap());
            }
            let Ok(output) = command.output() else {
                return;
            };
            // An emulator of programs starts a child that ends with this status if the program is not installed.
            if output.status.code() == Some(127) {
                return;
            }
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program}: {text}");
        };
        run("unzip", &["-tq", "a.zip"], false);
        run("bsdtar", &["-xf", "a.zip"], false);
        // In one pass, without the table of contents.
        run("bsdtar", &["-xf", "-"], true);
        run("7z", &["t", "a.zip"], false);
    }
}

#[test]
fn what_is_no_directory_is_answered_as_ever() {
    let dir = site();
    let server = Running::with(dir.path(), packs(Zip::Store));
    server.answers(
        r##"
        GET /d/run.sh?zip => "#!/bin/sh"
        GET /no/?zip => 404
        GET /d/?zipped => 404
        GET /d/outside?zip => 404
        "##,
    );
    let head = server.connect().request("HEAD", "/d/?zip", "");
    let length = head.header("Content-Length").unwrap().to_owned();
    assert_eq!(server.get("/d/?zip").body.len().to_string(), length);
    let empty = server.get("/d/e/empty/?zip");
    assert_eq!((empty.status, empty.body.len()), (200, 22));
    let off = Running::start(dir.path());
    assert_eq!(off.get("/d/?zip").status, 404);
    // A cached index file does not answer for it.
    fs::write(dir.path().join("index.html"), "index").unwrap();
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.get("/").text(), "index");
        client.get("/?zip").is("Content-Type: application/zip");
    }
}

#[test]
fn limits() {
    let dir = site();
    let status = |change: &dyn Fn(&mut Options)| {
        let server = Running::with(dir.path(), |options| {
            packs(Zip::Store)(options);
            change(options);
        });
        server.get("/d/?zip").status
    };
    for (entries, expected) in [(NAMES.len(), 200), (NAMES.len() - 1, 403), (1, 403)] {
        let found = status(&|options| options.limits.zip_entries = entries);
        assert_eq!(found, expected, "{entries}");
    }
    assert_eq!(status(&|options| options.limits.zip_bytes = 100_000), 403);
    let refused = status(&|options| options.limits.zips = 0);
    assert_eq!(refused, 503);
    let deep = dir.path().join("d/x/".to_owned() + &"x/".repeat(64));
    fs::create_dir_all(deep).unwrap();
    assert_eq!(status(&|_| ()), 403);
}

#[test]
fn what_others_answer_for_is_left_out() {
    let dir = site();
    let mut users = tempfile::NamedTempFile::new().unwrap();
    writeln!(users, "ann:{}", bcrypt::hash("open sesame", 4).unwrap()).unwrap();
    let backend = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let server = Running::with(dir.path(), |options| {
        packs(Zip::Store)(options);
        options.site.auth = Auth {
            users: Some(users.path().to_owned()),
            paths: vec!["/d/e/**".to_owned(), "*.bin".to_owned()],
            ..Auth::default()
        };
        let upstream = Upstream::http(&format!("/d/nothing=http://{}", backend.address()));
        options.site.upstreams.http = vec![upstream.unwrap()];
    });
    let names = |fields: &str| {
        let answer = server.connect().request("GET", "/d/?zip", fields);
        unpack(&answer.body, TempDir::new().unwrap().path())
    };
    let Some(without) = names("") else { return };
    assert_eq!(without, ["link.txt", "run.sh", "text.txt"]);
    let with = names("Authorization: Basic YW5uOm9wZW4gc2VzYW1l\r\n").unwrap();
    let all = NAMES.iter().filter(|name| **name != "nothing");
    assert_eq!(with, all.copied().collect::<Vec<_>>());
}

#[test]
fn a_file_that_cannot_be_read_ends_the_connection() {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    disk.add_dir("d");
    disk.add_file("d/a", &noise());
    disk.add_file("d/b", b"unreadable");
    for zip in [Zip::Store, Zip::Deflate] {
        for (kind, file) in [
            (Kind::Open, "d/b"),
            (Kind::Read, "d/b"),
            (Kind::Read, "d/a"),
        ] {
            let server = Running::with(disk.path(), packs(zip));
            disk.set_at(file, kind, Fault::Fail(libc::EIO));
            let mut client = server.connect();
            client.send("GET /d/?zip HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let mut all = Vec::new();
            client.0.read_to_end(&mut all).unwrap();
            // What cannot be read at the start is an error.
            let status = if file == "d/a" { "500" } else { "200" };
            let expected = format!("HTTP/1.1 {status}");
            assert!(all.starts_with(expected.as_bytes()), "{zip:?} {file}");
            assert!(!all.ends_with(b"0\r\n\r\n"), "{zip:?} {file}");
            // No end of a table of contents.
            let end = b"PK\x05\x06";
            assert!(!all.windows(4).any(|bytes| bytes == end), "{zip:?} {file}");
            disk.clear_all();
            assert_eq!(server.get("/d/?zip").status, 200);
        }
    }
}

#[test]
fn a_client_that_goes_away_frees_its_place() {
    let dir = site();
    let large = fs::File::create(dir.path().join("d/large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let server = Running::with(dir.path(), |options| {
        packs(Zip::Store)(options);
        options.workers = Some(1);
        options.limits.zips = 1;
    });
    let mut client = server.connect();
    client.send("GET /d/?zip HTTP/1.1\r\nHost: a\r\n\r\n");
    client.0.read_exact(&mut [0; 100_000]).unwrap();
    assert_eq!(server.get("/d/?zip").status, 503);
    drop(client);
    until("the next one has the place", || {
        server.get("/d/e/?zip").status == 200
    });
}
