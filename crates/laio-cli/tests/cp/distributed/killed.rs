//! Processes that die, and parts that are copied again.

use std::fs::{self, File};
use std::thread;
use std::time::{Duration, SystemTime};

use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::{Skip, temp};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};

use super::{LIMIT, WELL, names, run_failing, run_ours, run_successfully, same, start, world};
use crate::failures::{FaultyFixture, trial};
use crate::programs::Side;
use crate::run;
use crate::traced;

#[rustfmt::skip]
pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("distributed::killed::killed in a file", || killed("")),
        trial("distributed::killed::killed in a region", || {
            killed("--max-bytes 512K")
        }),
        trial(
            "distributed::killed::killed in the target directory itself",
            || killed_in_root("FS/s/a FS/s/f d", "d", "f"),
        ),
        trial("distributed::killed::killed in a renamed file", || {
            killed_in_root("-T FS/s/f d/f", "d", "f")
        }),
        trial("distributed::killed::the names of a killed finish", killed_finish),
        trial("distributed::killed::interrupted", interrupted),
        trial("distributed::killed::an expired lease", leases),
        trial("distributed::killed::killed while it claims a part", killed_while_it_claims),
        trial("distributed::killed::what is left beside the claims", leftovers_of_claims),
        trial("distributed::killed::a part that failed", failed),
        trial("distributed::killed::a region whose data is lost when it is closed", lost_at_close),
        trial("distributed::killed::the first of several hard links", lost),
        trial("distributed::killed::a directory that is not visible yet", not_visible_yet),
    ]
}

/// Creates a plan for `FS/s`, and starts a worker that waits for data of a file in it.
fn waiting(options: &str) -> Result<(FaultyFixture, std::process::Child), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file list =x")?;
    fixture.fs.add_dir("s");
    fixture.fs.add_dir("s/t");
    for name in ["a", "b", "t/c"] {
        fixture.fs.add_file(&format!("s/{name}"), b"contents");
    }
    fixture.fs.add_file("s/t/f", &temp::pattern(2 << 20, 1));
    let plan = fixture.start(&format!("--plan P --max-files 1 {options} -r FS/s d"));
    assert_eq!(run::finish(plan, LIMIT).status, WELL);
    fixture
        .fs
        .next_at("s/t/f", Kind::Read, Fault::Delay(Duration::ZERO));
    fixture.fs.set_at("s/t/f", Kind::Read, Fault::Hang);
    let child = fixture.start("--work P --take --method=read-write");
    // The options of the copy come from the plan.
    assert_eq!(run::finish(child, LIMIT).status, "exit status 1");
    let child = fixture.start("--work P --take");
    assert!(
        fixture.fs.wait_hung(1, LIMIT),
        "the worker reads its source"
    );
    Ok((fixture, child))
}

fn killed(options: &str) -> Result<(), Skip> {
    let (fixture, child) = waiting(options)?;
    // Other workers copy the remaining parts and leave this one to its owner.
    if options.is_empty() {
        assert_eq!(names(&fixture.at("P/claims")).len(), 1);
        let other = run::finish(fixture.start("--work P --take"), LIMIT);
        assert_eq!(other.status, WELL, "{other:?}");
        assert_eq!(names(&fixture.at("P/claims")).len(), 1);
    }
    let early = run::finish(fixture.start("--finish P"), LIMIT);
    let said = String::from_utf8_lossy(&early.stderr).into_owned();
    assert_eq!(early.status, "exit status 1");
    assert!(
        said.contains("are not done") && said.contains("--take"),
        "{said}"
    );

    kill_process(Pid::from_child(&child), Signal::KILL).expect("our child");
    run::finish(child, LIMIT);
    assert!(!fixture.at("d/t/f").exists());
    fixture.fs.clear_all();
    let other = run::finish(fixture.start("--work P --take"), LIMIT);
    assert_eq!((other.status.as_str(), other.stderr), (WELL, Vec::new()));
    let ran = run::finish(fixture.start("--finish P"), LIMIT);
    assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    // Nothing else exists: the leftovers of killed processes have been removed.
    assert_eq!(names(&fixture.at("d")), ["a", "b", "t"]);
    assert_eq!(names(&fixture.at("d/t")), ["c", "f"]);
    let copied = fs::read(fixture.at("d/t/f")).expect("it is there");
    assert!(copied == temp::pattern(2 << 20, 1));
    Ok(())
}

