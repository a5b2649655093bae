//! Plans that are damaged, have another version, or are used wrongly.

use std::fs;
use std::os::unix::fs::symlink;

use laio_testing::Skip;
use laio_testing::fault_fs::{Fault, Kind};
use libtest_mimic::Trial;

use super::{LIMIT, command, names, run_failing, run_ours, run_successfully, same, world};
use crate::failures::{FaultyFixture, trial};
use crate::programs::Side;
use crate::run;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("distributed::plans::damaged files are refused", damaged),
        trial("distributed::plans::other versions are refused", versions),
        trial("distributed::plans::a part of another plan", mixed),
        trial("distributed::plans::rejected options", refused),
        trial("distributed::plans::the number of a Slurm array", slurm),
        trial(
            "distributed::plans::a directory replaced by a link",
            replaced,
        ),
        trial("distributed::plans::a plan inside the source", inside),
        trial(
            "distributed::plans::a large file whose first name fails",
            || first_name_fails(Kind::Create),
        ),
        trial(
            "distributed::plans::a large file whose first name gets no size",
            || first_name_fails(Kind::Setattr),
        ),
    ]
}

fn damaged() -> Result<(), Skip> {
    let world = world("file s/a; file s/b; hard s/t/c s/a")?;
    run_successfully(&world, "--plan P -a s d");
    for (name, stage) in [
        ("plan.json", "--work P"),
        ("parts/00000", "--work P"),
        ("last", "--finish P"),
    ] {
        let path = world.root.join("P").join(name);
        let good = fs::read(&path).expect("a file of the plan");
        let mut bad = vec![Vec::new(), good[..good.len() / 2].to_vec(), vec![0; 100]];
        bad.push(good[..good.len() - 2].to_vec());
        if name != "plan.json" {
            // Flip any bit.
            bad.extend((0..good.len()).map(|at| {
                let mut flipped = good.clone();
                flipped[at] ^= 1 << (at % 8);
                flipped
            }));
            bad.push([good.as_slice(), b"more"].concat());
        }
        if name == "last" {
            run_successfully(&world, "--work P");
        }
        // Each check starts a process; most damage is found by the same code.
        let step = bad.len().div_ceil(40);
        for bytes in bad.into_iter().step_by(step) {
            fs::write(&path, &bytes).expect("a file of ours");
            run_failing(&world, stage, &[name, "P/"]);
        }
        fs::write(&path, good).expect("a file of ours");
    }
    fs::write(world.root.join("P/done/00000"), "{").expect("a file of ours");
    run_failing(&world, "--finish P", &["done/00000", "damaged"]);
    fs::remove_file(world.root.join("P/done/00000")).expect("a file of ours");
    run_successfully(&world, "--work P");
    run_successfully(&world, "--finish P");
    same(&world, "s", "d");
    Ok(())
}

fn versions() -> Result<(), Skip> {
    let world = world("file s/a")?;
    run_successfully(&world, "--plan P -a s d");
    let path = world.root.join("P/plan.json");
    let text = fs::read_to_string(&path).expect("a file of the plan");
    let later = text.replacen("\"version\": 1", "\"version\": 2", 1);
    fs::write(&path, later.replacen('{', "{\"news\": true,", 1)).expect("ours");
    for stage in ["--work P", "--finish P"] {
        run_failing(&world, stage, &["plan.json", "has version 2"]);
    }
    // An unknown option must not be ignored.
    fs::write(&path, text.replacen("\"verbose\"", "\"verbatim\"", 1)).expect("ours");
    run_failing(&world, "--work P", &["plan.json", "verbatim"]);
    fs::write(&path, text).expect("ours");
    let part = world.root.join("P/parts/00000");
    let bytes = fs::read(&part).expect("a file of the plan");
    let at = bytes.iter().position(|byte| *byte == 0).expect("fields");
    let later = [&bytes[..at + 1], b"9", &bytes[at + 2..]].concat();
    fs::write(part, later).expect("ours");
    run_failing(&world, "--work P", &["parts/00000", "has version 9"]);
    Ok(())
}

fn mixed() -> Result<(), Skip> {
    let world = world("file s/a")?;
    run_successfully(&world, "--plan P -a s d");
    run_successfully(&world, "--plan Q -a s e");
    fs::copy(
        world.root.join("Q/parts/00000"),
        world.root.join("P/parts/00000"),
    )
    .expect("ours");
    run_failing(&world, "--work P", &["parts/00000", "another plan"]);
    // A directory holds one plan only.
    run_failing(&world, "--plan P -a s d", &["the directory is not empty"]);
    fs::remove_file(world.root.join("Q/plan.json")).expect("ours");
    run_failing(&world, "--work Q", &["no complete plan", "plan.json"]);
    run_failing(&world, "--finish Q", &["no complete plan", "plan.json"]);
    Ok(())
}

