//! Manifests: the list of hashes does not depend on the copy method, and `sha256sum` accepts it.

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
use crate::extensions::WORLD;
use crate::failures::{FaultyFixture, names, trial};
use crate::programs::Side;
use crate::run::{self, LIMIT};
use crate::world::World;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("hashes::sha256sum accepts the list", checked),
        trial("hashes::an interrupted list is removed", without_name),
    ];
    trials.extend(WAYS.map(|(backend, more, need)| {
        let name = format!("hashes::through {backend} {more}");
        trial(name.trim_end(), move || through(backend, more, need))
    }));
    if std::env::var_os(USR_VARIABLE).is_some() {
        let name = "hashes::all of /usr through every back end";
        trials.push(trial(name, whole_system));
    }
    trials
}

fn succeeds(world: &World, command: &str) {
    let ran = run::run(&case("", "", command), Side::Ours, &world.root);
    assert_eq!(ran.status, "exit status 0", "{command}: {ran:?}");
}

/// Copies `s` to `e`, returns the sorted manifest, and removes the copy.
fn hashes(world: &World, options: &str) -> Vec<String> {
    succeeds(world, &format!("-a {options} --manifest=m -T s e"));
    let list = fs::read_to_string(world.root.join("m")).expect("a list");
    fs::remove_dir_all(world.root.join("e")).expect("the copy");
    let mut lines: Vec<String> = list.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Names a directory on a disk with space for a copy of `/usr`; the test takes several minutes.
const USR_VARIABLE: &str = "LAIO_TEST_USR";
const USR_LIMIT: Duration = Duration::from_secs(3600);

/// Copies all of `/usr` through every back end: the hashes are equal, and rsync finds no
/// difference.
fn whole_system() -> Result<(), Skip> {
    let directory = std::env::var_os(USR_VARIABLE).expect("it is only tried then");
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
        let ran = run::finish(child, USR_LIMIT);
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

/// The back ends, more options, and what the machine must have for them.
const WAYS: [(&str, &str, Option<&str>); 7] = [
    ("lazy", "", None),
    ("uring", "--resume", Some("io_uring")),
    ("hybrid", "--method=copy-file-range", None),
    ("threads", "--sparse=always", None),
    ("posix-aio", "--buffer=4K", None),
    ("linux-aio", "--direct", Some("linux-aio")),
    ("sync", "--atomic", None),
];

/// The C headers of the machine, if installed, are a realistic tree.
fn through(backend: &str, more: &str, need: Option<&str>) -> Result<(), Skip> {
    need.map_or(Ok(()), Skip::unless_there)?;
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
    let options = format!("--backend={backend} {more}");
    assert!(hashes(&world, &options) == expected, "{options}");
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
    // The manifest includes complete files of the earlier run.
    fs::remove_file(world.root.join("d/two words")).expect("it was made");
    succeeds(&world, "-aT --resume --manifest=n s d");
    let again = fs::read_to_string(world.root.join("n")).expect("a list");
    assert_eq!(again.lines().count(), 7, "{again}");
    assert!(check("n"), "{again}");
    // `sha256sum` reports it.
    fs::write(world.root.join("d/a"), "other").expect("ours");
    assert!(!check("m"));
    Ok(())
}

/// An existing file with the name of the manifest stays until the manifest is complete.
fn without_name() -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file m =old; dir d")?;
    fixture.fs.add_dir("s");
    fixture.fs.add_file("s/f", b"contents");
    fixture.fs.set(Kind::Read, Fault::Hang);
    let child = fixture.start("--manifest=m -r FS/s d");
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    // The copy waits for the file system, so it is still running.
    kill_process(Pid::from_child(&child), Signal::INT).expect("our child");
    let ran = run::finish(child, LIMIT);
    assert_eq!(ran.status, "exit status 130", "{ran:?}");
    let list = || fs::read_to_string(fixture.at("m")).expect("a list");
    assert_eq!(list(), "old");
    assert_eq!(names(&fixture.at("")), ["d", "m"], "nothing is left over");
    fixture.fs.release(Released::Served);
    let ran = run::finish(fixture.start("--manifest=m -r FS/s d"), LIMIT);
    assert_eq!(ran.status, "exit status 0", "{ran:?}");
    assert!(list().ends_with("  d/s/f\n"), "{}", list());
    Ok(())
}
