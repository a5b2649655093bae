//! The tree that the jobs copy and serve.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use laio_testing::temp::pattern;
use rustix::fs::{CWD, Mode, Timespec, Timestamps, XattrFlags};

/// The files, with their sizes.
pub(crate) const FILES: &[(&str, usize)] = &[
    ("empty", 0),
    ("one", 1),
    ("page", 4096),
    ("large", 300_000),
    ("linked", 5000),
    ("attributes", 900),
    ("inner/deep/file", 9999),
    ("inner/text", 65_536),
];

/// Makes the tree, with every kind of file; times long ago, so that a copy may compare them.
pub(crate) fn make(root: &Path) {
    fs::create_dir_all(root.join("inner/deep")).expect("a directory");
    fs::create_dir(root.join("nothing")).expect("a directory");
    for (seed, (name, size)) in FILES.iter().enumerate() {
        fs::write(root.join(name), pattern(*size, seed as u64)).expect("a file");
    }
    fs::hard_link(root.join("linked"), root.join("inner/second")).expect("a link");
    symlink("one", root.join("link")).expect("a link");
    symlink("/does/not/exist", root.join("dangling")).expect("a link");
    let fifo = root.join("inner/fifo");
    rustix::fs::mknodat(
        CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o640),
        0,
    )
    .expect("a FIFO");
    rustix::fs::setxattr(
        root.join("attributes"),
        "user.key",
        b"value",
        XattrFlags::empty(),
    )
    .expect("an attribute");
    fs::set_permissions(root.join("page"), fs::Permissions::from_mode(0o400)).expect("a mode");
    age(root);
}

/// Makes the older tree over which copies are made.
pub(crate) fn make_old(root: &Path) {
    fs::create_dir_all(root.join("inner/deep")).expect("a directory");
    for (seed, (name, size)) in FILES.iter().enumerate().skip(1) {
        fs::write(root.join(name), pattern(size + 500, seed as u64 + 100)).expect("a file");
    }
    fs::write(root.join("extra"), "stays").expect("a file");
    symlink("elsewhere", root.join("link")).expect("a link");
    age(root);
}

fn age(directory: &Path) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("its type").is_dir() {
            age(&entry.path());
        }
        set_old(&entry.path());
    }
    set_old(directory);
}

fn set_old(path: &Path) {
    let old = Timespec {
        tv_sec: 1_000_000_000,
        tv_nsec: 123,
    };
    let times = Timestamps {
        last_access: old,
        last_modification: old,
    };
    rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).expect("times");
}

/// Returns the contents of a file of the tree.
pub(crate) fn contents(name: &str) -> Vec<u8> {
    let seed = FILES
        .iter()
        .position(|(file, _)| *file == name)
        .expect("a file of the tree");
    pattern(FILES[seed].1, seed as u64)
}
