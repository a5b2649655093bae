//! Processes that die, and parts that are done again.

use std::fs::{self, File};
use std::thread;
use std::time::{Duration, SystemTime};

use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::{Skip, temp};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};

use super::{LIMIT, WELL, badly, names, ours, same, start, well, world};
use crate::programs::Side;
use crate::run;
use crate::trouble::{Places, trial};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("machines::dying::killed in a file", || killed("")),
        trial("machines::dying::killed in a region", || {
            killed("--max-bytes 512K")
        }),
        trial("machines::dying::interrupted", interrupted),
        trial("machines::dying::a lease that has run out", leases),
        trial("machines::dying::a part that failed", failed),
        trial("machines::dying::the first of several names", lost),
        trial("machines::dying::a directory that is not seen yet", unseen),
    ]
}

/// A plan for `FS/s`, and a worker that waits for data of a file in it.
fn waiting(options: &str) -> Result<(Places, std::process::Child), Skip> {
    let places = Places::make(Side::Ours, "file list =x")?;
    places.fs.add_dir("s");
    places.fs.add_dir("s/t");
    for name in ["a", "b", "t/c"] {
        places.fs.add_file(&format!("s/{name}"), b"contents");
    }
    places.fs.add_file("s/t/f", &temp::pattern(2 << 20, 1));
    let plan = places.start(&format!("--plan P --max-files 1 {options} -r FS/s d"));
    assert_eq!(run::finish(plan, LIMIT).status, WELL);
    places
        .fs
        .next_at("s/t/f", Kind::Read, Fault::Delay(Duration::ZERO));
    places.fs.set_at("s/t/f", Kind::Read, Fault::Hang);
    let child = places.start("--work P --take --method=read-write");
    // Options of the copy are the plan's.
    assert_eq!(run::finish(child, LIMIT).status, "exit status 1");
    let child = places.start("--work P --take");
    assert!(places.fs.wait_hung(1, LIMIT), "the worker reads its source");
    Ok((places, child))
}

fn killed(options: &str) -> Result<(), Skip> {
    let (places, child) = waiting(options)?;
    // Others do the rest, and leave this part to its owner; other regions would have to be waited for too.
    if options.is_empty() {
        assert_eq!(names(&places.at("P/claims")).len(), 1);
        let other = run::finish(places.start("--work P --take"), LIMIT);
        assert_eq!(other.status, WELL, "{other:?}");
        assert_eq!(names(&places.at("P/claims")).len(), 1);
    }
    let early = run::finish(places.start("--finish P"), LIMIT);
    let said = String::from_utf8_lossy(&early.stderr).into_owned();
    assert_eq!(early.status, "exit status 1");
    assert!(
        said.contains("are not done") && said.contains("--take"),
        "{said}"
    );

    kill_process(Pid::from_child(&child), Signal::KILL).expect("our child");
    run::finish(child, LIMIT);
    assert!(!places.at("d/t/f").exists());
    places.fs.clear_all();
    let other = run::finish(places.start("--work P --take"), LIMIT);
    assert_eq!((other.status.as_str(), other.stderr), (WELL, Vec::new()));
    let ran = run::finish(places.start("--finish P"), LIMIT);
    assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    // Nothing else is there: what the dead have left is gone.
    assert_eq!(names(&places.at("d")), ["a", "b", "t"]);
    assert_eq!(names(&places.at("d/t")), ["c", "f"]);
    let copied = fs::read(places.at("d/t/f")).expect("it is there");
    assert!(copied == temp::pattern(2 << 20, 1));
    Ok(())
}

fn interrupted() -> Result<(), Skip> {
    let (places, child) = waiting("")?;
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our child");
    let ran = run::finish(child, LIMIT);
    assert_eq!(ran.status, "exit status 143", "{ran:?}");
    places.fs.clear_all();
    for stage in ["--work P", "--finish P"] {
        let ran = run::finish(places.start(stage), LIMIT);
        assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    }
    assert_eq!(names(&places.at("d/t")), ["c", "f"]);
    Ok(())
}

