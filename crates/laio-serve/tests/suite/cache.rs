//! The file cache never serves a file that differs from the disk, however the file was changed.

use crate::common::{Client, Running};
use laio::BackendKind;
use laio_serve::{Cache, Symlinks};
use laio_testing::{FaultFs, or_skip};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use tempfile::TempDir;

/// Changes to a file, each followed by requests for it.
const CHANGES: usize = 50;

/// With a ring, without one, with helper threads, and with blocking calls.
const BACKENDS: [BackendKind; 4] = [
    BackendKind::Lazy,
    BackendKind::Hybrid,
    BackendKind::Threads,
    BackendKind::Sync,
];

/// A file that is cached in memory, and one that is kept open.
const SIZES: [usize; 2] = [1000, 100_000];

fn contents(size: usize, number: usize) -> Vec<u8> {
    let length = size + number % 7;
    let mut text = format!("{number}, ").repeat(length / 3 + 1).into_bytes();
    text.truncate(length);
    text
}

/// Changes a file with `change`, which returns the expected contents, and requests it: at once, and
/// until it is cached again.
fn is_true(
    target: &str,
    set_up: impl Fn(&Path),
    change: impl Fn(&Path, usize, &[u8]) -> Option<Vec<u8>>,
) {
    for (backend, size) in BACKENDS
        .into_iter()
        .flat_map(|one| SIZES.map(|size| (one, size)))
    {
        let site = TempDir::new().unwrap();
        set_up(site.path());
        let server = Running::on(backend, site.path(), |options| options.workers = Some(1));
        let mut client = server.connect();
        for number in 0..CHANGES {
            let expected = change(site.path(), number, &contents(size, number));
            for again in 0..4 {
                let what = format!("{backend}, {size} bytes, change {number}, request {again}");
                expect(&mut client, target, expected.as_deref(), &what);
            }
        }
        drop(client);
        server.stop();
    }
}

fn expect(client: &mut Client, target: &str, expected: Option<&[u8]>, what: &str) {
    let answer = client.get(target);
    match expected {
        Some(expected) => {
            assert_eq!(answer.status, 200, "{what}");
            assert_eq!(answer.body.len(), expected.len(), "{what}: the length");
            assert!(answer.body == expected, "{what}: the bytes");
        }
        None => assert_eq!(answer.status, 404, "{what}"),
    }
}

/// Replaces a file atomically with other contents.
fn replace(path: &Path, contents: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, contents).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn files_are_cached() {
    for backend in BACKENDS {
        let site = TempDir::new().unwrap();
        fs::write(site.path().join("small"), contents(1000, 0)).unwrap();
        fs::write(site.path().join("large"), contents(100_000, 0)).unwrap();
        let server = Running::on(backend, site.path(), |options| options.workers = Some(1));
        let mut client = server.connect();
        for _ in 0..100 {
            expect(&mut client, "/small", Some(&contents(1000, 0)), "small");
            expect(&mut client, "/large", Some(&contents(100_000, 0)), "large");
        }
        drop(client);
        assert!(server.stop().cache_hits > 0, "{backend}");
    }
}

/// Of each way to send a cached file: with its head, beside it, and from the page cache.
#[test]
fn cached_files_arrive_whole_at_a_client_that_reads_late() {
    let files = [("copied", 1000), ("beside", 50_000), ("sendfile", 1 << 20)];
    // More than the buffers of two sockets hold, so each way meets a full one.
    const ROUNDS: usize = 16;
    for backend in BACKENDS {
        let site = TempDir::new().unwrap();
        for (name, size) in files {
            fs::write(site.path().join(name), contents(size, 0)).unwrap();
        }
        let server = Running::on(backend, site.path(), |options| options.workers = Some(1));
        let mut client = server.connect();
        for (name, size) in files.repeat(3) {
            expect(
                &mut client,
                &format!("/{name}"),
                Some(&contents(size, 0)),
                name,
            );
        }
        let requests = files.repeat(ROUNDS);
        let one = |(name, _): &(&str, _)| format!("GET /{name} HTTP/1.1\r\nHost: test\r\n\r\n");
        client.send(requests.iter().map(one).collect::<String>());
        for (name, size) in requests {
            let answer = client.answer(false);
            assert_eq!(answer.status, 200, "{backend}, {name}");
            assert!(answer.body == contents(size, 0), "{backend}, {name}");
        }
        drop(client);
        assert!(server.stop().cache_hits > 0, "{backend}");
    }
}

#[test]
fn without_a_cache_no_file_is_cached() {
    let site = TempDir::new().unwrap();
    fs::write(site.path().join("small"), "small").unwrap();
    let server = Running::with(site.path(), |options| {
        options.cache = Cache::OFF;
    });
    let mut client = server.connect();
    for _ in 0..10 {
        expect(&mut client, "/small", Some(b"small"), "small");
    }
    drop(client);
    assert_eq!(server.stop().cache_hits, 0);
}

