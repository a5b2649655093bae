//! What is on the device when a copy has ended, and what is left behind when a call fails.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use laio_testing::Skip;
use libtest_mimic::Trial;

use crate::case::case;
use crate::compare::fresh;
use crate::failures::{names, trial};
use crate::programs::Side;
use crate::run::{self, Ran};
use crate::traced;
use crate::world::World;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("lasting::--fsync syncs directories", directories_are_synced),
        trial("lasting::a directory that cannot be synced", sync_fails),
        trial("lasting::a plan syncs directories", plan_is_synced),
        trial("lasting::a manifest that cannot be written", manifest_fails),
        trial(
            "lasting::--resume without a descriptor for its lock",
            no_lock,
        ),
        trial("lasting::leftovers of links and special files", leftovers),
        trial("lasting::a link that cannot be replaced stays", links_stay),
    ]
}

fn world(lines: &str) -> Result<World, Skip> {
    World::make(&fresh(Side::Ours), lines, false)
}

fn ran(command: &str, root: &Path) -> Ran {
    run::run(&case("", "", command), Side::Ours, root)
}

fn said(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// The number of successful calls of `fsync`.
fn syncs(command: &str, root: &Path) -> Result<usize, Skip> {
    // Through the ring, strace would not see it.
    let is_planned = command.starts_with("--work") || command.starts_with("--finish");
    let options = if is_planned {
        ""
    } else {
        "--backend=sync --jobs=1"
    };
    let (calls, status) = traced::calls("fsync", &format!("{options} {command}"), root)?;
    assert_eq!(status, 0, "{command}: {calls:?}");
    let made = calls.iter().filter(|call| call.starts_with("fsync("));
    Ok(made.filter(|call| call.ends_with("= 0")).count())
}

const TREE: &str = "file s/f; file s/t/g; link s/t/l g; fifo s/u/p; dir d e";

/// Each file and each directory in which a name is new, with the directories of the operands.
fn directories_are_synced() -> Result<(), Skip> {
    for (command, expected) in [
        // Files f and g; directories s, t and u; and d.
        ("-a --fsync s d", 6),
        ("-a --fsync --atomic s d", 6),
        ("-a --fsync --resume s d", 6),
        ("-aT --fsync s d/new", 6),
        ("--fsync s/f d", 2),
        ("--fsync s/f d/f", 2),
        ("--fsync s/f s/t/g d", 3),
        ("-l --fsync s/f d/f", 1),
        // The directories s and t of the name, and d.
        ("--parents --fsync s/t/g d", 4),
        // The manifest and its directory.
        ("--fsync --manifest=e/sums s/f d", 4),
        ("-a s d", 0),
    ] {
        let world = world(TREE)?;
        assert_eq!(syncs(command, &world.root)?, expected, "cp {command}");
    }
    Ok(())
}

fn sync_fails() -> Result<(), Skip> {
    let world = world(TREE)?;
    #[rustfmt::skip]
    let cases = [
        ("--fsync s/f d/f", "fsync:error=EIO:when=2+", "cannot sync directory 'd"),
        ("-l --fsync s/f d/g", "fsync:error=EIO", "cannot sync directory 'd"),
        ("-a --fsync s/t e", "fsync:error=EDQUOT:when=2+", "cannot sync directory 'e/t'"),
    ];
    for (command, fault, name) in cases {
        let command = format!("--backend=sync --jobs=1 {command}");
        let ran = traced::failing(&[fault], &command, &world.root)?;
        assert_eq!(ran.status, "exit status 1", "{command}: {}", said(&ran));
        assert!(said(&ran).contains(name), "{command}: {}", said(&ran));
    }
    // Such a file system does not sync directories.
    let ran = traced::failing(
        &["fsync:error=EINVAL:when=2"],
        "--backend=sync --fsync s/f d/h",
        &world.root,
    )?;
    assert_eq!((&*ran.status, &*said(&ran)), ("exit status 0", ""));
    Ok(())
}

fn plan_is_synced() -> Result<(), Skip> {
    let world = world("file s/f; file s/t/g; file s/big 300000; hard s/t/h s/f; dir d")?;
    let plan = ran(
        "--plan P --max-files 1 --max-bytes 64K -a --fsync --backend=sync --jobs=1 s d",
        &world.root,
    );
    assert_eq!(plan.status, "exit status 0", "{}", said(&plan));
    // Files f and g, and each region.
    let of_parts = syncs("--work P", &world.root)?;
    assert!(of_parts >= 3, "{of_parts}");
    // The large file; the directories s, t and d.
    let of_end = syncs("--finish P", &world.root)?;
    assert!(of_end >= 4, "{of_end}");
    Ok(())
}

/// Nothing else is left, and an older manifest stays.
fn manifest_fails() -> Result<(), Skip> {
    for fault in ["rename:error=EIO", "fsync:error=ENOSPC"] {
        let world = world("file f; dir d; file sums =old")?;
        let options = if fault.starts_with("fsync") {
            "--fsync"
        } else {
            ""
        };
        let command = format!("{options} --manifest=sums f d");
        let ran = traced::failing(&[fault], &command, &world.root)?;
        assert_eq!(ran.status, "exit status 1", "{fault}: {}", said(&ran));
        assert!(
            said(&ran).contains("cannot write the manifest 'sums'"),
            "{fault}: {}",
            said(&ran)
        );
        assert_eq!(names(&world.root), ["d", "f", "sums"], "{fault}");
        let sums = fs::read_to_string(world.root.join("sums")).expect("there");
        assert_eq!(sums, "old", "{fault}");
    }
    Ok(())
}

/// Without the descriptor that keeps the lock, the file is not copied, and the message says so.
fn no_lock() -> Result<(), Skip> {
    for lines in ["file s/f; dir d", "file s/f; file d/s/f =old"] {
        let world = world(lines)?;
        let command = "-r --resume --backend=sync s d";
        let ran = traced::failing(&["fcntl:error=EMFILE"], command, &world.root)?;
        assert_eq!(ran.status, "exit status 1", "{lines}: {}", said(&ran));
        assert!(said(&ran).contains("'d/s/f'"), "{lines}: {}", said(&ran));
        let left = names(&world.root.join("d/s"));
        assert!(
            !left.iter().any(|name| name.starts_with(".laio-cp-")),
            "{lines}: {left:?}"
        );
    }
    Ok(())
}

/// A killed run leaves the temporary name of a link or a special file; the next one removes it.
fn leftovers() -> Result<(), Skip> {
    for call in ["renameat2", "renameat"] {
        let world = world(
            "link s/l new; fifo s/p; char s/n 1 3; link d/s/l old; file d/s/p =old; file d/s/n =old",
        )?;
        for number in 1..=3 {
            let fault = format!("{call}:signal=KILL:when={number}");
            traced::failing(&[&fault], "-a --resume s d", &world.root)?;
            for name in ["l", "p", "n"] {
                let there = fs::symlink_metadata(world.root.join("d/s").join(name));
                assert!(there.is_ok(), "{call} {number}: {name} is gone");
            }
        }
        let ran = ran("-a --resume s d", &world.root);
        assert_eq!(ran.status, "exit status 0", "{call}: {}", said(&ran));
        assert_eq!(names(&world.root.join("d/s")), ["l", "n", "p"], "{call}");
        let text = fs::read_link(world.root.join("d/s/l")).expect("a link");
        assert_eq!(text, Path::new("new"));
    }
    Ok(())
}

/// GNU cp has removed the existing file when the call fails that creates or reads its successor.
fn links_stay() -> Result<(), Skip> {
    let lines = "link s/l new; fifo s/p; link d/s/l old; file d/s/p =old";
    for options in ["-a", "-a --atomic", "-a --resume"] {
        for fault in [
            "symlinkat",
            "mknodat",
            "readlinkat",
            "renameat2",
            "utimensat",
        ] {
            let world = world(lines)?;
            let error = format!("{fault}:error=EIO");
            let ran = traced::failing(&[&error], &format!("{options} s d"), &world.root)?;
            let what = format!("{options}, {fault}: {}", said(&ran));
            let status = |name: &str| fs::symlink_metadata(world.root.join("d/s").join(name));
            assert!(status("l").is_ok_and(|it| it.is_symlink()), "{what}");
            assert!(status("p").is_ok_and(|it| it.mode() != 0), "{what}");
            assert_eq!(names(&world.root.join("d/s")), ["l", "p"], "{what}");
        }
    }
    Ok(())
}
