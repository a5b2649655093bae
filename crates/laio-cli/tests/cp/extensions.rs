//! Options that GNU cp does not have: the result equals that of GNU cp, or of a shell script.

use std::process::Command;

use laio_testing::Skip;
use libtest_mimic::Trial;

use crate::case::{Case, case, named};
use crate::compare::fresh;
use crate::failures::trial;
use crate::programs::Side;
use crate::run;
use crate::snapshot;
use crate::world::World;

/// A tree with all types of files, and a destination that contains some of them.
pub(crate) const WORLD: &str = "file s/f 300000; file s/g; file s/none =; dir s/t/u/v; many s/many 20; \
    holes s/holes 3M 1M+64K; zeros s/zeros 200000; link s/l f; link s/no nowhere; hard s/t/h s/f; fifo s/p; \
    socket s/k; char s/n 1 3; mode 4751 s/g; mode 2750 s/t; mode 555 s/t/u; own 3:4 s/g s/l; xattr s/g user.one 1; \
    acl s/none u::rw,u:1000:rw,g::r,m::rw,o::; xattr s/t user.two 2; file d/s/g =old; file d/s/t/h =older; \
    link d/s/l elsewhere; file d/s/t/other";

pub(crate) fn cases() -> Vec<Case> {
    let rooms = [
        ("ways", ways()),
        ("dry_run", dry_runs()),
        ("filters", filters()),
        ("lists", lists()),
        ("later_gnu", later_gnu()),
    ];
    let cases = rooms
        .into_iter()
        .flat_map(|(subject, cases)| named(subject, cases));
    cases.collect()
}

#[rustfmt::skip]
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("extensions::paths longer than a path may be", too_long_paths),
        trial("extensions::messages begin with the program's name", messages_begin_with_the_program),
        trial("extensions::a newer file is not replaced by a link", newer_stays),
        trial("extensions::--resume keeps the copy of an earlier argument", resumed_with_one_destination),
    ]
}

/// Runs `laio cp` in a world; returns its exit status and the resulting tree.
fn run_ours(lines: &str, command: &str) -> Result<(run::Ran, World), Skip> {
    let world = World::make(&fresh(Side::Ours), lines, false)?;
    let ran = run::run(&case("", "", command), Side::Ours, &world.root);
    Ok((ran, world))
}

/// GNU cp links the second file to the first, whatever it contained, although hard links are not to
/// be preserved.
fn newer_stays() -> Result<(), Skip> {
    let lines = "file s/f =one; hard s/h s/f; file d/s/f =newer; file d/s/h =other; time 1000000000 s/f s/h; \
        time 2000000000 d/s/f d/s/h";
    for command in ["-Ru s d", "-Rlu s d", "-RLu s d", "-u s/f s/h d/s"] {
        let (ran, world) = run_ours(lines, command)?;
        assert_eq!(ran.status, "exit status 0", "{command}: {ran:?}");
        let text = |name: &str| std::fs::read_to_string(world.root.join(name)).expect("a file");
        assert_eq!(
            (text("d/s/f"), text("d/s/h")),
            ("newer".to_owned(), "other".to_owned()),
            "{command}"
        );
    }
    Ok(())
}

/// The first source is skipped because an earlier run has copied it, which protects its copy.
fn resumed_with_one_destination() -> Result<(), Skip> {
    let command = "--resume a/f b/f d";
    let (first, world) = run_ours("file a/f; file b/f; dir d", command)?;
    let second = run::run(&case("", "", command), Side::Ours, &world.root);
    for ran in [first, second] {
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("will not overwrite just-created"), "{said}");
        assert_eq!(ran.status, "exit status 1");
        let copy = std::fs::read(world.root.join("d/f")).expect("a copy");
        assert_eq!(copy, b"This is a/f.\n");
    }
    Ok(())
}