/// A worker is killed in a file whose directory is no directory of the plan. `--finish` removes what
/// the worker has left, and no file of other processes, even of one with the same PID.
fn killed_in_root(operands: &str, directory: &str, name: &str) -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "dir d")?;
    fixture.fs.add_dir("s");
    fixture.fs.add_file("s/a", b"contents");
    fixture.fs.add_file("s/f", &temp::pattern(2 << 20, 1));
    let plan = fixture.start(&format!("--plan P --max-files 1 {operands}"));
    assert_eq!(run::finish(plan, LIMIT).status, WELL);
    fixture
        .fs
        .next_at("s/f", Kind::Read, Fault::Delay(Duration::ZERO));
    fixture.fs.set_at("s/f", Kind::Read, Fault::Hang);
    let child = fixture.start("--work P --take");
    assert!(fixture.fs.wait_hung(1, LIMIT), "the worker reads {name}");
    let process = child.id();
    kill_process(Pid::from_child(&child), Signal::KILL).expect("our child");
    run::finish(child, LIMIT);
    fixture.fs.clear_all();
    let copied = names(&fixture.at(directory));
    let left = copied.iter().any(|name| name.starts_with(".laio-cp-"));
    assert!(left, "the killed worker has left something: {copied:?}");
    let others = [
        format!(".laio-cp-{process:x}-0-0badcafe"),
        format!(".laio-cp-{process:x}-notes"),
    ];
    for other in &others {
        fs::write(fixture.at(directory).join(other), "x").expect("a directory of ours");
    }
    for stage in ["--work P --take", "--finish P"] {
        let ran = run::finish(fixture.start(stage), LIMIT);
        assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    }
    let mut found = names(&fixture.at(directory));
    found.retain(|found| found != "a" && !others.contains(found));
    assert_eq!(found, [name]);
    for other in &others {
        assert!(fixture.at(directory).join(other).exists(), "{other}");
    }
    Ok(())
}

/// A killed `--finish` leaves the temporary name of a link; the next one removes it.
fn killed_finish() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file s/a; hard s/b s/a")?;
    fixture.fs.add_dir("d");
    fixture.fs.add_dir("d/s");
    fixture.fs.add_file("d/s/a", b"old");
    fixture.fs.add_file("d/s/b", b"older");
    for stage in ["--plan P -r --preserve=links s FS/d", "--work P"] {
        let ran = run::finish(fixture.start(stage), LIMIT);
        assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    }
    fixture.fs.set(Kind::Rename, Fault::Hang);
    let child = fixture.start("--finish P");
    assert!(fixture.fs.wait_hung(1, LIMIT), "it renames the link");
    kill_process(Pid::from_child(&child), Signal::KILL).expect("our child");
    fixture.fs.release(Released::Fail(libc::EIO));
    run::finish(child, LIMIT);
    fixture.fs.clear_all();
    assert_eq!(names(&fixture.fs.join("d/s")).len(), 3);
    let ran = run::finish(fixture.start("--finish P"), LIMIT);
    assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    assert_eq!(names(&fixture.fs.join("d/s")), ["a", "b"]);
    Ok(())
}

fn interrupted() -> Result<(), Skip> {
    let (fixture, child) = waiting("")?;
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our child");
    let ran = run::finish(child, LIMIT);
    assert_eq!(ran.status, "exit status 143", "{ran:?}");
    fixture.fs.clear_all();
    for stage in ["--work P", "--finish P"] {
        let ran = run::finish(fixture.start(stage), LIMIT);
        assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    }
    assert_eq!(names(&fixture.at("d/t")), ["c", "f"]);
    Ok(())
}

