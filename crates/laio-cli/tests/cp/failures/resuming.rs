//! Interrupted copies that are resumed.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::{Random, Skip, temp};
use libtest_mimic::Trial;
use rustix::fs::{FlockOperation, Timestamps, flock, futimens};
use rustix::process::{Pid, Signal, kill_process};

use crate::programs::Side;
use crate::run::{self, LIMIT, Ran};

use super::faulty_fs::{FaultyFixture, names, trial};
use super::stopping::{all_complete, all_there, kills};

/// A source that did not change for this long is identified by its times.
const LONG_AGO: Duration = Duration::from_secs(3600);
const SIZE: usize = 8 << 20;

#[rustfmt::skip]
pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("resuming::SIGKILL at random moments", || random_moments("")),
        trial("resuming::SIGKILL at random moments, verified", || {
            random_moments("--verify")
        }),
        trial("resuming::complete files are not read", not_read),
        trial("resuming::a source changed with the same times", changed_with_same_times),
        trial("resuming::a large file is continued", || {
            goes_on(Signal::KILL, "")
        }),
        trial("resuming::a file is continued after SIGINT", || {
            goes_on(Signal::INT, "")
        }),
        trial("resuming::a continued file is verified", || {
            goes_on(Signal::KILL, "--verify --manifest=m")
        }),
        trial(
            "resuming::a changed source starts over",
            changed_source_starts_over,
        ),
        trial("resuming::a damaged beginning is found by --verify", damaged),
        trial("resuming::two copies at the same time", two_at_once),
        trial("resuming::files of other processes and users stay", others_stay),
        trial("resuming::attributes only", attributes_only),
        trial("resuming::hard links", hard_links),
    ]
}

fn ran(fixture: &FaultyFixture, command: &str) -> (Ran, String) {
    let ran = run::finish(fixture.start(command), LIMIT);
    let said = String::from_utf8_lossy(&fixture.without_name(&ran.stderr)).into_owned();
    (ran, said)
}

fn succeeds(fixture: &FaultyFixture, command: &str) -> String {
    let started = Instant::now();
    loop {
        let (ran, said) = ran(fixture, command);
        // The kernel closes the files of a killed process, which are locked, when it has cancelled the requests of its
        // ring. That may be after the process has ended.
        if said.contains("another process is copying") && started.elapsed() < LIMIT {
            thread::sleep(Duration::from_millis(100));
            continue;
        }
        assert_eq!(ran.status, "exit status 0", "{said}");
        return said;
    }
}

fn kill(child: Child, signal: Signal) {
    // It may have ended; its PID is not reused before it is waited for.
    let _ = kill_process(Pid::from_child(&child), signal);
    run::finish(child, LIMIT);
}

/// Interrupts copies to one destination again and again: a file with its final name is always
/// complete, and in the end all files exist and no other.
fn random_moments(options: &str) -> Result<(), Skip> {
    let mut random = Random::for_test();
    let lines = "many s/many 150; file s/a 900000; file s/t/b 5000000; file s/t/c 3000000; file s/z 8M; \
        holes s/h 4M 1M+64K 3M+4K; link s/l a; hard s/u/h s/a; own 3:4 s/t/b; mode 4755 s/t/c";
    let fixture = FaultyFixture::make(Side::Ours, lines)?;
    let command = format!("--resume {options} -aT --buffer=64K s d");
    let started = Instant::now();
    succeeds(&fixture, &command.replace(" d", " whole"));
    let usual = started.elapsed().as_micros() as usize;
    let kills = kills();
    for number in 0..kills {
        let child = fixture.start(&command);
        thread::sleep(Duration::from_micros(random.below(usual) as u64));
        kill(child, Signal::KILL);
        all_complete(&fixture.at("s"), &fixture.at("d"));
        // Start from the beginning now and then: later runs have less and less to copy.
        if number % 4 == 3 && number + 1 < kills {
            match fs::remove_dir_all(fixture.at("d")) {
                // On a busy machine all four may have been killed before copying anything.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.expect("ours"),
            }
        }
    }
    succeeds(&fixture, &command);
    all_complete(&fixture.at("s"), &fixture.at("d"));
    all_there(&fixture.at("s"), &fixture.at("d"));
    no_leftovers(&fixture.at("d"));
    Ok(())
}

