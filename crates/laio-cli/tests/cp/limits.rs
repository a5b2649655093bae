//! Memory, descriptors and disk space are short: the copy succeeds, or fails at once with a message
//! that names the limit.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use laio_testing::Skip;
use laio_testing::forbid::{self, Forbid};
use libtest_mimic::Trial;

use crate::case::{Case, case, named};
use crate::compare::fresh;
use crate::failures::{names, trial};
use crate::programs::Side;
use crate::run::{self, Ran};
use crate::snapshot;
use crate::world::World;

#[rustfmt::skip]
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("limits::the message names a sufficient number of descriptors", descriptors),
        trial("limits::descriptors of a plan", descriptors_of_a_plan),
        trial("limits::inherited descriptors count", left_open),
        trial("limits::a tree of hard links in little memory", || {
            links_in_little_memory("-a", 4)
        }),
        trial("limits::links to a tree of hard links in little memory", || links_in_little_memory("-al", 8)),
        trial("limits::exhausted memory does not abort", || {
            exhausted("-a")
        }),
        trial("limits::exhausted memory does not abort, --atomic", || {
            exhausted("-a --atomic --jobs=1")
        }),
        trial("limits::exhausted memory does not abort, --verify", || {
            exhausted("-a --verify --backend=sync")
        }),
        trial("limits::no thread can be started", no_threads),
        trial("limits::few threads can be started", few_threads),
        trial("limits::--fallocate keeps holes", holes_stay),
        trial("limits::--fallocate of a file that is almost all hole", almost_all_hole),
        trial("limits::--fallocate reserves space", space_is_reserved),
        trial("limits::the messages of --debug", debug_messages),
        trial("limits::a copy into itself is reported once", into_itself),
    ]
}

/// The messages of GNU's cp.
pub(crate) fn cases() -> Vec<Case> {
    let two = "link a/1 ../t; file b/1; dir c";
    let mut cases = Vec::new();
    for options in ["-dR", "-dRf", "-dR --remove-destination", "-dRb", "-dRu"] {
        for more in ["", "; file t", "; dir t", "; link t nowhere"] {
            let name = format!("a just-created symlink, {options}{more}");
            let command = format!("{options} a/1 b/1 c");
            cases.push(case(name, format!("{two}{more}"), command));
        }
    }
    named("texts", cases)
}

fn world(lines: &str) -> Result<World, Skip> {
    World::make(&fresh(Side::Ours), lines, false)
}