/// If the owner runs on another machine, only the time of the claim shows whether it is alive.
fn leases() -> Result<(), Skip> {
    let world = world("file s/a; file s/b")?;
    run_successfully(&world, "--plan P --max-files 1 -a s d");
    let claim = |text: &str| {
        let path = world.root.join("P/claims/00001");
        fs::write(&path, text).expect("a directory of ours");
        File::options().write(true).open(path).expect("just made")
    };
    let elsewhere = r#"{"host":"other","boot":"b","process_namespace":"n","process":1,"started":"1","token":"t"}"#;
    for text in [elsewhere, "", "nonsense"] {
        let file = claim(text);
        let _ = fs::remove_file(world.root.join("P/done/00001"));
        run_successfully(&world, "--work P --take --lease 86400");
        assert_eq!(names(&world.root.join("P/done")), ["00000"]);
        run_failing(&world, "--finish P", &["1 of 2 parts are not done: 00001"]);
        let past = SystemTime::now() - Duration::from_secs(3600);
        file.set_modified(past).expect("a file of ours");
        run_successfully(&world, "--work P --take --lease 1800");
        assert_eq!(names(&world.root.join("P/done")).len(), 2);
        assert_eq!(names(&world.root.join("P/claims")), [""; 0]);
    }
    // `--part` ignores the claim.
    drop(claim(elsewhere));
    fs::remove_file(world.root.join("P/done/00001")).expect("it is done");
    run_successfully(&world, "--work P --part 1");
    run_successfully(&world, "--finish P");
    same(&world, "s", "d");
    Ok(())
}

/// Whenever a worker is killed, the next one takes its part at once.
fn killed_while_it_claims() -> Result<(), Skip> {
    for call in ["write", "linkat", "unlink"] {
        for number in 1..=4 {
            let world = world("file s/a; file s/b")?;
            run_successfully(&world, "--plan P --max-files 1 -a s d");
            let fault = format!("{call}:signal=KILL:when={number}");
            traced::failing(&[&fault], "--work P --take", &world.root)?;
            run_successfully(&world, "--work P --take");
            run_successfully(&world, "--finish P");
            same(&world, "s", "d");
        }
    }
    Ok(())
}

/// Files that a killed worker has left beside the claims go when the lease is over.
fn leftovers_of_claims() -> Result<(), Skip> {
    let world = world("file s/a; file s/b")?;
    run_successfully(&world, "--plan P --max-files 1 -a s d");
    let at = |name: &str| world.root.join("P/claims").join(name);
    for name in [
        ".new.host-1-2",
        ".now.host-1-2",
        ".dead.00000.host-1-2",
        ".new.host-3-4",
    ] {
        let file = File::create(at(name)).expect("a directory of ours");
        let past = SystemTime::now() - Duration::from_secs(3600);
        if name != ".new.host-3-4" {
            file.set_modified(past).expect("a file of ours");
        }
    }
    run_successfully(&world, "--work P --take --lease 1800");
    assert_eq!(names(&world.root.join("P/claims")), [".new.host-3-4"]);
    Ok(())
}

fn failed() -> Result<(), Skip> {
    let world = world("file s/a; file s/big 300000; file s/t/c")?;
    run_successfully(&world, "-a s e");
    run_successfully(&world, "--plan P --max-files 10 --max-bytes 64K -a s d");
    let moved = world.root.join("moved");
    fs::rename(world.root.join("s/t"), &moved).expect("ours");
    run_failing(&world, "--work P --patience 0", &["s/t"]);
    run_failing(&world, "--finish P --patience 0", &["part ", "s/t"]);
    let failed = (0..super::parts(&world, "P")).find(|part| {
        let done = world.root.join(format!("P/done/{part:05}"));
        let text = fs::read_to_string(done).expect("it was tried");
        !text.contains("\"failures\": 0")
    });
    fs::rename(&moved, world.root.join("s/t")).expect("ours");
    run_successfully(
        &world,
        &format!("--work P --part {}", failed.expect("one of them")),
    );
    run_successfully(&world, "--finish P");
    // As when the plan was created.
    same(&world, "e", "d");
    Ok(())
}

