//! `--verify` detects destinations that lose or change data, and sources that change.

use std::fs;
use std::time::Duration;

use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::{Skip, temp};
use libtest_mimic::Trial;

use crate::programs::Side;
use crate::run::{self, LIMIT, Ran};

use super::faulty_fs::{FaultyFixture, names, trial};

const SIZE: usize = 300_000;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("verifying::nothing goes wrong", nothing),
        trial("verifying::a byte flips when it is read back", flipped),
        trial("verifying::a byte flips when it is written", stored),
        trial(
            "verifying::without --verify the fault is not detected",
            undetected_without_verify,
        ),
        trial("verifying::reading back fails", reading_fails),
        trial("verifying::reading back ends early", ends_early),
        trial("verifying::short reads are no error", short_reads),
        trial("verifying::syncing fails", syncing_fails),
        trial("verifying::the existing file stays with --atomic", keeps),
        trial("verifying::a source that changes", changes),
        trial("verifying::attributes", attributes),
        trial(
            "verifying::attributes that the file system does not store",
            attributes_not_set,
        ),
        trial("verifying::a full device", full),
        trial("verifying::a pipe cannot be read back", pipe),
    ]
}

fn fixture() -> Result<FaultyFixture, Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file s/f 300000; file s/g")?;
    fixture.fs.add_dir("d");
    Ok(fixture)
}

fn ran(fixture: &FaultyFixture, command: &str) -> (Ran, String) {
    let ran = run::finish(fixture.start(command), LIMIT);
    let said = String::from_utf8_lossy(&fixture.without_name(&ran.stderr)).into_owned();
    (ran, said)
}

/// Checks that the copy failed with this message, and that the other file was copied.
fn refused(fixture: &FaultyFixture, command: &str, message: &str) {
    let (ran, said) = ran(fixture, command);
    assert_eq!(ran.status, "exit status 1", "{said}");
    assert!(said.contains(message), "{said}");
    assert_eq!(names(&fixture.fs.join("d/s")), ["g"], "{said}");
}

fn nothing() -> Result<(), Skip> {
    let fixture = fixture()?;
    let (ran, said) = ran(&fixture, "-r --verify --stats s FS/d");
    assert_eq!(ran.status, "exit status 0", "{said}");
    assert!(
        said.contains("verified      2\nunverified    0\n"),
        "{said}"
    );
    assert!(fixture.fs.requests_at("d/s/f", Kind::Read) > 0);
    assert!(fixture.fs.requests_at("d/s/f", Kind::Fsync) > 0);
    Ok(())
}

fn flipped() -> Result<(), Skip> {
    for method in ["auto", "reflink", "copy-file-range", "read-write"] {
        let fixture = fixture()?;
        fixture.fs.next_at("d/s/f", Kind::Read, Fault::Flip);
        let command = format!("-r --verify --method={method} s FS/d");
        refused(&fixture, &command, "'FS/d/s/f' differs from 's/f'");
    }
    Ok(())
}

fn stored() -> Result<(), Skip> {
    let fixture = fixture()?;
    fixture.fs.next_at("d/s/f", Kind::Write, Fault::Flip);
    refused(
        &fixture,
        "-r --verify s FS/d",
        "'FS/d/s/f' differs from 's/f'",
    );
    Ok(())
}

/// Checks that the FUSE file system behaves as the other tests assume.
fn undetected_without_verify() -> Result<(), Skip> {
    let fixture = fixture()?;
    fixture.fs.next_at("d/s/f", Kind::Write, Fault::Flip);
    let (ran, said) = ran(&fixture, "-r s FS/d");
    assert_eq!(ran.status, "exit status 0", "{said}");
    let copy = fixture.fs.contents("d/s/f").expect("the copy");
    let source = fs::read(fixture.at("s/f")).expect("the source");
    assert!(copy != source && copy.len() == source.len());
    Ok(())
}

fn reading_fails() -> Result<(), Skip> {
    let fixture = fixture()?;
    fixture
        .fs
        .next_at("d/s/f", Kind::Read, Fault::Fail(libc::EIO));
    let message = "error reading back 'FS/d/s/f': Input/output error";
    refused(&fixture, "-r --verify s FS/d", message);
    Ok(())
}

fn ends_early() -> Result<(), Skip> {
    let fixture = fixture()?;
    fixture.fs.set_at("d/s/f", Kind::Read, Fault::Short(0));
    refused(&fixture, "-r --verify s FS/d", ": 0 bytes read back have");
    Ok(())
}

fn short_reads() -> Result<(), Skip> {
    let fixture = fixture()?;
    fixture.fs.set_at("d/s/f", Kind::Read, Fault::Short(1000));
    let (ran, said) = ran(&fixture, "-r --verify s FS/d");
    assert_eq!(ran.status, "exit status 0", "{said}");
    Ok(())
}

