//! Sources and destinations that change while they are copied.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Child;
use std::time::Duration;

use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::limit::wait_until;
use laio_testing::{Skip, temp};
use libtest_mimic::Trial;

use crate::programs::Side;
use crate::run::{self, LIMIT, Ran};

use super::faulty_fs::{FaultyFixture, names, trial};

const SIZE: usize = 1 << 20;

#[rustfmt::skip]
pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("changing::a source that shrinks", shrinks),
        trial("changing::a source that becomes empty", becomes_empty),
        trial("changing::a source that grows", grows),
        trial("changing::a source that grows all the time", grows_for_ever),
        trial("changing::a source that is removed", source_removed),
        trial("changing::a destination that is removed", destination_removed),
        trial("changing::a destination replaced by a link", destination_replaced),
        trial("changing::a destination file replaced by a link", file_replaced),
        trial("changing::a large file truncated", large_file_truncated),
    ]
}

/// Starts a copy of `FS/s` to `d` that waits in `FS/s/f`, after the first piece.
fn waiting(options: &str) -> Result<(FaultyFixture, Child), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "dir d; dir outside")?;
    fixture.fs.add_dir("s");
    fixture.fs.add_file("s/f", &temp::pattern(SIZE, 1));
    fixture
        .fs
        .next_at("s/f", Kind::Read, Fault::Delay(Duration::ZERO));
    fixture.fs.set_at("s/f", Kind::Read, Fault::Hang);
    let child = fixture.start(&format!("{options} -r FS/s d"));
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    Ok((fixture, child))
}

fn ended(fixture: &FaultyFixture, child: Child) -> Ran {
    fixture.fs.release(Released::Served);
    run::finish(child, LIMIT)
}

fn copied(fixture: &FaultyFixture) -> Vec<u8> {
    fs::read(fixture.at("d/s/f")).expect("the copy is there")
}

fn shrinks() -> Result<(), Skip> {
    let (fixture, child) = waiting("")?;
    let left = temp::pattern(SIZE / 2, 1);
    fixture.fs.add_file("s/f", &left);
    let ran = ended(&fixture, child);
    let copy = copied(&fixture);
    assert_eq!(ran.status, "exit status 0", "{ran:?}");
    assert!(copy.len() >= left.len(), "{} bytes", copy.len());
    assert!(
        temp::pattern(SIZE, 1).starts_with(&copy),
        "a prefix of what it was"
    );
    Ok(())
}

fn becomes_empty() -> Result<(), Skip> {
    let (fixture, child) = waiting("--sparse=always")?;
    fixture.fs.add_file("s/f", b"");
    let ran = ended(&fixture, child);
    assert_eq!(ran.status, "exit status 0", "{ran:?}");
    assert!(temp::pattern(SIZE, 1).starts_with(&copied(&fixture)));
    Ok(())
}

fn grows() -> Result<(), Skip> {
    let (fixture, child) = waiting("")?;
    let more = temp::pattern(2 * SIZE, 1);
    fixture.fs.add_file("s/f", &more);
    let ran = ended(&fixture, child);
    let copy = copied(&fixture);
    assert_eq!(ran.status, "exit status 0", "{ran:?}");
    assert!(copy.len() >= SIZE, "{} bytes", copy.len());
    assert!(more.starts_with(&copy), "a prefix of what it is");
    Ok(())
}

/// Another process appends faster than the copy reads, for a while.
fn grows_for_ever() -> Result<(), Skip> {
    let (fixture, child) = waiting("")?;
    fixture.fs.release_one(Released::Served);
    for step in 2..12 {
        if !fixture.fs.wait_hung(1, Duration::from_millis(500)) {
            break;
        }
        fixture.fs.add_file("s/f", &temp::pattern(step * SIZE, 1));
        fixture.fs.release_one(Released::Served);
    }
    let ran = ended(&fixture, child);
    assert_eq!(ran.status, "exit status 0", "{ran:?}");
    assert!(temp::pattern(12 * SIZE, 1).starts_with(&copied(&fixture)));
    Ok(())
}

