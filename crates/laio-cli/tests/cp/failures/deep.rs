//! Trees of any depth and size, with few descriptors and little memory.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use laio_testing::Skip;
use libtest_mimic::Trial;
use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat};

use crate::case::case;
use crate::compare::fresh;
use crate::programs::Side;
use crate::run::{self, Ran};
use crate::world::World;

use super::faulty_fs::trial;

const LIMIT: Duration = Duration::from_secs(300);
/// More entries than one batch of a listing.
const MANY: u32 = 20_000;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("deep::10,000 levels, few descriptors and many", || {
            deep(10_000, &[64, 1024], "-a")
        }),
        trial("deep::one tree after the other", || {
            deep(1000, &[24], "-ai")
        }),
        trial("deep::many directories in little memory", many),
    ]
}

fn deep(levels: u32, descriptors: &[u32], options: &str) -> Result<(), Skip> {
    let world = World::make(&in_memory(), "", false)?;
    let tried = make(&world.root, "s", levels).and_then(|()| {
        for (index, descriptors) in descriptors.iter().enumerate() {
            let copy = format!("d{index}");
            let few = format!("ulimit -n {descriptors}");
            let ran = run_ours(&world, &few, &format!("{options} s {copy}"));
            let said = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status, "exit status 0", "{said:.1000}");
            assert_eq!(look(&world.root, &copy, levels)?, levels);
        }
        Ok(())
    });
    // `std::fs::remove_dir_all` keeps a descriptor per level.
    let removed = Command::new("rm").arg("-rf").arg(&world.root).status();
    assert!(removed.expect("rm is there").success());
    tried.expect("a deep tree can be made and read");
    Ok(())
}

/// A path for a world of many thousand directories, in memory if possible.
fn in_memory() -> PathBuf {
    let usual = fresh(Side::Ours);
    let name = format!(
        "laio-test-{}-{}",
        std::process::id(),
        usual.file_name().unwrap_or_default().display()
    );
    let memory = Path::new("/dev/shm").join(name);
    match fs::create_dir(&memory).and_then(|()| fs::remove_dir(&memory)) {
        Ok(()) => memory,
        Err(_) => usual,
    }
}

fn run_ours(world: &World, before: &str, command: &str) -> Ran {
    let case = case("", "", command).after(before);
    let mut command = run::command(&case, Side::Ours, &world.root);
    run::finish(run::start(&mut command, b""), LIMIT)
}

fn open(at: impl std::os::fd::AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(
        at,
        name,
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Creates a level in the other tree, with a link to a file of the first.
fn make(root: &Path, name: &str, levels: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o755);
    fs::create_dir(root.join(name))?;
    let first = open(CWD, root.join(name).to_str().expect("text"))?;
    let flags = OFlags::CREATE | OFlags::CLOEXEC;
    let file = openat(&first, "file", flags, Mode::from_raw_mode(0o640))?;
    let mut at = first.try_clone()?;
    for level in 0..levels {
        mkdirat(&at, "dddddddddd", mode)?;
        at = open(&at, "dddddddddd")?;
        // Other files are linked to it while its directory is closed.
        if level % 1000 == 0 {
            rustix::fs::linkat(&first, "file", &at, "link", rustix::fs::AtFlags::empty())?;
        }
    }
    drop(file);
    Ok(())
}

/// Checks the number of levels, and the links in each.
fn look(root: &Path, name: &str, expected: u32) -> io::Result<u32> {
    let mut at = open(CWD, root.join(name).to_str().expect("text"))?;
    let file = openat(&at, "file", OFlags::CLOEXEC, Mode::empty())?;
    let file = fs::File::from(file).metadata()?;
    assert_eq!(file.nlink(), 1 + u64::from(expected / 1000));
    let mut levels = 0;
    loop {
        assert_eq!(fstat(&at)?.st_mode & 0o7777, 0o755);
        match open(&at, "dddddddddd") {
            Ok(below) => at = below,
            Err(_) => return Ok(levels),
        }
        if levels % 1000 == 0 {
            let link = openat(&at, "link", OFlags::CLOEXEC, Mode::empty())?;
            assert_eq!(fstat(&link)?.st_ino, file.ino());
        }
        levels += 1;
    }
}

fn many() -> Result<(), Skip> {
    // Its limit on memory would be that of an emulator.
    Skip::unless_there("native")?;
    let world = World::make(&in_memory(), "dir s", false)?;
    for index in 0..MANY {
        fs::create_dir(world.root.join(format!("s/{index}"))).expect("made");
    }
    // Much more than needed, and less than one listing per directory would need.
    let ran = run_ours(&world, "ulimit -v 500000", "-a s d");
    assert_eq!(ran.status, "exit status 0", "{ran:?}");
    let copied = fs::read_dir(world.root.join("d")).expect("there").count();
    assert_eq!(copied, MANY as usize);
    Ok(())
}
