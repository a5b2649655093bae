//! Destinations that do not keep what they are given, and sources that change: `--verify` tells.

use std::fs;
use std::time::Duration;

use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::{Skip, temp};
use libtest_mimic::Trial;

use crate::programs::Side;
use crate::run::{self, LIMIT, Ran};

use super::places::{Places, names, trial};

const SIZE: usize = 300_000;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("verifying::nothing goes wrong", nothing),
        trial("verifying::a byte flips when it is read back", flipped),
        trial("verifying::a byte flips when it is written", stored),
        trial("verifying::without it nobody notices", unnoticed),
        trial("verifying::reading back fails", reading_fails),
        trial("verifying::reading back ends early", ends_early),
        trial("verifying::short reads are no fault", short_reads),
        trial("verifying::bringing it to the device fails", syncing_fails),
        trial("verifying::what was there stays with --atomic", keeps),
        trial("verifying::a source that changes", changes),
        trial("verifying::attributes", attributes),
        trial("verifying::attributes that are not set", attributes_not_set),
        trial("verifying::a full device", full),
        trial("verifying::a pipe cannot be read back", pipe),
    ]
}

fn places() -> Result<Places, Skip> {
    let places = Places::make(Side::Ours, "file s/f 300000; file s/g")?;
    places.fs.add_dir("d");
    Ok(places)
}

fn ran(places: &Places, command: &str) -> (Ran, String) {
    let ran = run::finish(places.start(command), LIMIT);
    let said = String::from_utf8_lossy(&places.without_name(&ran.stderr)).into_owned();
    (ran, said)
}

/// The copy has failed with this message; the other file has been copied.
fn refused(places: &Places, command: &str, message: &str) {
    let (ran, said) = ran(places, command);
    assert_eq!(ran.status, "exit status 1", "{said}");
    assert!(said.contains(message), "{said}");
    assert_eq!(names(&places.fs.join("d/s")), ["g"], "{said}");
}

fn nothing() -> Result<(), Skip> {
    let places = places()?;
    let (ran, said) = ran(&places, "-r --verify --stats s FS/d");
    assert_eq!(ran.status, "exit status 0", "{said}");
    assert!(
        said.contains("verified      2\nunverified    0\n"),
        "{said}"
    );
    assert!(places.fs.requests_at("d/s/f", Kind::Read) > 0);
    assert!(places.fs.requests_at("d/s/f", Kind::Fsync) > 0);
    Ok(())
}

fn flipped() -> Result<(), Skip> {
    for method in ["auto", "reflink", "copy-file-range", "read-write"] {
        let places = places()?;
        places.fs.next_at("d/s/f", Kind::Read, Fault::Flip);
        let command = format!("-r --verify --method={method} s FS/d");
        refused(&places, &command, "'FS/d/s/f' differs from 's/f'");
    }
    Ok(())
}

fn stored() -> Result<(), Skip> {
    let places = places()?;
    places.fs.next_at("d/s/f", Kind::Write, Fault::Flip);
    refused(
        &places,
        "-r --verify s FS/d",
        "'FS/d/s/f' differs from 's/f'",
    );
    Ok(())
}

/// The file system does what the other tests rely on.
fn unnoticed() -> Result<(), Skip> {
    let places = places()?;
    places.fs.next_at("d/s/f", Kind::Write, Fault::Flip);
    let (ran, said) = ran(&places, "-r s FS/d");
    assert_eq!(ran.status, "exit status 0", "{said}");
    let copy = places.fs.contents("d/s/f").expect("the copy");
    let source = fs::read(places.at("s/f")).expect("the source");
    assert!(copy != source && copy.len() == source.len());
    Ok(())
}

fn reading_fails() -> Result<(), Skip> {
    let places = places()?;
    places
        .fs
        .next_at("d/s/f", Kind::Read, Fault::Fail(libc::EIO));
    let message = "error reading back 'FS/d/s/f': Input/output error";
    refused(&places, "-r --verify s FS/d", message);
    Ok(())
}

fn ends_early() -> Result<(), Skip> {
    let places = places()?;
    places.fs.set_at("d/s/f", Kind::Read, Fault::Short(0));
    refused(&places, "-r --verify s FS/d", "of 0 bytes read back");
    Ok(())
}

fn short_reads() -> Result<(), Skip> {
    let places = places()?;
    places.fs.set_at("d/s/f", Kind::Read, Fault::Short(1000));
    let (ran, said) = ran(&places, "-r --verify s FS/d");
    assert_eq!(ran.status, "exit status 0", "{said}");
    Ok(())
}