fn no_leftovers(directory: &Path) {
    for name in names(directory) {
        assert!(!name.starts_with(".laio-cp-"), "{name} is left over");
        let path = directory.join(name);
        if path.is_dir() && !path.is_symlink() {
            no_leftovers(&path);
        }
    }
}

/// A source `FS/s/f` that is old enough to be identified by its times.
fn source(contents: &[u8]) -> Result<FaultyFixture, Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "dir d")?;
    fixture.fs.add_dir("s");
    fixture.fs.add_file("s/f", contents);
    fixture.fs.age("s/f", LONG_AGO);
    Ok(fixture)
}

fn not_read() -> Result<(), Skip> {
    let fixture = source(b"contents")?;
    succeeds(&fixture, "--resume -aT FS/s d");
    fixture.fs.reset_counts();
    let said = succeeds(&fixture, "--resume --stats -aT FS/s d");
    assert!(said.contains("  whole       1\n"), "{said}");
    assert_eq!(fixture.fs.requests(Kind::Read), 0);
    assert_eq!(fixture.fs.requests_at("s/f", Kind::Open), 0);
    // With another size, or another time.
    fixture.fs.add_file("s/f", b"CONTENTS");
    succeeds(&fixture, "--resume -aT FS/s d");
    assert_eq!(fs::read(fixture.at("d/f")).expect("the copy"), b"CONTENTS");
    Ok(())
}

/// Other contents, with the same size and time.
fn changed_with_same_times() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file s/f =one")?;
    succeeds(&fixture, "--resume -aT s d");
    let path = fixture.at("s/f");
    let before = rustix::fs::stat(&path).expect("a source");
    fs::write(&path, "two").expect("written");
    let time = |seconds, nanoseconds| rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let times = Timestamps {
        last_access: time(before.st_atime, before.st_atime_nsec as _),
        last_modification: time(before.st_mtime, before.st_mtime_nsec as _),
    };
    futimens(File::open(&path).expect("ours"), &times).expect("ours");
    succeeds(&fixture, "--resume -aT s d");
    assert_eq!(fs::read(fixture.at("d/f")).expect("the copy"), b"two");
    Ok(())
}

/// Starts a copy of a large file that is stopped after some of it.
fn stopped(signal: Signal, options: &str) -> Result<FaultyFixture, Skip> {
    let fixture = source(&temp::pattern(SIZE, 1))?;
    // A FUSE request has 128 KiB, and a piece of the copy two requests.
    for _ in 0..SIZE / 2 / (128 << 10) {
        fixture
            .fs
            .next_at("s/f", Kind::Read, Fault::Delay(Duration::ZERO));
    }
    fixture.fs.set_at("s/f", Kind::Read, Fault::Hang);
    let child = fixture.start(&format!("--resume {options} -aT FS/s d"));
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    kill(child, signal);
    fixture.fs.release(Released::Served);
    fixture.fs.clear_all();
    let left = names(&fixture.at("d"));
    assert!(left.len() == 1 && left[0] != "f", "{left:?}");
    fixture.fs.reset_counts();
    Ok(fixture)
}

fn goes_on(signal: Signal, options: &str) -> Result<(), Skip> {
    let fixture = stopped(signal, options)?;
    let said = succeeds(&fixture, &format!("--resume --stats {options} -aT FS/s d"));
    assert!(said.contains("continued     1\n"), "{said}");
    assert_eq!(names(&fixture.at("d")), ["f"]);
    assert!(fs::read(fixture.at("d/f")).expect("the copy") == temp::pattern(SIZE, 1));
    let copied = said.lines().find_map(|line| line.strip_prefix("bytes "));
    let copied: usize = copied
        .and_then(|bytes| bytes.trim().parse().ok())
        .expect(&said);
    assert!(copied < SIZE * 3 / 4, "{copied} bytes: not all again");
    Ok(())
}

fn changed_source_starts_over() -> Result<(), Skip> {
    let fixture = stopped(Signal::KILL, "")?;
    fixture.fs.add_file("s/f", &temp::pattern(SIZE, 2));
    fixture.fs.age("s/f", LONG_AGO);
    let said = succeeds(&fixture, "--resume --stats -aT FS/s d");
    assert!(said.contains("continued     0\n"), "{said}");
    assert_eq!(
        names(&fixture.at("d")),
        ["f"],
        "the partial file is removed"
    );
    assert!(fs::read(fixture.at("d/f")).expect("the copy") == temp::pattern(SIZE, 2));
    Ok(())
}