#[test]
fn written_in_place() {
    is_true(
        "/file",
        |_| {},
        |root, number, contents| {
            if number == 0 {
                fs::write(root.join("file"), contents).unwrap();
            }
            let file = OpenOptions::new()
                .write(true)
                .open(root.join("file"))
                .unwrap();
            file.set_len(contents.len() as u64).unwrap();
            file.write_all_at(contents, 0).unwrap();
            Some(contents.to_vec())
        },
    );
}

#[test]
fn written_through_an_open_descriptor() {
    let open: std::cell::RefCell<Option<File>> = None.into();
    is_true(
        "/file",
        |_| {},
        |root, number, contents| {
            let mut open = open.borrow_mut();
            if number == 0 {
                *open = Some(File::create(root.join("file")).unwrap());
            }
            let file = open.as_ref().unwrap();
            file.set_len(contents.len() as u64).unwrap();
            file.write_all_at(contents, 0).unwrap();
            Some(contents.to_vec())
        },
    );
}

#[test]
fn made_shorter_and_longer() {
    is_true(
        "/file",
        |_| {},
        |root, number, contents| {
            if number % 3 == 0 {
                fs::write(root.join("file"), contents).unwrap();
                return Some(contents.to_vec());
            }
            let file = OpenOptions::new()
                .write(true)
                .open(root.join("file"))
                .unwrap();
            file.set_len(number as u64 % 4 * 100).unwrap();
            Some(fs::read(root.join("file")).unwrap())
        },
    );
}

#[test]
fn replaced_by_a_rename() {
    is_true(
        "/a/b/file",
        |root| fs::create_dir_all(root.join("a/b")).unwrap(),
        |root, _, contents| {
            replace(&root.join("a/b/file"), contents);
            Some(contents.to_vec())
        },
    );
}

#[test]
fn deleted_and_made_again() {
    is_true(
        "/file",
        |_| {},
        |root, number, contents| {
            let file = root.join("file");
            if number % 2 == 1 {
                fs::remove_file(file).unwrap();
                return None;
            }
            fs::write(file, contents).unwrap();
            Some(contents.to_vec())
        },
    );
}

#[test]
fn a_link_in_the_path_swapped() {
    let set_up = |root: &Path| {
        for name in ["one", "two"] {
            fs::create_dir(root.join(name)).unwrap();
        }
    };
    is_true("/current/file", set_up, |root, number, contents| {
        let target = ["one", "two"][number % 2];
        fs::write(root.join(target).join("file"), contents).unwrap();
        symlink(target, root.join("next")).unwrap();
        fs::rename(root.join("next"), root.join("current")).unwrap();
        Some(contents.to_vec())
    });
}

#[test]
fn a_directory_in_the_path_renamed() {
    let set_up = |root: &Path| fs::create_dir_all(root.join("top/0/below")).unwrap();
    is_true("/top/site/below/file", set_up, |root, number, contents| {
        let top = root.join("top");
        let next = top.join(format!("{}/below", number + 1));
        fs::create_dir_all(next).unwrap();
        fs::write(top.join(format!("{number}/below/file")), contents).unwrap();
        if number > 0 {
            fs::rename(top.join("site"), top.join(format!("old{number}"))).unwrap();
        }
        fs::rename(top.join(number.to_string()), top.join("site")).unwrap();
        Some(contents.to_vec())
    });
}