/// Whether the owner lives on another machine cannot be seen, other than by the time of the claim.
fn leases() -> Result<(), Skip> {
    let world = world("file s/a; file s/b")?;
    well(&world, "--plan P --max-files 1 -a s d");
    let claim = |text: &str| {
        let path = world.root.join("P/claims/00001");
        fs::write(&path, text).expect("a directory of ours");
        File::options().write(true).open(path).expect("just made")
    };
    let elsewhere = r#"{"host":"other","boot":"b","process_namespace":"n","process":1,"started":"1","token":"t"}"#;
    for text in [elsewhere, "", "nonsense"] {
        let file = claim(text);
        let _ = fs::remove_file(world.root.join("P/done/00001"));
        well(&world, "--work P --take --lease 86400");
        assert_eq!(names(&world.root.join("P/done")), ["00000"]);
        badly(&world, "--finish P", &["1 of 2 parts are not done: 00001"]);
        let past = SystemTime::now() - Duration::from_secs(3600);
        file.set_modified(past).expect("a file of ours");
        well(&world, "--work P --take --lease 1800");
        assert_eq!(names(&world.root.join("P/done")).len(), 2);
        assert_eq!(names(&world.root.join("P/claims")), [""; 0]);
    }
    // Who names a part knows better than the claim.
    drop(claim(elsewhere));
    fs::remove_file(world.root.join("P/done/00001")).expect("it is done");
    well(&world, "--work P --part 1");
    well(&world, "--finish P");
    same(&world, "s", "d");
    Ok(())
}

fn failed() -> Result<(), Skip> {
    let world = world("file s/a; file s/big 300000; file s/t/c")?;
    well(&world, "-a s e");
    well(&world, "--plan P --max-files 10 --max-bytes 64K -a s d");
    let moved = world.root.join("moved");
    fs::rename(world.root.join("s/t"), &moved).expect("ours");
    badly(&world, "--work P --patience 0", &["s/t"]);
    badly(&world, "--finish P --patience 0", &["part ", "s/t"]);
    let failed = (0..super::parts(&world, "P")).find(|part| {
        let done = world.root.join(format!("P/done/{part:05}"));
        let text = fs::read_to_string(done).expect("it was tried");
        !text.contains("\"failures\": 0")
    });
    fs::rename(&moved, world.root.join("s/t")).expect("ours");
    well(
        &world,
        &format!("--work P --part {}", failed.expect("one of them")),
    );
    well(&world, "--finish P");
    // As it was when the plan was made.
    same(&world, "e", "d");
    Ok(())
}

/// No name becomes a link to what was there before, in the place of a first name that could not be copied.
fn lost() -> Result<(), Skip> {
    let lines = "file s/a; hard s/b s/a; file s/t/c; file d/s/a =old; file d/s/b =older";
    let world = world(lines)?;
    well(&world, "--plan P --max-files 1 -a s d");
    let place = |name: &str| world.root.join(name);
    for name in ["a", "b"] {
        fs::rename(place("s").join(name), place(name)).expect("ours");
    }
    assert_eq!(ours(&world, "--work P").status, "exit status 1");
    for name in ["a", "b"] {
        fs::rename(place(name), place("s").join(name)).expect("ours");
    }
    badly(&world, "--finish P", &["a link to", "which was not copied"]);
    let read = |name| fs::read_to_string(place(name)).expect("it was there");
    let old = (read("d/s/a"), read("d/s/b"));
    assert_eq!(old, ("old".to_owned(), "older".to_owned()));
    for part in 0..2 {
        well(&world, &format!("--work P --part {part}"));
    }
    well(&world, "--finish P");
    assert_eq!((read("d/s/a"), read("d/s/b")), (read("s/a"), read("s/a")));
    Ok(())
}

fn unseen() -> Result<(), Skip> {
    let world = world("file s/t/a; file s/t/b")?;
    well(&world, "--plan P -a s d");
    let (there, hidden) = (world.root.join("d/t"), world.root.join("hidden"));
    fs::rename(&there, &hidden).expect("ours");
    let worker = start(&world, "--work P --patience 80");
    let end = std::time::Instant::now() + LIMIT;
    while names(&world.root.join("P/attempts")).is_empty() {
        assert!(std::time::Instant::now() < end, "it has not begun");
        thread::sleep(Duration::from_millis(1));
    }
    // It is all the same whether it has looked already.
    fs::rename(&hidden, &there).expect("ours");
    let ran = run::finish(worker, LIMIT);
    assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    well(&world, "--finish P");
    same(&world, "s", "d");
    // It does not wait for ever.
    well(&world, "--plan Q -a s e");
    fs::remove_dir(world.root.join("e/t")).expect("ours");
    let ran = ours(&world, "--work Q --patience 0");
    assert_eq!(ran.status, "exit status 1", "{ran:?}");
    Ok(())
}
