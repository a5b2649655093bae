//! A copy whose data is complete is kept if an attribute cannot be set: it gets its name, the
//! failure is reported in the words of GNU's cp, and the exit status is 1.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use laio_testing::Skip;
use laio_testing::fault_fs::{Fault, Kind};
use libtest_mimic::{Completion, Failed, Trial};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::Verdict;
use crate::case::case;
use crate::compare::{differences, fresh, skipped};
use crate::failures::{FaultyFixture, trial};
use crate::programs::{self, Side};
use crate::run::{self, LIMIT, Ran};
use crate::snapshot;
use crate::traced;
use crate::world::World;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for command in [
        "-a f r",
        "-p f r",
        "--preserve=mode f r",
        "--preserve=xattr f r",
        "--preserve=xattr g r",
        "-a g r",
        "-a s r",
        "-r --preserve=all s r",
        "-r --preserve=xattr s r",
        "-a f g r",
        "-r f g s r",
        "-a s/h s/i r",
    ] {
        let name = format!("kept::{command}, a file system without attributes");
        trials.push(Trial::ignorable_test(name, move || as_gnu(command)));
    }
    for fault in ["fchown", "fchmod", "fsetxattr", "utimensat"] {
        for options in [
            "",
            "--atomic",
            "--verify",
            "--atomic --fsync --manifest=sums",
            "--resume",
        ] {
            let name = format!("kept::{fault} fails, -a {options}");
            trials.push(trial_of(name, move || file_stays(fault, options)));
        }
    }
    trials.push(trial_of("kept::the backup stays".to_owned(), backup_stays));
    trials.push(trial_of(
        "kept::the owning group gets its permissions from the ACL".to_owned(),
        acl_is_lost,
    ));
    trials.push(trial_of(
        "kept::--verify finds attributes that were lost in silence".to_owned(),
        lost_attributes_are_found,
    ));
    trials.push(trial_of("kept::a large file of a plan".to_owned(), plan));
    trials.push(trial_of("kept::--resume tries again".to_owned(), resumed));
    trials.push(trial(
        "kept::an incomplete file is removed",
        incomplete_is_removed,
    ));
    trials.push(trial(
        "kept::a temporary file that cannot be closed is removed",
        close_fails,
    ));
    trials
}

fn trial_of(name: String, body: impl Fn() -> Result<(), Skip> + Send + 'static) -> Trial {
    let test = name.clone();
    Trial::ignorable_test(name, move || match body() {
        Ok(()) => Ok(Completion::Completed),
        Err(skip) => skipped(&test, &skip),
    })
}

const WORLD: &str = "file f; file g; xattr g user.one 1; xattr g user.two 2; file s/h; hard s/i s/h; file s/t/k; xattr s/t user.one 1; \
    xattr s/h user.three 3; acl f u::rw,u:1000:rw,g::rw,m::rw,o::r; file s/l; acl s/l u::rw,u:1000:r,g::r,m::r,o::";

/// A file system without extended attributes and ACLs.
struct Ramfs(std::path::PathBuf);

impl Ramfs {
    fn mount(at: &Path) -> Result<Ramfs, Skip> {
        fs::create_dir(at).expect("a directory");
        mount("ramfs", at, "ramfs", MountFlags::empty(), None)
            .map_err(|error| Skip::because("mounts", format!("cannot mount ramfs: {error}")))?;
        Ok(Ramfs(at.to_owned()))
    }
}

