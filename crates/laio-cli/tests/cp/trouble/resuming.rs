//! Copies that were interrupted, and go on.

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

use super::places::{Places, names, trial};
use super::stopping::{all_there, all_whole, kills};

/// A source that nobody has touched for so long is known by its times.
const LONG_AGO: Duration = Duration::from_secs(3600);
const SIZE: usize = 8 << 20;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("resuming::SIGKILL at random moments", || random_moments("")),
        trial("resuming::SIGKILL at random moments, verified", || {
            random_moments("--verify")
        }),
        trial("resuming::what is whole is not read", not_read),
        trial(
            "resuming::a source changed behind its times",
            behind_its_times,
        ),
        trial("resuming::a large file goes on where it was", || {
            goes_on(Signal::KILL, "")
        }),
        trial("resuming::it goes on after SIGINT", || {
            goes_on(Signal::INT, "")
        }),
        trial("resuming::it goes on, and is verified", || {
            goes_on(Signal::KILL, "--verify --manifest=m")
        }),
        trial("resuming::a changed source begins anew", begins_anew),
        trial(
            "resuming::a damaged beginning is found by --verify",
            damaged,
        ),
        trial("resuming::two at once", two_at_once),
        trial("resuming::files of others stay", others_stay),
        trial("resuming::attributes only", attributes_only),
        trial("resuming::hard links", hard_links),
    ]
}

fn ran(places: &Places, command: &str) -> (Ran, String) {
    let ran = run::finish(places.start(command), LIMIT);
    let said = String::from_utf8_lossy(&places.without_name(&ran.stderr)).into_owned();
    (ran, said)
}

fn succeeds(places: &Places, command: &str) -> String {
    let (ran, said) = ran(places, command);
    assert_eq!(ran.status, "exit status 0", "{said}");
    said
}

fn kill(child: Child, signal: Signal) {
    // It has ended already, perhaps; then the number is still its own.
    let _ = kill_process(Pid::from_child(&child), signal);
    run::finish(child, LIMIT);
}