/// GNU cp fails.
fn too_long_paths() -> Result<(), Skip> {
    let (ran, world) = run_ours("deep s 20 250", "-a s d")?;
    assert_eq!(
        ran.status,
        "exit status 0",
        "{:?}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let tree = |name| {
        let tree = snapshot::of(&world.root.join(name), &Default::default());
        tree.into_iter()
            .map(|(name, entry)| (name, entry.line))
            .collect::<Vec<_>>()
    };
    let copy = tree("d");
    assert_eq!(copy.len(), 41);
    assert!(copy == tree("s"));
    Ok(())
}

fn messages_begin_with_the_program() -> Result<(), Skip> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command
        .args(["cp", "missing", "new"])
        .current_dir(Side::Ours.path());
    let ran = run::finish(run::start(&mut command, b""), run::LIMIT);
    assert_eq!(ran.status, "exit status 1");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(
        said,
        "laio cp: cannot stat 'missing': No such file or directory\n"
    );
    Ok(())
}

/// Every copy method has the same result.
fn ways() -> Vec<Case> {
    let mut ways = Vec::new();
    for backend in ["lazy", "uring", "hybrid", "threads", "sync"] {
        for method in ["auto", "reflink", "copy-file-range", "read-write"] {
            ways.push(format!("--backend={backend} --method={method}"));
        }
        ways.push(format!("--backend={backend} --depth=1 --jobs=1"));
        ways.push(format!(
            "--backend={backend} --depth=64 --jobs=4 --buffer=4096 --method=read-write"
        ));
    }
    let more = [
        "--buffer=1000 --method=read-write",
        "--buffer=1M --method=read-write",
        "--depth=1024",
        "--jobs=7",
        "--fallocate",
        "--fadvise",
        "--fadvise=willneed",
        "--fadvise=dontneed",
        "--direct",
        "--direct --buffer=4096 --queue=3",
        "--queue=4 --buffer=4096",
        "--backend=threads --queue=4 --buffer=4K",
        "--backend=uring --direct --buffer=8K",
        "--fsync",
        "--atomic",
        "--stats",
        "--debug",
        "--limit-rate=100M",
        "--backend-writes --backend=uring --method=read-write",
        "--atomic --fsync --jobs=3",
        "--fallocate --method=read-write",
        "--verify",
        "--verify --backend-writes --backend=uring --depth=4",
        "--verify --manifest=/dev/null --atomic --method=copy-file-range",
        "--manifest=/dev/null --sparse=always",
    ];
    ways.extend(more.map(str::to_owned));
    let mut cases = Vec::new();
    for way in ways {
        let cases_of_way = [
            case(format!("-a {way}"), WORLD, "-a s d"),
            case(format!("-r {way}"), WORLD, "-r s d"),
            case(format!("one file {way}"), "file a 300000", "a b"),
        ];
        cases.extend(cases_of_way.map(|case| {
            let case = case.added(&way).any_output();
            if way.contains("uring") {
                case.needs("io_uring")
            } else {
                case
            }
        }));
    }
    for way in [
        "--resume",
        "--resume --verify --jobs=3",
        "--resume --method=copy-file-range",
    ] {
        let with_times = "cp -r --preserve=timestamps s d";
        cases.extend([
            case(format!("-a {way}"), WORLD, "-a s d")
                .added(way)
                .any_output(),
            case(format!("-r {way}"), WORLD, format!("-r {way} s d"))
                .against(with_times)
                .any_output(),
        ]);
    }
    cases
}

