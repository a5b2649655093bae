//! `OpenBelow` opens the same files with `openat2` and without it.

use super::attributes::run;
use crate::harness::*;
use laio::Context;
use laio::below::{BelowStep, OpenBelow};
use laio::ops::{FileStatus, FileType, OpenFile};
use laio_testing::forbid::{self, Forbid};
use laio_testing::temp::scratch;
use laio_testing::test_name;
use libc::{RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
use rustix::fs::{CWD, FileType as Kind, Mode, OFlags, fcntl_getfl, mknodat};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;

const WITHIN: u64 = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
const REFUSE: u64 = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;

/// Opens to the end.
fn open(
    context: &mut Context,
    start: &OpenFile,
    name: &CStr,
    resolve: u64,
) -> io::Result<(OpenFile, FileStatus)> {
    let mut opening = OpenBelow::new(start.clone(), name.to_owned(), resolve);
    loop {
        let after = match opening.step()? {
            BelowStep::Open(open) => opening.opened(run(context, open)),
            BelowStep::Component(open) => opening.component_opened(run(context, open)),
            BelowStep::ReadLink(read) => opening.link_read(run(context, read)),
            BelowStep::Stat(stat) => opening.examined(run(context, stat)),
        };
        if let ControlFlow::Break(opened) = after {
            return opened;
        }
    }
}

fn opens_below() {
    let outer = scratch();
    let root = outer.path().join("root");
    fs::create_dir_all(root.join("inner/deep")).expect("directories");
    fs::write(outer.path().join("outside"), b"outside").expect("a file");
    fs::write(root.join("inner/deep/file"), b"deep").expect("a file");
    symlink("inner", root.join("to-inner")).expect("a link");
    symlink("../outside", root.join("to-outside")).expect("a link");
    mknodat(CWD, root.join("fifo"), Kind::Fifo, Mode::RWXU, 0).expect("a FIFO");
    let start = OpenFile::from(File::open(&root).expect("a directory"));
    let files: [(&CStr, u64, Result<&str, i32>); 10] = [
        (c"inner/deep/file", WITHIN, Ok("deep")),
        (c"inner/deep/../deep/file", REFUSE, Ok("deep")),
        (c"to-inner/deep/file", WITHIN, Ok("deep")),
        (c"to-inner/deep/file", REFUSE, Err(libc::ELOOP)),
        (c"../outside", WITHIN, Err(libc::EXDEV)),
        (c"to-outside", WITHIN, Err(libc::EXDEV)),
        (c"to-outside", REFUSE, Err(libc::ELOOP)),
        (c"to-outside", 0, Ok("outside")),
        (c"missing", WITHIN, Err(libc::ENOENT)),
        (c"inner/deep/file/x", WITHIN, Err(libc::ENOTDIR)),
    ];
    for_each_backend(|way| {
        let mut context = way.context();
        for (name, resolve, expected) in files {
            let opened = open(&mut context, &start, name, resolve);
            let read = opened.map(|(file, status)| {
                let mut text = String::new();
                file.as_std().read_to_string(&mut text).expect("its text");
                assert_eq!(status.size(), text.len() as u64);
                let flags = fcntl_getfl(&file).expect("flags");
                // Where the mode has an effect, it is gone; see `Opened::is_stored`.
                (flags & (OFlags::WRONLY | OFlags::RDWR), text)
            });
            let read = read.map_err(|error| error.raw_os_error().expect("an errno"));
            let expected = expected.map(|text| (OFlags::empty(), text.to_owned()));
            assert_eq!(read, expected, "{way}: {name:?}, {resolve:#x}");
        }
        for (name, kind) in [
            (c".", FileType::Directory),
            (c"inner", FileType::Directory),
            (c"to-inner", FileType::Directory),
            (c"fifo", FileType::Fifo),
        ] {
            let opened = open(&mut context, &start, name, WITHIN);
            let (_, status) = opened.unwrap_or_else(|error| panic!("{way}: {name:?}: {error}"));
            assert_eq!(status.file_type(), kind, "{way}: {name:?}");
        }
        // A file system that does not store its files: the mode has an effect, or might have one.
        let processes = OpenFile::from(File::open("/proc/self").expect("a directory"));
        let opened = open(&mut context, &processes, c"comm", WITHIN);
        let (file, status) = opened.expect("the name of the process");
        assert!(status.is_file());
        let flags = fcntl_getfl(&file).expect("flags");
        assert!(!flags.contains(OFlags::NONBLOCK), "{way}");
    });
}

#[test]
fn files_are_opened_below_a_directory() {
    if !laio_testing::lacks("openat2") {
        opens_below();
    }
}

#[test]
fn files_are_opened_below_a_directory_without_openat2() {
    for errno in [libc::ENOSYS, libc::EPERM, libc::EACCES] {
        forbid::child(test_name!(), &Forbid::openat2(errno), opens_below);
    }
}
