//! The list of hashes: the same whichever way the files went, and one that `sha256sum` checks.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use laio_testing::Skip;
use laio_testing::fault_fs::{Fault, Kind, Released};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};

use crate::case::case;
use crate::compare::fresh;
use crate::own::WORLD;
use crate::programs::Side;
use crate::run::{self, LIMIT};
use crate::trouble::{Places, names, trial};
use crate::world::World;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("hashes::through every back end", every_back_end),
        trial("hashes::a list that sha256sum checks", checked),
        trial("hashes::an interrupted list has no name", without_name),
    ];
    if std::env::var_os(WHOLE_SYSTEM).is_some() {
        let name = "hashes::all of /usr through every back end";
        trials.push(trial(name, whole_system));
    }
    trials
}

fn succeeds(world: &World, command: &str) {
    let ran = run::run(&case("", "", command), Side::Ours, &world.root);
    assert_eq!(ran.status, "exit status 0", "{command}: {ran:?}");
}

/// The sorted list of a copy of `s` to `e`, which is then removed.
fn hashes(world: &World, options: &str) -> Vec<String> {
    succeeds(world, &format!("-a {options} --manifest=m -T s e"));
    let list = fs::read_to_string(world.root.join("m")).expect("a list");
    fs::remove_dir_all(world.root.join("e")).expect("the copy");
    let mut lines: Vec<String> = list.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Names a directory on a disk with room for a copy of `/usr`: that takes a while.
const WHOLE_SYSTEM: &str = "LAIO_TEST_USR";
const WHOLE_SYSTEM_LIMIT: Duration = Duration::from_secs(3600);

/// All of `/usr` through every back end: the same hashes, and rsync finds nothing that differs.
fn whole_system() -> Result<(), Skip> {
    let directory = std::env::var_os(WHOLE_SYSTEM).expect("it is only tried then");
    let scratch = tempfile::tempdir_in(directory).expect("a directory");
    let mut expected = None;
    for backend in [
        "sync",
        "threads",
        "hybrid",
        "posix-aio",
        "linux-aio",
        "uring",
        "lazy",
    ] {
        let command = format!("-aT --backend={backend} --manifest=list /usr copy");
        let case = case("", "", command);
        let child = run::start(&mut run::command(&case, Side::Ours, scratch.path()), b"");
        let ran = run::finish(child, WHOLE_SYSTEM_LIMIT);
        assert_eq!(ran.status, "exit status 0", "{backend}: {ran:?}");
        let differing = Command::new("rsync")
            .args(["-naHAXS", "--checksum", "--delete", "--itemize-changes"])
            .args(["/usr/", "copy/"])
            .current_dir(scratch.path())
            .output();
        let differing = differing.expect("rsync is there").stdout;
        assert_eq!(String::from_utf8_lossy(&differing), "", "{backend}");
        let list = fs::read_to_string(scratch.path().join("list")).expect("a list");
        let mut lines: Vec<String> = list.lines().map(str::to_owned).collect();
        lines.sort();
        let count = lines.len();
        eprintln!("{backend}: {count} files, as they should be");
        assert!(*expected.get_or_insert(lines.clone()) == lines, "{backend}");
        fs::remove_dir_all(scratch.path().join("copy")).expect("the copy");
    }
    Ok(())
}

/// The headers of the machine, where it has some, are a tree as people have them.
fn every_back_end() -> Result<(), Skip> {
    let lines = format!("{WORLD}; many s/all 300; file s/large 3M");
    let world = World::make(&fresh(Side::Ours), &lines, false)?;
    if Path::new("/usr/include/linux").is_dir() {
        let copied = Command::new("/bin/cp")
            .args(["-rL", "/usr/include/linux"])
            .arg(world.root.join("s/headers"))
            .status();
        assert!(copied.expect("there is a cp").success());
    }
    let script = "find s -type f -print0 | xargs -0 sha256sum | sed 's/  s/  e/' | sort";
    let list = Command::new("/bin/sh")
        .args(["-c", script])
        .env("LC_ALL", "C")
        .current_dir(&world.root)
        .output();
    let list = String::from_utf8(list.expect("there is a shell").stdout).expect("text");
    let expected: Vec<&str> = list.lines().collect();
    assert!(expected.len() > 300, "{list}");
    for (backend, more) in [
        ("lazy", ""),
        ("uring", "--resume"),
        ("hybrid", "--method=copy-file-range"),
        ("threads", "--sparse=always"),
        ("posix-aio", "--buffer=4K"),
        ("linux-aio", "--direct"),
        ("sync", "--atomic"),
    ] {
        let options = format!("--backend={backend} {more}");
        assert!(hashes(&world, &options) == expected, "{options}");
    }
    Ok(())
}

fn checked() -> Result<(), Skip> {
    let lines = r"file s/a; file s/two\ words; file s/new\nline; file s/back\\slash; file s/none =; hard s/h s/a; \
        link s/l a; holes s/holes 3M 1M+64K";
    let world = World::make(&fresh(Side::Ours), &lines.replace("\\\n", ""), false)?;
    succeeds(&world, "-a --manifest=m s d");
    let check = |name: &str| {
        let check = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", name])
            .current_dir(&world.root)
            .output();
        check.expect("sha256sum is there").status.success()
    };
    let list = fs::read_to_string(world.root.join("m")).expect("a list");
    assert_eq!(list.lines().count(), 7, "{list}");
    assert!(check("m"), "{list}");
    // What is whole already is in the list, too.
    fs::remove_file(world.root.join("d/two words")).expect("it was made");
    succeeds(&world, "-aT --resume --manifest=n s d");
    let again = fs::read_to_string(world.root.join("n")).expect("a list");
    assert_eq!(again.lines().count(), 7, "{again}");
    assert!(check("n"), "{again}");
    // It does tell.
    fs::write(world.root.join("d/a"), "other").expect("ours");
    assert!(!check("m"));
    Ok(())
}

/// What was in its place stays until the list is complete.
fn without_name() -> Result<(), Skip> {
    let places = Places::make(Side::Ours, "file m =old; dir d")?;
    places.fs.add_dir("s");
    places.fs.add_file("s/f", b"contents");
    places.fs.set(Kind::Read, Fault::Hang);
    let child = places.start("--manifest=m -r FS/s d");
    assert!(places.fs.wait_hung(1, LIMIT), "the copy reads its source");
    // It waits for the file system: it is there.
    kill_process(Pid::from_child(&child), Signal::INT).expect("our child");
    let ran = run::finish(child, LIMIT);
    assert_eq!(ran.status, "exit status 130", "{ran:?}");
    let list = || fs::read_to_string(places.at("m")).expect("a list");
    assert_eq!(list(), "old");
    assert_eq!(names(&places.at("")), ["d", "m"], "nothing is left over");
    places.fs.release(Released::Served);
    let ran = run::finish(places.start("--manifest=m -r FS/s d"), LIMIT);
    assert_eq!(ran.status, "exit status 0", "{ran:?}");
    assert!(list().ends_with("  d/s/f\n"), "{}", list());
    Ok(())
}