#[test]
fn a_directory_high_in_the_path_swapped() {
    let set_up = |root: &Path| {
        for name in ["a/b/c", "spare/b/c"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
    };
    is_true("/a/b/c/file", set_up, |root, _, contents| {
        fs::write(root.join("spare/b/c/file"), contents).unwrap();
        fs::rename(root.join("a"), root.join("other")).unwrap();
        fs::rename(root.join("spare"), root.join("a")).unwrap();
        fs::rename(root.join("other"), root.join("spare")).unwrap();
        Some(contents.to_vec())
    });
}

#[test]
fn written_under_another_name() {
    let elsewhere = TempDir::new().unwrap();
    is_true(
        "/file",
        |_| {},
        |root, number, contents| {
            let other = elsewhere.path().join("other");
            if number == 0 {
                let _ = fs::remove_file(&other);
                fs::write(root.join("file"), contents).unwrap();
                fs::hard_link(root.join("file"), &other).unwrap();
            }
            fs::write(other, contents).unwrap();
            Some(contents.to_vec())
        },
    );
}

#[test]
fn a_link_in_place_of_a_file() {
    let site = TempDir::new().unwrap();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    for symlinks in [Symlinks::Within, Symlinks::Refuse] {
        let server = Running::with(site.path(), |options| {
            options.workers = Some(1);
            options.site.symlinks = symlinks;
        });
        let mut client = server.connect();
        for _ in 0..20 {
            replace(&site.path().join("file"), b"open");
            (0..4).for_each(|_| expect(&mut client, "/file", Some(b"open"), "a file"));
            fs::remove_file(site.path().join("file")).unwrap();
            symlink(outside.path().join("secret"), site.path().join("file")).unwrap();
            (0..4).for_each(|_| expect(&mut client, "/file", None, "a link to the outside"));
        }
        fs::remove_file(site.path().join("file")).unwrap();
    }
}

/// More changes than the inotify queue holds, including the one to the cached file.
#[test]
fn changes_that_are_lost() {
    let queued = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queued: usize = queued.trim().parse().unwrap();
    if queued > 100_000 {
        return laio_testing::skip("inotify-queue", "the queue is too long to fill it");
    }
    let site = TempDir::new().unwrap();
    let (one, two) = (site.path().join("one"), site.path().join("two"));
    fs::write(site.path().join("file"), "before").unwrap();
    fs::write(&one, "").unwrap();
    let server = Running::with(site.path(), |options| options.workers = Some(1));
    let mut client = server.connect();
    (0..4).for_each(|_| expect(&mut client, "/file", Some(b"before"), "before"));
    for _ in 0..queued / 4 + 1 {
        fs::rename(&one, &two).unwrap();
        fs::rename(&two, &one).unwrap();
    }
    fs::write(site.path().join("file"), "afterwards").unwrap();
    (0..4).for_each(|_| expect(&mut client, "/file", Some(b"afterwards"), "afterwards"));
}

/// On a FUSE file system, changes by others cause no inotify event.
#[test]
fn on_a_fuse_file_system() {
    let Some(other) = or_skip(FaultFs::mount()) else {
        return;
    };
    let server = Running::with(other.path(), |options| {
        options.workers = Some(1);
    });
    let mut client = server.connect();
    for number in 0..10 {
        let name = format!("file{number}");
        other.add_file(&name, format!("number {number}").as_bytes());
        for _ in 0..4 {
            let expected = format!("number {number}");
            expect(
                &mut client,
                &format!("/{name}"),
                Some(expected.as_bytes()),
                "FUSE",
            );
        }
    }
    drop(client);
    assert_eq!(server.stop().cache_hits, 0);
}

/// The cache stays within its limits, whatever is requested.
#[test]
fn more_files_than_the_cache_holds() {
    let site = TempDir::new().unwrap();
    let (small, large) = (contents(300, 1), contents(3000, 2));
    for number in 0..100 {
        let name = |kind: &str| site.path().join(format!("{kind}{number}"));
        fs::write(name("small"), &small).unwrap();
        fs::write(name("large"), &large).unwrap();
    }
    let server = Running::with(site.path(), |options| {
        options.workers = Some(1);
        options.cache = Cache {
            files: 10,
            file_bytes: 1000,
            bytes: 1500,
            descriptors: 3,
        };
    });
    let open = || {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter(|entry| {
                let link = entry
                    .as_ref()
                    .ok()
                    .and_then(|entry| fs::read_link(entry.path()).ok());
                link.is_some_and(|link| link.starts_with(site.path()) && link != site.path())
            })
            .count()
    };
    let mut client = server.connect();
    for _ in 0..3 {
        for number in 0..100 {
            for _ in 0..3 {
                expect(
                    &mut client,
                    &format!("/small{number}"),
                    Some(&small),
                    "small",
                );
                expect(
                    &mut client,
                    &format!("/large{number}"),
                    Some(&large),
                    "large",
                );
            }
        }
    }
    // The cached files, and perhaps the last one answered; the others may be closed a moment later.
    crate::common::until("files are closed", || open() <= 3 + 1);
    drop(client);
    assert!(server.stop().cache_hits > 0);
}

/// Beyond the limit the whole cache is dropped: no stale file is served, and nothing grows.
#[test]
fn more_directories_than_are_watched() {
    let site = TempDir::new().unwrap();
    let number = Cache::DIRECTORIES + 50;
    for directory in 0..number {
        let path = site.path().join(directory.to_string());
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), directory.to_string()).unwrap();
    }
    let server = Running::with(site.path(), |options| {
        options.workers = Some(1);
    });
    let mut client = server.connect();
    let mut ask = |directory: usize, contents: &str| {
        let target = format!("/{directory}/file");
        expect(&mut client, &target, Some(contents.as_bytes()), &target);
    };
    for directory in 0..number {
        let contents = directory.to_string();
        // The second request caches it.
        ask(directory, &contents);
        ask(directory, &contents);
    }
    for directory in [0, 1, number - 2, number - 1] {
        for contents in ["changed", "again"] {
            replace(
                &site.path().join(format!("{directory}/file")),
                contents.as_bytes(),
            );
            (0..3).for_each(|_| ask(directory, contents));
        }
    }
    drop(client);
    assert!(server.stop().cache_hits > 0);
}