fn lost_at_close() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file s/f 300000")?;
    fixture.fs.add_dir("d");
    let run = |stage: &str| {
        let ran = run::finish(fixture.start(stage), LIMIT);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        (ran.status, said)
    };
    let quiet = (WELL.to_owned(), String::new());
    assert_eq!(run("--plan P --max-bytes 256K -r s FS/d"), quiet);
    fixture.fs.next(Kind::Flush, Fault::Fail(libc::EDQUOT));
    let (status, said) = run("--work P");
    assert_eq!(status, "exit status 1", "{said}");
    assert!(said.contains("failed to close"), "{said}");
    let (status, said) = run("--finish P");
    assert_eq!(status, "exit status 1", "{said}");
    assert!(said.contains("not all regions were copied"), "{said}");
    for part in 0..2 {
        assert_eq!(run(&format!("--work P --part {part}")), quiet);
    }
    assert_eq!(run("--finish P"), quiet);
    let copy = fs::read(fixture.fs.join("d/s/f")).expect("it is there");
    assert!(copy == fs::read(fixture.at("s/f")).expect("a file of ours"));
    Ok(())
}

/// No name is linked to an existing file in the place of a first name that was not copied.
fn lost() -> Result<(), Skip> {
    let lines = "file s/a; hard s/b s/a; file s/t/c; file d/s/a =old; file d/s/b =older";
    let world = world(lines)?;
    run_successfully(&world, "--plan P --max-files 1 -a s d");
    let place = |name: &str| world.root.join(name);
    for name in ["a", "b"] {
        fs::rename(place("s").join(name), place(name)).expect("ours");
    }
    assert_eq!(run_ours(&world, "--work P").status, "exit status 1");
    for name in ["a", "b"] {
        fs::rename(place(name), place("s").join(name)).expect("ours");
    }
    run_failing(&world, "--finish P", &["a link to", "which was not copied"]);
    let read = |name| fs::read_to_string(place(name)).expect("it was there");
    let old = (read("d/s/a"), read("d/s/b"));
    assert_eq!(old, ("old".to_owned(), "older".to_owned()));
    for part in 0..2 {
        run_successfully(&world, &format!("--work P --part {part}"));
    }
    run_successfully(&world, "--finish P");
    assert_eq!((read("d/s/a"), read("d/s/b")), (read("s/a"), read("s/a")));
    Ok(())
}

fn not_visible_yet() -> Result<(), Skip> {
    let world = world("file s/t/a; file s/t/b")?;
    run_successfully(&world, "--plan P -a s d");
    let (there, hidden) = (world.root.join("d/t"), world.root.join("hidden"));
    fs::rename(&there, &hidden).expect("ours");
    let worker = start(&world, "--work P --patience 80");
    let end = std::time::Instant::now() + LIMIT;
    while names(&world.root.join("P/attempts")).is_empty() {
        assert!(std::time::Instant::now() < end, "it has not started");
        thread::sleep(Duration::from_millis(1));
    }
    // The result is the same if the process has looked already.
    fs::rename(&hidden, &there).expect("ours");
    let ran = run::finish(worker, LIMIT);
    assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    run_successfully(&world, "--finish P");
    same(&world, "s", "d");
    // The wait is bounded.
    run_successfully(&world, "--plan Q -a s e");
    fs::remove_dir(world.root.join("e/t")).expect("ours");
    let ran = run_ours(&world, "--work Q --patience 0");
    assert_eq!(ran.status, "exit status 1", "{ran:?}");
    Ok(())
}