impl Drop for Ramfs {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// The tree, the messages and the exit status equal GNU's.
fn as_gnu(command: &str) -> Verdict {
    let side = |side: Side| -> Result<(Ran, snapshot::Tree), Skip> {
        let world = World::make(&fresh(side), WORLD, false)?;
        let _ramfs = Ramfs::mount(&world.root.join("r"))?;
        let ran = run::run(&case("", "", command), side, &world.root);
        Ok((ran, snapshot::of(&world.root, &world.names())))
    };
    let both = programs::gnu().and_then(|()| Ok((side(Side::Gnu)?, side(Side::Ours)?)));
    match both {
        Ok((theirs, ours)) => {
            let mut report = differences((&theirs.0, &theirs.1), (&ours.0, &ours.1), true);
            if said(&ours.0).contains("removed") {
                report.push_str(&said(&ours.0));
            }
            match report.as_str() {
                "" => Ok(Completion::Completed),
                _ => Err(Failed::from(format!("cp {command}\n{report}"))),
            }
        }
        Err(skip) => skipped(command, &skip),
    }
}

fn world(lines: &str) -> Result<World, Skip> {
    World::make(&fresh(Side::Ours), lines, false)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{}: {error}", path.display()))
}

fn said(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// A system call on an open file fails as on a file system that does not support it.
fn file_stays(fault: &str, options: &str) -> Result<(), Skip> {
    let lines = "file s/f =whole; mode 640 s/f; own 3:4 s/f; xattr s/f user.one 1; acl s/f u::rw,u:1000:rw,g::,m::rw,o::; file s/t/k";
    let world = world(lines)?;
    let command = format!("-a {options} s d");
    let error = format!("{fault}:error=EIO");
    let ran = traced::failing(&[&error], &command, &world.root)?;
    assert_eq!(ran.status, "exit status 1", "cp {command}: {}", said(&ran));
    let words = match fault {
        "fchown" => "failed to preserve ownership for 'd/f'",
        // With -a a lost extended attribute is no failure; a lost ACL is one.
        "fchmod" | "fsetxattr" => "preserving permissions for 'd/f'",
        _ => "preserving times for 'd/f'",
    };
    assert!(said(&ran).contains(words), "{}", said(&ran));
    assert!(!said(&ran).contains("incomplete"), "{}", said(&ran));
    assert_eq!(text(&world.root.join("d/f")), "whole");
    let names = crate::failures::names(&world.root.join("d"));
    assert_eq!(names, ["f", "t"], "nothing else is left");
    let status = fs::metadata(world.root.join("d/f")).expect("there");
    if fault == "fchown" {
        // The file has no permissions of its source, because it has another owner.
        assert_eq!(status.mode() & 0o077, 0, "{:o}", status.mode());
    }
    if fault != "utimensat" && options != "--resume" {
        let source = fs::metadata(world.root.join("s/f")).expect("there");
        assert_eq!(
            status.mtime_nsec(),
            source.mtime_nsec(),
            "the times are set all the same"
        );
    }
    Ok(())
}

/// GNU's cp replaces the new file by the backup.
fn backup_stays() -> Result<(), Skip> {
    let world = world("file f =new; xattr f user.one 1; file d/f =old")?;
    let faults = ["fsetxattr:error=EIO"];
    let ran = traced::failing(&faults, "--preserve=xattr --backup=simple f d", &world.root)?;
    assert_eq!(ran.status, "exit status 1", "{}", said(&ran));
    assert_eq!(text(&world.root.join("d/f")), "new");
    assert_eq!(text(&world.root.join("d/f~")), "old");
    Ok(())
}

/// Without its ACL, the group bits of a file are not a mask.
fn acl_is_lost() -> Result<(), Skip> {
    let world = world(
        "file f; acl f u::rw,u:1000:rw,g::,m::rw,o::r; file g; acl g u::rw,u:1000:rw,g::rx,m::rw,o::",
    )?;
    let _ramfs = Ramfs::mount(&world.root.join("r"))?;
    let ran = run::run(&case("", "", "-a f g r"), Side::Ours, &world.root);
    assert_eq!(ran.status, "exit status 1", "{}", said(&ran));
    let mode = |name: &str| fs::metadata(world.root.join(name)).expect("there").mode() & 0o777;
    assert_eq!((mode("r/f"), mode("r/g")), (0o604, 0o640));
    Ok(())
}

/// With `-a`, `cp` says nothing of extended attributes that it cannot set. With `--verify` such a copy is none.
fn lost_attributes_are_found() -> Result<(), Skip> {
    let world = world(
        "file s/f =whole; xattr s/f user.one 1; xattr s/f user.two 2; file s/t/k; xattr s/t user.dir 3; file s/plain",
    )?;
    let _ramfs = Ramfs::mount(&world.root.join("r"))?;
    let silent = run::run(&case("", "", "-a s r/silent"), Side::Ours, &world.root);
    assert_eq!(
        (silent.status.as_str(), silent.stderr),
        ("exit status 0", Vec::new())
    );
    for options in ["", "--atomic", "--resume"] {
        let command = format!("-a --verify {options} s r/d{}", options.len());
        let ran = run::run(&case("", "", command.as_str()), Side::Ours, &world.root);
        assert_eq!(ran.status, "exit status 1", "{command}: {}", said(&ran));
        for lost in [
            "attribute 'user.one' is missing",
            "attribute 'user.two' is missing",
            "'user.dir' is missing",
        ] {
            assert!(said(&ran).contains(lost), "{command}: {}", said(&ran));
        }
        assert!(!said(&ran).contains("plain"), "{command}: {}", said(&ran));
    }
    for errno in ["EPERM", "ENOSPC", "EIO"] {
        let fault = format!("fsetxattr:error={errno}:when=1");
        let command = format!("-a --verify --jobs=1 s d{errno}");
        let ran = traced::failing(&[&fault], &command, &world.root)?;
        assert_eq!(ran.status, "exit status 1", "{fault}: {}", said(&ran));
        assert!(
            said(&ran).contains("attribute 'user."),
            "{fault}: {}",
            said(&ran)
        );
    }
    Ok(())
}

fn plan() -> Result<(), Skip> {
    let world = world("file s/f 300000; xattr s/f user.one 1; hard s/h s/f")?;
    for command in ["--plan plan --max-bytes 65536 -a s d", "--work plan"] {
        let ran = run::run(&case("", "", command), Side::Ours, &world.root);
        assert_eq!(ran.status, "exit status 0", "{command}: {}", said(&ran));
    }
    let ran = traced::failing(&["fchmod:error=EIO:when=1"], "--finish plan", &world.root)?;
    assert_eq!(ran.status, "exit status 1", "{}", said(&ran));
    let same = |name: &str| fs::read(world.root.join("d").join(name)).ok();
    let source = fs::read(world.root.join("s/f")).ok();
    assert_eq!(same("f"), source, "{}", said(&ran));
    assert_eq!(same("h"), source, "{}", said(&ran));
    Ok(())
}

/// `--resume` does not treat a file without an attribute as complete.
fn resumed() -> Result<(), Skip> {
    let world = world("file s/f 300000; xattr s/f user.one 1")?;
    let ran = traced::failing(
        &["fsetxattr:error=EIO"],
        "--preserve=mode,xattr --resume -r s d",
        &world.root,
    )?;
    assert_eq!(ran.status, "exit status 1", "{}", said(&ran));
    let ran = run::run(
        &case("", "", "--preserve=mode,xattr --resume -rT s d"),
        Side::Ours,
        &world.root,
    );
    assert_eq!(ran.status, "exit status 0", "{}", said(&ran));
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(world.root.join("d/f"), "user.one", &mut value);
    assert_eq!(
        length.map(|length| value[..length].to_vec()),
        Ok(b"1".to_vec())
    );
    Ok(())
}

/// If a write fails and an attribute, too, the file is removed.
fn incomplete_is_removed() -> Result<(), Skip> {
    for (kind, options) in [
        (Kind::Write, ""),
        (Kind::Write, "--atomic"),
        (Kind::Fsync, "--fsync"),
        (Kind::Fsync, "--fsync --atomic"),
    ] {
        let fixture = FaultyFixture::make(Side::Ours, "file f 300000")?;
        fixture.fs.add_dir("d");
        fixture.fs.set(kind, Fault::Fail(libc::EIO));
        let ran = run::finish(fixture.start(&format!("-p {options} f FS/d")), LIMIT);
        fixture.fs.clear_all();
        assert_eq!(ran.status, "exit status 1", "{options}: {}", said(&ran));
        let names = crate::failures::names(&fixture.fs.join("d"));
        assert!(names.is_empty(), "{options}: {names:?}");
    }
    Ok(())
}

/// The data may be lost, so the file does not replace the existing one.
fn close_fails() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file f 300000")?;
    fixture.fs.add_dir("d");
    fixture.fs.add_file("d/f", b"old");
    fixture.fs.set(Kind::Flush, Fault::Fail(libc::EIO));
    let ran = run::finish(fixture.start("--atomic f FS/d"), LIMIT);
    fixture.fs.clear_all();
    assert_eq!(ran.status, "exit status 1", "{}", said(&ran));
    assert!(said(&ran).contains("failed to close"), "{}", said(&ran));
    assert_eq!(crate::failures::names(&fixture.fs.join("d")), ["f"]);
    assert_eq!(text(&fixture.fs.join("d/f")), "old");
    Ok(())
}