/// As after a crash of the destination's device.
fn damaged() -> Result<(), Skip> {
    let fixture = stopped(Signal::KILL, "")?;
    let left = fixture.at("d").join(&names(&fixture.at("d"))[0]);
    let mut partial = fs::read(&left).expect("a partial file");
    partial[1000] ^= 1;
    fs::write(&left, partial).expect("ours");
    let (ran, said) = ran(&fixture, "--resume --verify -aT FS/s d");
    assert_eq!(ran.status, "exit status 1", "{said}");
    assert!(said.contains("'d/f' differs from"), "{said}");
    assert_eq!(names(&fixture.at("d")), [""; 0]);
    succeeds(&fixture, "--resume --verify -aT FS/s d");
    assert!(fs::read(fixture.at("d/f")).expect("the copy") == temp::pattern(SIZE, 1));
    Ok(())
}

fn two_at_once() -> Result<(), Skip> {
    let fixture = source(&temp::pattern(SIZE, 1))?;
    fixture.fs.next_at("s/f", Kind::Read, Fault::Hang);
    let first = fixture.start("--resume -aT FS/s d");
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    let (second, said) = ran(&fixture, "--resume -aT FS/s d");
    assert_eq!(second.status, "exit status 1", "{said}");
    let message = "another process is copying 'd/f'";
    assert!(said.contains(message), "{said}");
    fixture.fs.release(Released::Served);
    let first = run::finish(first, LIMIT);
    assert_eq!(first.status, "exit status 0", "{first:?}");
    assert!(fs::read(fixture.at("d/f")).expect("the copy") == temp::pattern(SIZE, 1));
    Ok(())
}

/// Files with similar names that are in use, or not exactly of the temporary form.
fn others_stay() -> Result<(), Skip> {
    let used = ".laio-cp-r-0123456789abcdef0123456789abcdef";
    let left = ".laio-cp-r-fedcba9876543210fedcba9876543210";
    let linked = ".laio-cp-r-00000000000000000000000000000000";
    let lines = format!(
        "file s/f; file d/{used}; file d/{left}; file d/{linked}; hard d/other d/{linked}; \
         file d/.laio-cp-notes; dir d/.laio-cp-r-11111111111111111111111111111111"
    );
    let fixture = FaultyFixture::make(Side::Ours, &lines)?;
    let held = File::open(fixture.at("d").join(used)).expect("a file");
    flock(&held, FlockOperation::LockExclusive).expect("locked");
    succeeds(&fixture, "--resume -aT s d");
    let there = names(&fixture.at("d"));
    assert!(!there.iter().any(|name| name == left), "{there:?}");
    assert_eq!(there.len(), 6, "{there:?}");
    Ok(())
}

/// With `--attributes-only`, a partial file must not get the final name.
fn attributes_only() -> Result<(), Skip> {
    let fixture = stopped(Signal::KILL, "")?;
    succeeds(&fixture, "--resume --attributes-only -aT FS/s d");
    assert_eq!(fs::metadata(fixture.at("d/f")).expect("made").len(), 0);
    Ok(())
}

/// A missing name becomes a link to the existing copy, or the other way round.
fn hard_links() -> Result<(), Skip> {
    use std::os::unix::fs::MetadataExt;
    let fixture = FaultyFixture::make(Side::Ours, "file s/a 100000; hard s/b s/a; hard s/t/c s/a")?;
    for missing in ["a", "b", "t/c"] {
        succeeds(&fixture, "--resume -aT s d");
        fs::remove_file(fixture.at("d").join(missing)).expect("it was made");
        succeeds(&fixture, "--resume -aT s d");
        let inode = |name| {
            fs::metadata(fixture.at("d").join(name))
                .expect("made")
                .ino()
        };
        assert_eq!(inode("a"), inode("b"), "without {missing}");
        assert_eq!(inode("a"), inode("t/c"), "without {missing}");
        no_leftovers(&fixture.at("d"));
    }
    Ok(())
}