fn refused() -> Result<(), Skip> {
    let world = world("file s/a; file x/a; dir d")?;
    for option in [
        "-b",
        "-i",
        "-l",
        "-s",
        "--update=none-fail",
        "--attributes-only",
        "--dry-run",
    ] {
        let text = "cannot be combined with --plan";
        run_failing(&world, &format!("--plan P {option} -r s d"), &[text]);
    }
    run_failing(&world, "--plan P s/a x/a d", &["same destination"]);
    run_failing(&world, "--plan P -r s", &["missing destination"]);
    assert!(!world.root.join("P").exists(), "nothing is left of it");
    run_successfully(&world, "--plan P -r s d");
    run_failing(&world, "--work P -a", &["-a can be given to --plan only"]);
    run_failing(
        &world,
        "--work P s",
        &["the list of files can be given to --plan only"],
    );
    run_failing(
        &world,
        "--finish P --sparse=never",
        &["--sparse can be given to --plan only"],
    );
    run_failing(
        &world,
        "--work P --part 1",
        &["there is no part 1: the parts are 0 to 0"],
    );
    run_failing(&world, "--work missing", &["no complete plan in 'missing'"]);
    for wrong in [
        "--part 1 s d",
        "--take s d",
        "--work P --part 1 --take",
        "--plan P --work P",
        "--max-files 0 --plan Q s d",
    ] {
        let ran = run_ours(&world, wrong);
        assert_ne!(ran.status, super::WELL, "{wrong}");
    }
    Ok(())
}

fn slurm() -> Result<(), Skip> {
    let world = world("file s/a; file s/b; file s/c")?;
    run_successfully(&world, "--plan P --max-files 1 -a s d");
    for (number, status) in [
        ("2", super::WELL),
        ("x", "exit status 1"),
        ("3", "exit status 1"),
    ] {
        let mut command = command(&world, "--work P");
        command.env("SLURM_ARRAY_TASK_ID", number);
        let ran = run::finish(run::start(&mut command, b""), LIMIT);
        assert_eq!(ran.status, status, "{number}: {ran:?}");
        assert_eq!(names(&world.root.join("P/done")), ["00002"]);
    }
    Ok(())
}

fn replaced() -> Result<(), Skip> {
    let world = world("file s/t/u/a; file other/keep; dir other/u")?;
    run_successfully(&world, "--plan P -a s d");
    fs::rename(world.root.join("d/t"), world.root.join("was")).expect("ours");
    symlink("../other", world.root.join("d/t")).expect("ours");
    run_failing(&world, "--work P --patience 0", &["d/t"]);
    run_failing(&world, "--finish P --patience 0", &["d/t"]);
    assert_eq!(names(&world.root.join("other")), ["keep", "u"]);
    assert_eq!(names(&world.root.join("other/u")), [""; 0]);
    Ok(())
}

fn inside() -> Result<(), Skip> {
    let world = world("file s/a; file s/t/b; dir s/t/P")?;
    run_failing(
        &world,
        "--plan s/t/P -a s d",
        &["it is the directory of the plan"],
    );
    run_successfully(&world, "--work s/t/P");
    run_failing(
        &world,
        "--finish s/t/P",
        &["it is the directory of the plan"],
    );
    assert_eq!(names(&world.root.join("d/t")), ["b"]);
    Ok(())
}

/// If the temporary file of the first name cannot be created, another name of the file becomes the
/// first: no name is linked to what exists under the first one.
fn first_name_fails(kind: Kind) -> Result<(), Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "file s/t/f 300000; hard s/u/f s/t/f")?;
    for directory in ["d", "d/s", "d/s/t", "d/s/u"] {
        fixture.fs.add_dir(directory);
    }
    for name in ["d/s/t/f", "d/s/u/f"] {
        fixture.fs.add_file(name, b"old");
    }
    fixture.fs.next(kind, Fault::Fail(libc::EIO));
    for stage in [
        "--plan P --max-bytes 64K -r --preserve=links s FS/d",
        "--work P",
        "--finish P",
    ] {
        let ran = run::finish(fixture.start(stage), LIMIT);
        let fails = stage != "--work P";
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status, format!("exit status {}", u8::from(fails)));
        assert_eq!(said.lines().count(), usize::from(fails), "{said}");
    }
    let source = fs::read(fixture.at("s/t/f")).expect("a file of ours");
    let read = |name| fs::read(fixture.fs.join(name)).expect("it was there");
    let mut copied = [read("d/s/t/f"), read("d/s/u/f")];
    copied.sort_by_key(Vec::len);
    assert!(copied == [b"old".to_vec(), source]);
    for directory in ["d/s/t", "d/s/u"] {
        assert_eq!(names(&fixture.fs.join(directory)), ["f"]);
    }
    Ok(())
}
