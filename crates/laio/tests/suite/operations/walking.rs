//! `Walk` opens what `openat2` opens, and fails as it does.

use super::attributes::run;
use crate::harness::*;
use laio::Context;
use laio::ops::{Name, Open};
use laio::walk::{Walk, WalkStep};
use laio_testing::forbid::{self, Forbid};
use laio_testing::temp::scratch;
use laio_testing::test_name;
use libc::{O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_RDONLY, O_RDWR, O_WRONLY};
use libc::{RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;

const NAMES: [&CStr; 34] = [
    c"file",
    c"./file",
    c"file/",
    c"file/.",
    c"file/..",
    c"missing",
    c"missing/file",
    c"inner",
    c"inner/",
    c"inner//deep/./file",
    c"inner/..",
    c"inner/../file",
    c"inner/deep/../../file",
    c"inner/deep/../../..",
    c"..",
    c"../tree/file",
    c".",
    c"",
    c"/",
    c"/etc/passwd",
    c"to-file",
    c"to-file/",
    c"to-inner",
    c"to-inner/",
    c"to-inner/deep/file",
    c"to-inner/deep/../../file",
    c"inner/to-above",
    c"to-outside",
    c"to-root/etc",
    c"to-missing",
    c"one-of-two",
    c"chain-39",
    c"chain-40",
    c"inner/up-and-in",
];

/// A directory with every kind of link, inside another one.
fn tree() -> tempfile::TempDir {
    let outer = scratch();
    let root = outer.path().join("tree");
    fs::create_dir_all(root.join("inner/deep")).expect("directories");
    fs::write(outer.path().join("outside"), b"outside").expect("a file");
    fs::write(root.join("file"), b"file").expect("a file");
    fs::write(root.join("inner/deep/file"), b"deep").expect("a file");
    for (target, name) in [
        ("file", "to-file"),
        ("inner/", "to-inner"),
        ("../file", "inner/to-above"),
        ("../outside", "to-outside"),
        ("/", "to-root"),
        ("missing", "to-missing"),
        ("two-of-two", "one-of-two"),
        ("one-of-two", "two-of-two"),
        ("../inner/deep/../../to-inner/deep/file", "inner/up-and-in"),
        ("file", "chain-0"),
    ] {
        symlink(target, root.join(name)).expect("a link");
    }
    for link in 1..=40 {
        let (target, name) = (format!("chain-{}", link - 1), format!("chain-{link}"));
        symlink(target, root.join(name)).expect("a link");
    }
    outer
}

/// Walks to the end.
fn walk(context: &mut Context, mut walk: Walk<Arc<OwnedFd>>) -> io::Result<OwnedFd> {
    loop {
        let after = match walk.step()? {
            WalkStep::Open(open) => walk.opened(run(context, open)),
            WalkStep::ReadLink(read) => walk.link_read(run(context, read)),
        };
        if let ControlFlow::Break(opened) = after {
            return opened;
        }
    }
}

/// The device and inode of what was opened and its flags, or the errno.
fn seen(opened: io::Result<OwnedFd>) -> Result<(u64, u64, i32), i32> {
    let opened = opened.map_err(|error| error.raw_os_error().expect("an errno"))?;
    let flags = rustix::fs::fcntl_getfl(&opened).expect("flags").bits() as i32;
    let status = File::from(opened).metadata().expect("a status");
    // A walk to a link that is opened itself adds this flag, which has no effect on an open file.
    Ok((status.dev(), status.ino(), flags & !O_NOFOLLOW))
}

fn directory(path: &Path) -> Arc<OwnedFd> {
    Arc::new(File::open(path).expect("a directory").into())
}

#[test]
fn a_walk_opens_what_openat2_opens() {
    if laio_testing::lacks("openat2") {
        return;
    }
    let outer = tree();
    let start = directory(&outer.path().join("tree"));
    let flags = [
        O_RDONLY,
        O_RDWR,
        O_PATH,
        O_RDONLY | O_DIRECTORY,
        O_PATH | O_NOFOLLOW,
    ];
    let flags = flags
        .into_iter()
        .chain([O_RDONLY | O_NOFOLLOW, O_PATH | O_DIRECTORY]);
    let flags: Vec<i32> = flags.collect();
    let resolves = [RESOLVE_BENEATH, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS];
    let resolves = resolves
        .into_iter()
        .chain([RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS]);
    let resolves: Vec<u64> = resolves.collect();
    for_each_backend(|way| {
        let mut context = way.context();
        for name in NAMES {
            for &flags in &flags {
                for &resolve in &resolves {
                    let open = Open::new(Name::at(start.clone(), name), flags).resolve(resolve);
                    let expected = seen(run(&mut context, open));
                    let walked = Walk::new(start.clone(), name, flags, resolve);
                    let walked = seen(walk(&mut context, walked));
                    assert_eq!(
                        walked, expected,
                        "{way}: {name:?}, {flags:#o}, {resolve:#x}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_walk_makes_a_file_where_openat2_does() {
    let outer = tree();
    let root = outer.path().join("tree");
    let start = directory(&root);
    let mut context = Context::new(laio::Options::new()).expect("a context");
    let mut make = |name: &CStr, flags: i32| {
        let new = Walk::new(
            start.clone(),
            name,
            O_WRONLY | O_CREAT | flags,
            RESOLVE_BENEATH,
        );
        seen(walk(&mut context, new.mode(0o600))).map(drop)
    };
    assert_eq!(make(c"inner/new", O_EXCL), Ok(()));
    let mode = fs::metadata(root.join("inner/new"))
        .expect("a status")
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_eq!(make(c"inner/new", O_EXCL), Err(libc::EEXIST));
    assert_eq!(make(c"to-file", O_EXCL), Err(libc::EEXIST));
    assert_eq!(make(c"to-missing", 0), Ok(()));
    assert!(root.join("missing").is_file());
    assert_eq!(make(c"../new", 0), Err(libc::EXDEV));
    assert!(!outer.path().join("new").exists());
}

#[test]
fn a_directory_that_moves_away_leads_nowhere_else() {
    let outer = tree();
    let root = outer.path().join("tree");
    let mut context = Context::new(laio::Options::new()).expect("a context");
    let path = c"inner/deep/../../file";
    let mut walked = Walk::new(directory(&root), path, O_RDONLY, RESOLVE_BENEATH);
    for step in 0.. {
        if step == 2 {
            // Its parent is outside of the tree now, where `../../file` would be another file.
            fs::rename(root.join("inner/deep"), outer.path().join("deep")).expect("renamed");
        }
        let Ok(WalkStep::Open(open)) = walked.step() else {
            panic!("there is no link");
        };
        if let ControlFlow::Break(opened) = walked.opened(run(&mut context, open)) {
            let expected = fs::metadata(root.join("file")).expect("a status").ino();
            assert_eq!(seen(opened).expect("the file").1, expected);
            assert_eq!(step, 2);
            return;
        }
    }
}

#[test]
fn a_walk_is_for_a_missing_call_only() {
    let error = io::Error::from_raw_os_error;
    assert!(Walk::replaces(&error(libc::ENOSYS), RESOLVE_BENEATH));
    assert!(!Walk::replaces(&error(libc::ENOSYS), RESOLVE_NO_SYMLINKS));
    assert!(!Walk::replaces(
        &error(libc::ENOSYS),
        RESOLVE_BENEATH | libc::RESOLVE_NO_XDEV
    ));
    assert!(!Walk::replaces(&error(libc::ENOENT), RESOLVE_BENEATH));
    for errno in [libc::EPERM, libc::EACCES] {
        forbid::child(test_name!(), &Forbid::openat2(errno), || {
            assert!(Walk::replaces(&error(errno), RESOLVE_BENEATH));
        });
        if !laio_testing::lacks("openat2") {
            assert!(!Walk::replaces(&error(errno), RESOLVE_BENEATH));
        }
    }
}