fn syncing_fails() -> Result<(), Skip> {
    let places = places()?;
    places
        .fs
        .next_at("d/s/f", Kind::Fsync, Fault::Fail(libc::EIO));
    refused(&places, "-r --verify s FS/d", "cannot sync 'FS/d/s/f'");
    Ok(())
}

fn keeps() -> Result<(), Skip> {
    let places = places()?;
    places.fs.add_dir("d/s");
    places.fs.add_file("d/s/f", b"old");
    places.fs.set(Kind::Read, Fault::Flip);
    let (ran, said) = ran(&places, "-r --verify --atomic s FS/d");
    assert_eq!(ran.status, "exit status 1", "{said}");
    assert_eq!(places.fs.contents("d/s/f").as_deref(), Some(&b"old"[..]));
    assert_eq!(names(&places.fs.join("d/s")), ["f"], "nothing is left over");
    Ok(())
}

/// That is no fault of the destination, and is said so; the copy stays.
fn changes() -> Result<(), Skip> {
    let places = Places::make(Side::Ours, "dir d")?;
    places.fs.add_dir("s");
    places.fs.add_file("s/f", &temp::pattern(SIZE, 1));
    places
        .fs
        .next_at("s/f", Kind::Read, Fault::Delay(Duration::ZERO));
    places.fs.set_at("s/f", Kind::Read, Fault::Hang);
    let child = places.start("-r --verify --manifest=m --buffer=64K FS/s d");
    assert!(places.fs.wait_hung(1, LIMIT), "the copy reads its source");
    places.fs.add_file("s/f", &temp::pattern(SIZE, 2));
    places.fs.release(Released::Served);
    let ran = run::finish(child, LIMIT);
    let said = String::from_utf8_lossy(&places.without_name(&ran.stderr)).into_owned();
    assert_eq!(ran.status, "exit status 1", "{said}");
    let message = "'FS/s/f' changed while it was copied: 'd/s/f' may mix old and new data";
    assert!(said.contains(message), "{said}");
    assert_eq!(fs::read(places.at("d/s/f")).expect("the copy").len(), SIZE);
    Ok(())
}

fn attributes() -> Result<(), Skip> {
    let places = Places::make(Side::Ours, "file s/f; mode 640 s/f; mount d")?;
    let (ran, said) = ran(&places, "-r --preserve=all --verify s d");
    assert_eq!(ran.status, "exit status 0", "{said}");
    Ok(())
}

/// A file system that says that it has set attributes, and has not. The copy stays.
fn attributes_not_set() -> Result<(), Skip> {
    for (of, attribute, line, what) in [
        ("s/f", "mode", "mode 4751 s/f", "mode 0700, not 4751"),
        ("s/f", "ownership", "own 3:4 s/f", "owner 0:0, not 3:4"),
        ("s/f", "timestamps", "time 1000000000 s/f", "changed at"),
        ("s", "mode", "mode 2750 s", "mode 0700, not 2750"),
        ("s", "ownership", "own 3:4 s", "owner 0:0, not 3:4"),
        ("s", "timestamps", "time 1000000000 s", "changed at"),
    ] {
        let places = Places::make(Side::Ours, &format!("file s/f; file s/g; {line}"))?;
        places.fs.add_dir("d");
        let name = format!("d/{of}");
        places.fs.set_at(&name, Kind::Setattr, Fault::Pretend);
        let command = format!("-r --preserve={attribute} --verify --stats s FS/d");
        let (ran, said) = ran(&places, &command);
        assert_eq!(ran.status, "exit status 1", "{of}, {attribute}: {said}");
        let message = format!("the attributes of 'FS/{name}' differ from its source: {what}");
        assert!(said.contains(&message), "{attribute}: {said}");
        assert!(said.contains("unverified    1\n"), "{said}");
        assert_eq!(names(&places.fs.join("d/s")), ["f", "g"], "{said}");
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
        let places = Places::make(Side::Ours, "file s/f 3M; file s/g; mount d")?;
        let (ran, said) = ran(&places, &format!("-r {options} s d"));
        assert_eq!(ran.status, "exit status 1", "{said}");
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(names(&places.at("d/s")), ["g"], "{options}: {said}");
    }
    Ok(())
}

fn pipe() -> Result<(), Skip> {
    let places = Places::make(Side::Ours, "file f; dir d")?;
    let (ran, said) = ran(&places, "--verify f /dev/null");
    assert_eq!(ran.status, "exit status 1", "{said}");
    assert!(said.contains("cannot verify '/dev/null'"), "{said}");
    Ok(())
}