fn said(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// Runs `laio cp` after these shell commands.
fn after(preparation: &str, command: &str, root: &Path) -> Ran {
    run::run(&case("", "", command).after(preparation), Side::Ours, root)
}

/// Runs `laio cp` with the number of descriptors that its message asks for: with fewer it must not
/// start, and with this number it must succeed. Inherited descriptors count only below the limit,
/// so the number may grow with the limit.
fn run_with_enough_descriptors(command: &str, root: &Path) -> (u32, Ran) {
    let before = everything(root);
    let mut limit = 8;
    loop {
        let ran = after(&format!("ulimit -n {limit}"), command, root);
        let text = said(&ran);
        let number = text.split("(ulimit -n ").nth(1);
        let number = number.and_then(|rest| rest.split(')').next()?.parse().ok());
        let Some(number) = number else {
            return (limit, ran);
        };
        assert_eq!(ran.status, "exit status 1", "{command}: {text}");
        assert!(number > limit, "{command} with {limit}: {text}");
        assert_eq!(everything(root), before, "{command} with {limit}");
        limit = number;
    }
}

fn everything(root: &Path) -> Vec<Vec<u8>> {
    snapshot::of(root, &Default::default())
        .into_keys()
        .collect()
}

const DEEP: &str = "deep s/deep 12 10; many s/a 25; many s/b/c 25; link s/l a; hard s/h s/a/00001; fifo s/p; file d/s/a/00003; dir e";

fn descriptors() -> Result<(), Skip> {
    for command in [
        "-a s new",
        "-r s new",
        "-a s d",
        "-a --atomic s d",
        "-a --backup=numbered s d",
        "-a --resume --verify --manifest=sums s d",
        "--parents -a s/b s/a e",
        "-rl s new",
        "-a --fsync s new",
        "-t e -a s",
    ] {
        let world = world(DEEP)?;
        let (needed, ran) = run_with_enough_descriptors(command, &world.root);
        let text = said(&ran);
        assert_eq!(
            ran.status, "exit status 0",
            "{command} with {needed}: {text}"
        );
    }
    Ok(())
}

fn descriptors_of_a_plan() -> Result<(), Skip> {
    let world = world(DEEP)?;
    for command in [
        "--plan plan --max-files 5 -a s new",
        "--work plan",
        "--finish plan",
    ] {
        let (needed, ran) = run_with_enough_descriptors(command, &world.root);
        let text = said(&ran);
        assert_eq!(
            ran.status, "exit status 0",
            "{command} with {needed}: {text}"
        );
    }
    let same = Command::new("diff")
        .args(["-r", "--no-dereference", "s/a", "new/a"])
        .current_dir(&world.root)
        .status();
    assert!(same.is_ok_and(|status| status.success()));
    Ok(())
}

/// Three more inherited descriptors raise the number by three.
fn left_open() -> Result<(), Skip> {
    let world = world("file s/f; dir d")?;
    let (usual, _) = run_with_enough_descriptors("-a s d", &world.root);
    let open = "exec 5</dev/null 6</dev/null 7</dev/null";
    let ran = after(
        &format!("{open}; ulimit -n {usual}"),
        "-a s new",
        &world.root,
    );
    assert_eq!(ran.status, "exit status 1");
    let wanted = said(&ran)
        .split("(ulimit -n ")
        .nth(1)
        .map(str::len)
        .is_some();
    assert!(wanted, "{}", said(&ran));
    assert!(!world.root.join("new").exists());
    Ok(())
}

/// Finds the smallest address space, in kilobytes and multiples of a step, with which a command
/// succeeds.
fn least_memory(command: &str, root: &Path) -> u64 {
    const STEP: u64 = 1 << 10;
    let does = |kilobytes: u64| {
        let ran = after(
            &format!("ulimit -v {kilobytes}"),
            &format!("{command} new"),
            root,
        );
        let _ = fs::remove_dir_all(root.join("new"));
        ran.status == "exit status 0"
    };
    let (mut little, mut enough) = (STEP, 512 * STEP);
    assert!(does(enough), "{command} does not do with {enough} KiB");
    while enough - little > STEP {
        let between = u64::midpoint(little, enough);
        if does(between) {
            enough = between
        } else {
            little = between
        }
    }
    enough
}

/// Like `link-heap.sh` in GNU's tests: many links need little more memory than one file.
fn links_in_little_memory(options: &str, expected: u64) -> Result<(), Skip> {
    // Its limit on memory would be that of an emulator.
    Skip::unless_there("native")?;
    const FILES: usize = 4000;
    /// GNU's test allows 4,000 KiB more, for a cp without buffers and workers.
    const MORE: u64 = 8 << 10;
    let world = world(&format!("file one/f; many t/a/a {FILES}"))?;
    for copy in ["b", "c", "d"] {
        let (from, to) = (world.root.join("t/a/a"), world.root.join("t").join(copy));
        fs::create_dir(&to).expect("a directory");
        for name in names(&from) {
            fs::hard_link(from.join(&name), to.join(&name)).expect("a link");
        }
    }
    let little = least_memory(&format!("{options} one"), &world.root);
    let ran = after(
        &format!("ulimit -v {}", little + MORE),
        &format!("{options} t new"),
        &world.root,
    );
    assert_eq!(
        ran.status,
        "exit status 0",
        "{options} with {little} and {MORE} KiB: {}",
        said(&ran)
    );
    let links = fs::metadata(world.root.join("new/d/00001"))
        .expect("copied")
        .nlink();
    assert_eq!(links, expected, "{options}");
    Ok(())
}

/// For every limit on memory, the copy succeeds, or prints a message and exits with status 1.
fn exhausted(options: &str) -> Result<(), Skip> {
    // Its limit on memory would be that of an emulator.
    Skip::unless_there("native")?;
    const FILES: usize = 1000;
    let world = world(&format!("many s/a {FILES}; many s/b {FILES}; file one/f"))?;
    let least = least_memory("-a one", &world.root);
    let mut statuses = Vec::new();
    for less in (0..=2048).step_by(256) {
        let limit = least + 1024 - less;
        let loaded = after(&format!("ulimit -v {limit}"), "--version", &world.root);
        if loaded.status != "exit status 0" {
            // Below this limit the program does not reach `main`.
            continue;
        }
        let ran = after(
            &format!("ulimit -v {limit}"),
            &format!("{options} s new"),
            &world.root,
        );
        let text = said(&ran);
        let is_said = match ran.status.as_str() {
            "exit status 0" => text.is_empty(),
            "exit status 1" => text.starts_with("cp: "),
            // The C library and Rust's runtime print this message if a thread cannot be
            // created.
            "signal 6" => text.contains("memory"),
            _ => false,
        };
        assert!(
            is_said,
            "{options} with {limit} KiB: {}: {text}",
            ran.status
        );
        incomplete_files_are_named(&world.root, &text, &format!("{options} with {limit} KiB"));
        statuses.push((ran.status, text));
        let _ = fs::remove_dir_all(world.root.join("new"));
    }
    let said =
        |(status, text): &(String, String)| status == "exit status 1" && text.contains("memory");
    assert!(
        statuses.iter().any(said),
        "memory was enough everywhere: {statuses:?}"
    );
    Ok(())
}

/// As with GNU cp, which starts no thread.
fn no_threads() -> Result<(), Skip> {
    let world =
        world("many s/a 60; file s/b/f 3000000; holes s/h 3M 1M+64K; link s/l a; hard s/i s/b/f")?;
    for (number, options) in THREADS.iter().enumerate() {
        let command = format!("-a {options} s d{number}");
        let mut ours = run::command(&case("", "", command.as_str()), Side::Ours, &world.root);
        let calls = [libc::SYS_clone, libc::SYS_clone3];
        forbid::restrict(&mut ours, &Forbid::new(&calls, libc::EAGAIN));
        let ran = run::finish(run::start(&mut ours, b""), run::LIMIT);
        is_copied(&world, &command, &ran, &format!("d{number}"));
    }
    Ok(())
}

/// The options with which a copy uses threads.
const THREADS: [&str; 9] = [
    "",
    "--jobs=4",
    "--backend=threads",
    "--backend=hybrid --backend-writes",
    "--backend=threads --queue=4 --buffer=16K --method=read-write",
    "--backend=posix-aio --backend-writes",
    "--backend=linux-aio --backend-writes",
    "--verify --manifest=/dev/null --backend=threads",
    "--resume --fsync --backend=threads",
];

fn is_copied(world: &World, command: &str, ran: &Ran, copy: &str) {
    assert_eq!(
        (&*ran.status, &*said(ran)),
        ("exit status 0", ""),
        "{command}"
    );
    let same = Command::new("diff")
        .args(["-r", "--no-dereference", "s", copy])
        .current_dir(&world.root)
        .status();
    assert!(same.is_ok_and(|status| status.success()), "{command}");
}

/// Some threads start, and then no more.
fn few_threads() -> Result<(), Skip> {
    let world = world("many s/a 60; file s/b/f 300000; link s/l a; hard s/i s/b/f")?;
    for (number, first) in (2..6).enumerate() {
        for (other, options) in ["", "--backend=threads", "--backend=hybrid --backend-writes"]
            .iter()
            .enumerate()
        {
            let copy = format!("d{number}-{other}");
            let command = format!("-a {options} s {copy}");
            let faults =
                ["clone", "clone3"].map(|call| format!("{call}:error=EAGAIN:when={first}+"));
            let faults = faults.each_ref().map(String::as_str);
            let ran = crate::traced::failing(&faults, &command, &world.root)?;
            is_copied(&world, &command, &ran, &copy);
        }
    }
    Ok(())
}

/// A file that is not whole under its name must be in a message.
fn incomplete_files_are_named(root: &Path, said: &str, what: &str) {
    for directory in ["a", "b"] {
        for name in names(&root.join("new").join(directory)) {
            let path = Path::new(directory).join(&name);
            let read = |tree: &str| fs::read(root.join(tree).join(&path)).ok();
            let is_whole = name.starts_with(".laio-cp-") || read("new") == read("s");
            assert!(
                is_whole || said.contains(&name),
                "{what}: {path:?} is incomplete: {said}"
            );
        }
    }
}

fn occupied(path: &Path) -> u64 {
    fs::metadata(path).expect("there").blocks() * 512
}

/// If the copy occupies more space than its data, holes were filled.
const TOLERANCE: u64 = 1 << 20;

fn holes_stay() -> Result<(), Skip> {
    let world = world(
        "holes s/f 3000M 1M+64K 2000M+1M; holes s/end 100M 0+64K; holes s/begin 100M 104792064+65536",
    )?;
    for options in [
        "",
        "--sparse=auto",
        "--method=read-write",
        "--method=copy-file-range",
        "--atomic",
        "--resume",
        "--verify",
    ] {
        let command = format!("-a --fallocate {options} s d");
        let ran = run::run(&case("", "", command.as_str()), Side::Ours, &world.root);
        assert_eq!(ran.status, "exit status 0", "{command}: {}", said(&ran));
        for name in ["f", "end", "begin"] {
            let (from, to) = (
                world.root.join("s").join(name),
                world.root.join("d").join(name),
            );
            let (wanted, taken) = (occupied(&from), occupied(&to));
            assert!(
                taken <= wanted + TOLERANCE,
                "{command}: {name} takes {taken} bytes, not {wanted}"
            );
            assert_eq!(
                fs::metadata(&to).expect("there").len(),
                fs::metadata(&from).expect("there").len()
            );
        }
        let part = |directory: &str| {
            let file = fs::File::open(world.root.join(directory).join("f")).expect("there");
            let mut part = vec![0; 2 << 20];
            file.read_exact_at(&mut part, 2000 << 20).expect("read");
            part
        };
        assert!(part("s") == part("d"), "{command}");
        fs::remove_dir_all(world.root.join("d")).expect("removed");
    }
    Ok(())
}

/// A file of one terabyte, which does not fit on any disk.
fn almost_all_hole() -> Result<(), Skip> {
    let world = world("file f =begin")?;
    let file = fs::File::options()
        .write(true)
        .open(world.root.join("f"))
        .expect("made");
    if let Err(error) = file.set_len(1 << 40) {
        return Err(Skip::because(
            "large-files",
            format!("this file system has no files of a terabyte: {error}"),
        ));
    }
    let ran = run::run(&case("", "", "--fallocate f g"), Side::Ours, &world.root);
    assert_eq!(ran.status, "exit status 0", "{}", said(&ran));
    assert!(occupied(&world.root.join("g")) <= TOLERANCE);
    Ok(())
}

fn space_is_reserved() -> Result<(), Skip> {
    let world = world("file whole 1M; holes sparse 10M 1M+1M 5M+1M")?;
    for (name, expected) in [("whole", 1), ("sparse", 2)] {
        let command = format!("--fallocate {name} copy-of-{name}");
        let (calls, status) = crate::traced::calls("fallocate", &command, &world.root)?;
        assert_eq!(status, 0);
        let made: Vec<_> = calls
            .iter()
            .filter(|call| call.starts_with("fallocate("))
            .collect();
        assert_eq!(made.len(), expected, "{made:?}");
        assert!(
            made.iter().all(|call| call.contains("1048576) = 0")),
            "{made:?}"
        );
    }
    Ok(())
}

/// GNU's cp stops here; `laio cp` continues with the other files and prints no other message.
fn into_itself() -> Result<(), Skip> {
    crate::programs::gnu()?;
    for command in [
        "-R . d",
        "-R ./ d",
        "-a . d/new",
        "-R a a/b",
        "-R a/. a/b",
        "-R a e a/b",
        "-R a e a/b a/b",
        "-RL . d",
        "-R . a/b/c",
        "-R a a/b/c",
        "-RH . d",
        "-R a a",
        "-R a a a/b",
    ] {
        let lines = |side: Side| {
            let world = World::make(
                &fresh(side),
                "dir a/b/c d e; dir x/y; dir z; file a/f",
                false,
            )?;
            let ran = run::run(&case("", "", command), side, &world.root);
            let mut lines: Vec<_> = said(&ran).lines().map(str::to_owned).collect();
            lines.sort();
            Ok((ran.status, lines))
        };
        assert_eq!(lines(Side::Ours)?, lines(Side::Gnu)?, "cp {command}");
    }
    Ok(())
}

/// The messages of GNU's cp 9.5.
fn debug_messages() -> Result<(), Skip> {
    let world =
        world("file plain 300000; holes holes 3M 1M+64K; zeros zeros 300000; file none =; dir m")?;
    #[rustfmt::skip]
    let cases = [
        ("plain m", "", "unsupported", "no"),
        ("none m", "", "unsupported", "no"),
        ("holes m", "", "unsupported", "SEEK_HOLE"),
        ("zeros m", "", "unsupported", "no"),
        ("--sparse=always plain m", "avoided", "", "zeros"),
        ("--sparse=always zeros m", "avoided", "", "zeros"),
        ("--sparse=always holes m", "avoided", "", "SEEK_HOLE + zeros"),
        ("--sparse=never plain m", "avoided", "no", "no"),
        ("--reflink=never plain m", "avoided", "no", "no"),
        ("--reflink=never holes m", "avoided", "no", "SEEK_HOLE"),
        ("--reflink=never --sparse=always holes m", "avoided", "no", "SEEK_HOLE + zeros"),
        ("--method=read-write plain m", "avoided", "", "no"),
    ];
    for (command, offload, reflink, sparse) in cases {
        let ran = run::run(
            &case("", "", format!("--debug {command}")),
            Side::Ours,
            &world.root,
        );
        assert_eq!(ran.status, "exit status 0", "{command}: {}", said(&ran));
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let line = text.lines().find(|line| line.starts_with("copy offload: "));
        let line = line.unwrap_or_else(|| panic!("{command}: {text}"));
        for (what, expected) in [
            ("copy offload: ", offload),
            (", reflink: ", reflink),
            (", sparse detection: ", sparse),
        ] {
            let rest = line.split(what).nth(1).expect("all three are there");
            let word = rest.split(',').next().expect("a word");
            let known = [
                "unknown",
                "no",
                "yes",
                "avoided",
                "unsupported",
                "zeros",
                "SEEK_HOLE",
                "SEEK_HOLE + zeros",
            ];
            assert!(known.contains(&word), "{command}: {line}");
            assert!(
                expected.is_empty() || word == expected,
                "{command}: {what}{expected} is wanted, not: {line}"
            );
        }
    }
    Ok(())
}