/// One destination, one interruption after the other: at no moment is there something under a name that is
/// not whole, and in the end everything is there, and nothing else.
fn random_moments(options: &str) -> Result<(), Skip> {
    let mut random = Random::for_test();
    let lines = "many s/many 150; file s/a 900000; file s/t/b 5000000; file s/t/c 3000000; file s/z 8M; \
        holes s/h 4M 1M+64K 3M+4K; link s/l a; hard s/u/h s/a; own 3:4 s/t/b; mode 4755 s/t/c";
    let places = Places::make(Side::Ours, lines)?;
    let command = format!("--resume {options} -aT --buffer=64K s d");
    let started = Instant::now();
    succeeds(&places, &command.replace(" d", " whole"));
    let usual = started.elapsed().as_micros() as usize;
    let kills = kills();
    for number in 0..kills {
        let child = places.start(&command);
        thread::sleep(Duration::from_micros(random.below(usual) as u64));
        kill(child, Signal::KILL);
        all_whole(&places.at("s"), &places.at("d"));
        // Every few times from the beginning: later runs have less and less to do.
        if number % 4 == 3 && number + 1 < kills {
            match fs::remove_dir_all(places.at("d")) {
                // On a busy machine all four may have been killed before they came to that.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.expect("ours"),
            }
        }
    }
    succeeds(&places, &command);
    all_whole(&places.at("s"), &places.at("d"));
    all_there(&places.at("s"), &places.at("d"));
    no_leftovers(&places.at("d"));
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

/// A source `FS/s/f` that is old enough to be known by its times.
fn source(contents: &[u8]) -> Result<Places, Skip> {
    let places = Places::make(Side::Ours, "dir d")?;
    places.fs.add_dir("s");
    places.fs.add_file("s/f", contents);
    places.fs.age("s/f", LONG_AGO);
    Ok(places)
}

fn not_read() -> Result<(), Skip> {
    let places = source(b"contents")?;
    succeeds(&places, "--resume -aT FS/s d");
    places.fs.reset_counts();
    let said = succeeds(&places, "--resume --stats -aT FS/s d");
    assert!(said.contains("  whole       1\n"), "{said}");
    assert_eq!(places.fs.requests(Kind::Read), 0);
    assert_eq!(places.fs.requests_at("s/f", Kind::Open), 0);
    // Another size, or another time.
    places.fs.add_file("s/f", b"CONTENTS");
    succeeds(&places, "--resume -aT FS/s d");
    assert_eq!(fs::read(places.at("d/f")).expect("the copy"), b"CONTENTS");
    Ok(())
}

/// The contents are others, the size and time the same.
fn behind_its_times() -> Result<(), Skip> {
    let places = Places::make(Side::Ours, "file s/f =one")?;
    succeeds(&places, "--resume -aT s d");
    let path = places.at("s/f");
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
    succeeds(&places, "--resume -aT s d");
    assert_eq!(fs::read(places.at("d/f")).expect("the copy"), b"two");
    Ok(())
}

/// A copy of a large file that has been stopped after some of it.
fn stopped(signal: Signal, options: &str) -> Result<Places, Skip> {
    let places = source(&temp::pattern(SIZE, 1))?;
    // Requests are of 128 KiB, two of them for each piece of the copy.
    for _ in 0..SIZE / 2 / (128 << 10) {
        places
            .fs
            .next_at("s/f", Kind::Read, Fault::Delay(Duration::ZERO));
    }
    places.fs.set_at("s/f", Kind::Read, Fault::Hang);
    let child = places.start(&format!("--resume {options} -aT FS/s d"));
    assert!(places.fs.wait_hung(1, LIMIT), "the copy reads its source");
    kill(child, signal);
    places.fs.release(Released::Served);
    places.fs.clear_all();
    let left = names(&places.at("d"));
    assert!(left.len() == 1 && left[0] != "f", "{left:?}");
    places.fs.reset_counts();
    Ok(places)
}

fn goes_on(signal: Signal, options: &str) -> Result<(), Skip> {
    let places = stopped(signal, options)?;
    let said = succeeds(&places, &format!("--resume --stats {options} -aT FS/s d"));
    assert!(said.contains("continued     1\n"), "{said}");
    assert_eq!(names(&places.at("d")), ["f"]);
    assert!(fs::read(places.at("d/f")).expect("the copy") == temp::pattern(SIZE, 1));
    let copied = said.lines().find_map(|line| line.strip_prefix("bytes "));
    let copied: usize = copied
        .and_then(|bytes| bytes.trim().parse().ok())
        .expect(&said);
    assert!(copied < SIZE * 3 / 4, "{copied} bytes: not all again");
    Ok(())
}

fn begins_anew() -> Result<(), Skip> {
    let places = stopped(Signal::KILL, "")?;
    places.fs.add_file("s/f", &temp::pattern(SIZE, 2));
    places.fs.age("s/f", LONG_AGO);
    let said = succeeds(&places, "--resume --stats -aT FS/s d");
    assert!(said.contains("continued     0\n"), "{said}");
    assert_eq!(names(&places.at("d")), ["f"], "what was begun is removed");
    assert!(fs::read(places.at("d/f")).expect("the copy") == temp::pattern(SIZE, 2));
    Ok(())
}

/// As after a crash of the device that the destination is on.
fn damaged() -> Result<(), Skip> {
    let places = stopped(Signal::KILL, "")?;
    let left = places.at("d").join(&names(&places.at("d"))[0]);
    let mut begun = fs::read(&left).expect("what was begun");
    begun[1000] ^= 1;
    fs::write(&left, begun).expect("ours");
    let (ran, said) = ran(&places, "--resume --verify -aT FS/s d");
    assert_eq!(ran.status, "exit status 1", "{said}");
    assert!(said.contains("'d/f' differs from"), "{said}");
    assert_eq!(names(&places.at("d")), [""; 0]);
    succeeds(&places, "--resume --verify -aT FS/s d");
    assert!(fs::read(places.at("d/f")).expect("the copy") == temp::pattern(SIZE, 1));
    Ok(())
}

fn two_at_once() -> Result<(), Skip> {
    let places = source(&temp::pattern(SIZE, 1))?;
    places.fs.next_at("s/f", Kind::Read, Fault::Hang);
    let first = places.start("--resume -aT FS/s d");
    assert!(places.fs.wait_hung(1, LIMIT), "the copy reads its source");
    let (second, said) = ran(&places, "--resume -aT FS/s d");
    assert_eq!(second.status, "exit status 1", "{said}");
    let message = "another process is copying 'd/f'";
    assert!(said.contains(message), "{said}");
    places.fs.release(Released::Served);
    let first = run::finish(first, LIMIT);
    assert_eq!(first.status, "exit status 0", "{first:?}");
    assert!(fs::read(places.at("d/f")).expect("the copy") == temp::pattern(SIZE, 1));
    Ok(())
}

/// Names that look like ours, but are in use, or not exactly like ours.
fn others_stay() -> Result<(), Skip> {
    let used = ".laio-cp-r-0123456789abcdef0123456789abcdef";
    let left = ".laio-cp-r-fedcba9876543210fedcba9876543210";
    let linked = ".laio-cp-r-00000000000000000000000000000000";
    let lines = format!(
        "file s/f; file d/{used}; file d/{left}; file d/{linked}; hard d/other d/{linked}; \
         file d/.laio-cp-notes; dir d/.laio-cp-r-11111111111111111111111111111111"
    );
    let places = Places::make(Side::Ours, &lines)?;
    let held = File::open(places.at("d").join(used)).expect("a file");
    flock(&held, FlockOperation::LockExclusive).expect("locked");
    succeeds(&places, "--resume -aT s d");
    let there = names(&places.at("d"));
    assert!(!there.iter().any(|name| name == left), "{there:?}");
    assert_eq!(there.len(), 6, "{there:?}");
    Ok(())
}

/// What was begun must not get its name when no data is wanted.
fn attributes_only() -> Result<(), Skip> {
    let places = stopped(Signal::KILL, "")?;
    succeeds(&places, "--resume --attributes-only -aT FS/s d");
    assert_eq!(fs::metadata(places.at("d/f")).expect("made").len(), 0);
    Ok(())
}

/// A name that is missing becomes a link to the copy that is there, or that one to it.
fn hard_links() -> Result<(), Skip> {
    use std::os::unix::fs::MetadataExt;
    let places = Places::make(Side::Ours, "file s/a 100000; hard s/b s/a; hard s/t/c s/a")?;
    for missing in ["a", "b", "t/c"] {
        succeeds(&places, "--resume -aT s d");
        fs::remove_file(places.at("d").join(missing)).expect("it was made");
        succeeds(&places, "--resume -aT s d");
        let inode = |name| fs::metadata(places.at("d").join(name)).expect("made").ino();
        assert_eq!(inode("a"), inode("b"), "without {missing}");
        assert_eq!(inode("a"), inode("t/c"), "without {missing}");
        no_leftovers(&places.at("d"));
    }
    Ok(())
}
