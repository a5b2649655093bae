//! Copies that are stopped by a signal.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::{Random, Skip, temp};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};

use crate::programs::Side;
use crate::run::{self, LIMIT};

use super::faulty_fs::{FaultyFixture, names, trial};

/// The number of copies killed at random moments; the variable overrides it.
const KILLS: usize = 15;
const KILLS_VARIABLE: &str = "LAIO_TEST_KILLS";

#[rustfmt::skip]
pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("stopping::SIGINT ends a copy that waits", || {
            waits(Signal::INT)
        }),
        trial("stopping::SIGTERM ends a copy that waits", || {
            waits(Signal::TERM)
        }),
        trial("stopping::SIGHUP ends a copy that waits", || {
            waits(Signal::HUP)
        }),
        trial("stopping::SIGKILL ends a copy that waits", || {
            waits(Signal::KILL)
        }),
        trial("stopping::SIGINT leaves no partial file with --atomic", || half(Signal::INT)),
        trial("stopping::SIGTERM leaves no partial file with --atomic", || half(Signal::TERM)),
        trial("stopping::SIGKILL leaves no partial file with --atomic", || half(Signal::KILL)),
        trial("stopping::SIGKILL keeps the existing file with --atomic", keeps),
        trial("stopping::SIGKILL at random moments with --atomic", random_moments),
    ]
}

/// Starts a copy of `FS/s` to `d` that waits for data of `FS/s/f`.
fn waiting(lines: &str, options: &str) -> Result<(FaultyFixture, Child), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, lines)?;
    fixture.fs.add_dir("s");
    fixture.fs.add_file("s/a", b"contents");
    fixture.fs.add_file("s/f", &temp::pattern(1 << 20, 1));
    fixture
        .fs
        .next_at("s/f", Kind::Read, Fault::Delay(Duration::ZERO));
    fixture.fs.set_at("s/f", Kind::Read, Fault::Hang);
    let child = fixture.start(&format!("{options} -r FS/s d"));
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    Ok((fixture, child))
}

fn waits(signal: Signal) -> Result<(), Skip> {
    let (_places, child) = waiting("dir d", "")?;
    killed(child, signal);
    Ok(())
}

fn half(signal: Signal) -> Result<(), Skip> {
    let (fixture, child) = waiting("dir d", "--atomic")?;
    killed(child, signal);
    assert!(
        !fixture.at("d/s/f").exists(),
        "{:?}",
        names(&fixture.at("d/s"))
    );
    if signal != Signal::KILL {
        let left = names(&fixture.at("d/s"));
        assert!(
            left.is_empty() || left == ["a"],
            "nothing is left behind: {left:?}"
        );
    }
    Ok(())
}

fn keeps() -> Result<(), Skip> {
    let (fixture, child) = waiting("file d/s/f =old", "--atomic")?;
    killed(child, Signal::KILL);
    let kept = fs::read(fixture.at("d/s/f")).expect("it is still there");
    assert_eq!(kept, b"old");
    Ok(())
}

/// Stops a copy, and checks its status as a shell sees it: it must not look successful.
fn killed(child: Child, signal: Signal) {
    // It waits for the file system, so it is running.
    kill_process(Pid::from_child(&child), signal).expect("our child");
    let ran = run::finish(child, LIMIT);
    let number = signal.as_raw();
    let expected = [
        format!("signal {number}"),
        format!("exit status {}", 128 + number),
    ];
    assert!(expected.contains(&ran.status), "{ran:?}");
}

fn random_moments() -> Result<(), Skip> {
    let mut random = Random::for_test();
    let lines = "many s/many 100; file s/a 700000; file s/t/b 500000; file s/t/c 300000; holes s/h 2M 1M+64K";
    let fixture = FaultyFixture::make(Side::Ours, lines)?;
    let started = Instant::now();
    let child = fixture.start("--atomic -a s whole");
    assert_eq!(run::finish(child, LIMIT).status, "exit status 0");
    let usual = started.elapsed().as_micros() as usize;
    for _ in 0..kills() {
        let moment = random.below(usual) as u64;
        let child = fixture.start("--atomic -a s d");
        thread::sleep(Duration::from_micros(moment));
        // It may have ended; its PID is not reused before it is waited for.
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        run::finish(child, LIMIT);
        all_complete(&fixture.at("s"), &fixture.at("d"));
        let _ = fs::remove_dir_all(fixture.at("d"));
    }
    let interrupted = fixture.start("--atomic -a s d");
    thread::sleep(Duration::from_micros(usual as u64 / 2));
    let _ = kill_process(Pid::from_child(&interrupted), Signal::KILL);
    run::finish(interrupted, LIMIT);
    let again = run::finish(fixture.start("--atomic -aT s d"), LIMIT);
    assert_eq!(
        again.status, "exit status 0",
        "a second run finishes: {again:?}"
    );
    all_complete(&fixture.at("s"), &fixture.at("d"));
    all_there(&fixture.at("s"), &fixture.at("d"));
    Ok(())
}

pub(super) fn kills() -> usize {
    let kills = std::env::var(KILLS_VARIABLE).ok();
    kills.and_then(|kills| kills.parse().ok()).unwrap_or(KILLS)
}

/// Checks that every file with its final name has all its contents.
pub(super) fn all_complete(source: &Path, copy: &Path) {
    for name in names(source) {
        let (source, copy) = (source.join(&name), copy.join(&name));
        if source.is_dir() {
            all_complete(&source, &copy);
        } else if let Ok(copied) = fs::read(&copy) {
            let whole = copied == fs::read(&source).expect("a source");
            assert!(
                whole,
                "{} is half-written: {} bytes",
                copy.display(),
                copied.len()
            );
        }
    }
}

pub(super) fn all_there(source: &Path, copy: &Path) {
    for name in names(source) {
        let (source, copy) = (source.join(&name), copy.join(&name));
        assert!(copy.exists(), "{} is missing", copy.display());
        if source.is_dir() {
            all_there(&source, &copy);
        }
    }
}