fn source_removed() -> Result<(), Skip> {
    let (fixture, child) = waiting("-a")?;
    fs::remove_file(fixture.fs.join("s/f")).expect("removed while it is read");
    let ran = ended(&fixture, child);
    assert_eq!(
        ran.status, "exit status 0",
        "an open file can be read: {ran:?}"
    );
    assert!(copied(&fixture) == temp::pattern(SIZE, 1));
    Ok(())
}

fn destination_removed() -> Result<(), Skip> {
    let (fixture, child) = waiting("-a")?;
    fs::remove_dir_all(fixture.at("d")).expect("removed while it is written");
    let ran = ended(&fixture, child);
    // Whether the change is noticed depends on timing; the command must end.
    assert!(ran.status.starts_with("exit status"), "{ran:?}");
    assert_eq!(
        ran.status == "exit status 1",
        !ran.stderr.is_empty(),
        "{ran:?}"
    );
    Ok(())
}

/// A symbolic link replaces the directory into which files are being copied.
fn destination_replaced() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "dir d; dir outside/t")?;
    fixture.fs.add_dir("s");
    fixture.fs.add_dir("s/t");
    for index in 0..20 {
        fixture.fs.add_file(&format!("s/t/{index:02}"), b"contents");
    }
    fixture.fs.set(Kind::Read, Fault::Hang);
    let child = fixture.start("-a FS/s d");
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its sources");
    fs::rename(fixture.at("d/s"), fixture.at("d/moved")).expect("moved while it is written");
    symlink("../outside", fixture.at("d/s")).expect("a link in its place");
    let ran = ended(&fixture, child);
    assert!(ran.status.starts_with("exit status"), "{ran:?}");
    assert_eq!(
        names(&fixture.at("outside")),
        ["t"],
        "nothing follows the link"
    );
    assert_eq!(
        names(&fixture.at("outside/t")),
        [""; 0],
        "nothing follows the link"
    );
    let all: Vec<String> = (0..20).map(|index| format!("{index:02}")).collect();
    assert_eq!(
        names(&fixture.at("d/moved/t")),
        all,
        "everything is where it began: {ran:?}"
    );
    Ok(())
}

/// A symbolic link replaces the file that is being written.
fn file_replaced() -> Result<(), Skip> {
    let (fixture, child) = waiting("-a")?;
    let copy = fixture.at("d/s/f");
    let secret = fixture.at("outside/secret");
    fs::write(&secret, "secret").expect("written");
    let mode = fs::metadata(&secret).expect("there").permissions();
    if copy.exists() {
        fs::remove_file(&copy).expect("removed while it is written");
    }
    symlink("../../outside/secret", &copy).expect("a link in its place");
    let ran = ended(&fixture, child);
    assert!(ran.status.starts_with("exit status"), "{ran:?}");
    assert_eq!(fs::read(&secret).expect("readable"), b"secret");
    assert_eq!(fs::metadata(&secret).expect("there").permissions(), mode);
    Ok(())
}

/// On an ordinary file system, where the kernel copies: the result is a prefix, at whatever moment
/// the file is truncated.
fn large_file_truncated() -> Result<(), Skip> {
    const LARGE: usize = 48 << 20;
    let fixture = FaultyFixture::make(Side::Ours, "dir d; file s/f 48M; file s/z")?;
    let child = fixture.start("-r s d");
    wait_until(LIMIT, || {
        fs::metadata(fixture.at("d/s/f")).is_ok_and(|copy| copy.len() > 0)
    });
    let source = fs::File::options()
        .write(true)
        .open(fixture.at("s/f"))
        .expect("a file");
    source.set_len(4 << 20).expect("truncated");
    let ran = run::finish(child, LIMIT);
    let copy = copied(&fixture);
    assert_eq!(ran.status, "exit status 0", "{ran:?}");
    assert!(copy.len() >= 4 << 20, "{} bytes", copy.len());
    assert!(
        temp::pattern(LARGE, 3).starts_with(&copy),
        "a prefix of what it was"
    );
    assert!(fixture.at("d/s/z").exists(), "the other files are copied");
    Ok(())
}