/// `--dry-run` changes nothing.
fn dry_runs() -> Vec<Case> {
    let commands = [
        "-a s d",
        "-rb s d",
        "-r s new",
        "-rlP s new",
        "-rs /dev/null new",
        "-a --remove-destination s d",
        "-rf s d",
        "-a --atomic s d",
        "--parents s/t/h d",
        "-au s d",
        "-rT s d",
        "--attributes-only -a s d",
        "s/f s/g",
    ];
    let dry = |command: &str| {
        case(command, WORLD, command)
            .added("--dry-run")
            .against("true")
            .any_output()
    };
    let mut cases: Vec<Case> = commands.into_iter().map(dry).collect();
    cases.push(
        case("a rejected operand", "file a", "x d")
            .added("--dry-run")
            .against("cp x d"),
    );
    cases.push(
        case(
            "-rl of a dangling link",
            "file s/f; link s/no nowhere",
            "-rl s new",
        )
        .added("--dry-run")
        .against("echo \"cp: cannot stat 's/no': No such file or directory\" >&2; exit 1")
        .any_output(),
    );
    cases
}

fn filters() -> Vec<Case> {
    let world = "file s/a.o; file s/a.c; file s/t/b.o; file s/t/b.c; file s/t/u/c.o; file s/tmp/x; file s/v/tmp/y; link s/l.o a.o";
    let cases = [
        ("--exclude=*.o", "find d -name '*.o' -delete"),
        ("--exclude=tmp", "rm -r d/tmp d/v/tmp"),
        ("--exclude=tmp/", "rm -r d/tmp d/v/tmp"),
        ("--exclude=/tmp", "rm -r d/tmp"),
        (
            "--exclude=*.o --exclude=*.c",
            "find d -name '*.[oc]' -delete",
        ),
        (
            "--include=b.o --exclude=*.o",
            "find d -name '*.o' ! -name b.o -delete",
        ),
        ("--exclude=nothing", "true"),
    ];
    let compared = |(options, then): (&str, &str)| {
        case(options, world, "-r s d")
            .added(options)
            .against(format!("cp -r s d; {then}"))
    };
    cases.into_iter().map(compared).collect()
}

fn lists() -> Vec<Case> {
    let world = "file s/a; file s/t/b; file 's/new\\nline'; dir d; file list =a\\x00t/b\\x00";
    let all = r"file s/a; file s/t/b; dir d; file list =s/a\x00s/t/b";
    vec![
        case("below a source", world, "--files-from0=list s d")
            .against("cd s && cp --parents a t/b ../d"),
        case("from standard input", world, "--files-from0=- s d")
            .stdin("t/b\0")
            .against("cd s && cp --parents t/b ../d"),
        case("into a directory", all, "--files-from0=list -t d").against("cp s/a s/t/b d"),
        case("a missing list", all, "--files-from0=missing -t d")
            .against("false")
            .any_output(),
        case(
            "a missing name",
            "file s/a; dir d; file list =s/x\\x00s/a",
            "--files-from0=list -t d",
        )
        .against("cp s/x s/a d"),
    ]
}

/// Options that GNU cp got after version 9.1, expressed by older options.
fn later_gnu() -> Vec<Case> {
    let two = "file a; file b =old";
    let tree = "file s/a; file d/s/a =old; time 5000 s/a; file s/b";
    let same = |ours: &str, theirs: &str| {
        [
            case(ours, two, format!("{ours} a b")).against(format!("cp {theirs} a b")),
            case(format!("{ours} of a tree"), tree, format!("{ours} -r s d"))
                .against(format!("cp {theirs} -r s d")),
        ]
    };
    [
        same("--update=all", ""),
        same("--update=none", "-n"),
        same("--update=older", "-u"),
        same("--update", "-u"),
        same("-u --update=all", ""),
        same("--update=none --update=older", "-u"),
    ]
    .into_iter()
    .flatten()
    .chain([
        case("--update=none-fail", two, "--update=none-fail a b")
            .against("echo \"cp: not replacing 'b'\" >&2; exit 1"),
        case("--debug", "file a", "--debug a b")
            .against("cp -v a b")
            .any_output(),
        case(
            "--keep-directory-symlink",
            "file s/t/a; dir o; link d/t ../o",
            "-rT --keep-directory-symlink s d",
        )
        .against("cp s/t/a o"),
    ])
    .collect()
}