fn syncing_fails() -> Result<(), Skip> {
    let fixture = fixture()?;
    fixture
        .fs
        .next_at("d/s/f", Kind::Fsync, Fault::Fail(libc::EIO));
    refused(&fixture, "-r --verify s FS/d", "cannot sync 'FS/d/s/f'");
    Ok(())
}

fn keeps() -> Result<(), Skip> {
    let fixture = fixture()?;
    fixture.fs.add_dir("d/s");
    fixture.fs.add_file("d/s/f", b"old");
    fixture.fs.set(Kind::Read, Fault::Flip);
    let (ran, said) = ran(&fixture, "-r --verify --atomic s FS/d");
    assert_eq!(ran.status, "exit status 1", "{said}");
    assert_eq!(fixture.fs.contents("d/s/f").as_deref(), Some(&b"old"[..]));
    assert_eq!(
        names(&fixture.fs.join("d/s")),
        ["f"],
        "nothing is left over"
    );
    Ok(())
}

/// A changed source is not an error of the destination, and the message says so; the copy stays.
fn changes() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "dir d")?;
    fixture.fs.add_dir("s");
    fixture.fs.add_file("s/f", &temp::pattern(SIZE, 1));
    fixture
        .fs
        .next_at("s/f", Kind::Read, Fault::Delay(Duration::ZERO));
    fixture.fs.set_at("s/f", Kind::Read, Fault::Hang);
    let child = fixture.start("-r --verify --manifest=m --buffer=64K FS/s d");
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    fixture.fs.add_file("s/f", &temp::pattern(SIZE, 2));
    fixture.fs.release(Released::Served);
    let ran = run::finish(child, LIMIT);
    let said = String::from_utf8_lossy(&fixture.without_name(&ran.stderr)).into_owned();
    assert_eq!(ran.status, "exit status 1", "{said}");
    let message = "'FS/s/f' changed while it was copied: 'd/s/f' may mix old and new data";
    assert!(said.contains(message), "{said}");
    assert_eq!(fs::read(fixture.at("d/s/f")).expect("the copy").len(), SIZE);
    Ok(())
}

fn attributes() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file s/f; mode 640 s/f; mount d")?;
    let (ran, said) = ran(&fixture, "-r --preserve=all --verify s d");
    assert_eq!(ran.status, "exit status 0", "{said}");
    Ok(())
}

/// A file system that reports success without setting attributes. The copy stays.
fn attributes_not_set() -> Result<(), Skip> {
    for (of, attribute, line, what) in [
        ("s/f", "mode", "mode 4751 s/f", "mode 0700, not 4751"),
        ("s/f", "ownership", "own 3:4 s/f", "owner 0:0, not 3:4"),
        ("s/f", "timestamps", "time 1000000000 s/f", "changed at"),
        ("s", "mode", "mode 2750 s", "mode 0700, not 2750"),
        ("s", "ownership", "own 3:4 s", "owner 0:0, not 3:4"),
        ("s", "timestamps", "time 1000000000 s", "changed at"),
    ] {
        let fixture = FaultyFixture::make(Side::Ours, &format!("file s/f; file s/g; {line}"))?;
        fixture.fs.add_dir("d");
        let name = format!("d/{of}");
        fixture.fs.set_at(&name, Kind::Setattr, Fault::Pretend);
        let command = format!("-r --preserve={attribute} --verify --stats s FS/d");
        let (ran, said) = ran(&fixture, &command);
        assert_eq!(ran.status, "exit status 1", "{of}, {attribute}: {said}");
        let message = format!("the attributes of 'FS/{name}' differ from its source: {what}");
        assert!(said.contains(&message), "{attribute}: {said}");
        assert!(said.contains("unverified    1\n"), "{said}");
        assert_eq!(names(&fixture.fs.join("d/s")), ["f", "g"], "{said}");
    }
    Ok(())
}

fn full() -> Result<(), Skip> {
    for options in [
        "--verify",
        "--resume",
        "--atomic --verify",
        "--resume --verify",
    ] {
        let fixture = FaultyFixture::make(Side::Ours, "file s/f 3M; file s/g; mount d")?;
        let (ran, said) = ran(&fixture, &format!("-r {options} s d"));
        assert_eq!(ran.status, "exit status 1", "{said}");
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(names(&fixture.at("d/s")), ["g"], "{options}: {said}");
    }
    Ok(())
}

fn pipe() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file f; dir d")?;
    let (ran, said) = ran(&fixture, "--verify f /dev/null");
    assert_eq!(ran.status, "exit status 1", "{said}");
    assert!(said.contains("cannot verify '/dev/null'"), "{said}");
    Ok(())
}
