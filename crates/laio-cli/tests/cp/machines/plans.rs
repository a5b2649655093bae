//! Plans that are damaged, of other versions, or misunderstood.

use std::fs;
use std::os::unix::fs::symlink;

use laio_testing::Skip;
use libtest_mimic::Trial;

use super::{badly, command, names, ours, same, well, world};
use crate::run;
use crate::trouble::trial;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("machines::plans::damaged files are refused", damaged),
        trial("machines::plans::other versions are refused", versions),
        trial("machines::plans::of another plan", mixed),
        trial("machines::plans::what is refused", refused),
        trial("machines::plans::the number of a Slurm array", slurm),
        trial("machines::plans::a directory that became a link", replaced),
        trial("machines::plans::a plan inside the source", inside),
    ]
}

fn damaged() -> Result<(), Skip> {
    let world = world("file s/a; file s/b; hard s/t/c s/a")?;
    well(&world, "--plan P -a s d");
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
            // Any bit of it.
            bad.extend((0..good.len()).map(|at| {
                let mut flipped = good.clone();
                flipped[at] ^= 1 << (at % 8);
                flipped
            }));
            bad.push([good.as_slice(), b"more"].concat());
        }
        if name == "last" {
            well(&world, "--work P");
        }
        // Each of them takes a process: most of the damage is seen by the same look.
        let step = bad.len().div_ceil(40);
        for bytes in bad.into_iter().step_by(step) {
            fs::write(&path, &bytes).expect("a file of ours");
            badly(&world, stage, &[name, "P/"]);
        }
        fs::write(&path, good).expect("a file of ours");
    }
    fs::write(world.root.join("P/done/00000"), "{").expect("a file of ours");
    badly(&world, "--finish P", &["done/00000", "damaged"]);
    fs::remove_file(world.root.join("P/done/00000")).expect("a file of ours");
    well(&world, "--work P");
    well(&world, "--finish P");
    same(&world, "s", "d");
    Ok(())
}

fn versions() -> Result<(), Skip> {
    let world = world("file s/a")?;
    well(&world, "--plan P -a s d");
    let path = world.root.join("P/plan.json");
    let text = fs::read_to_string(&path).expect("a file of the plan");
    let later = text.replacen("\"version\": 1", "\"version\": 2", 1);
    fs::write(&path, later.replacen('{', "{\"news\": true,", 1)).expect("ours");
    for stage in ["--work P", "--finish P"] {
        badly(&world, stage, &["plan.json", "has version 2"]);
    }
    // An option that this program does not know must not be left out.
    fs::write(&path, text.replacen("\"verbose\"", "\"verbatim\"", 1)).expect("ours");
    badly(&world, "--work P", &["plan.json", "verbatim"]);
    fs::write(&path, text).expect("ours");
    let part = world.root.join("P/parts/00000");
    let bytes = fs::read(&part).expect("a file of the plan");
    let at = bytes.iter().position(|byte| *byte == 0).expect("fields");
    let later = [&bytes[..at + 1], b"9", &bytes[at + 2..]].concat();
    fs::write(part, later).expect("ours");
    badly(&world, "--work P", &["parts/00000", "has version 9"]);
    Ok(())
}

fn mixed() -> Result<(), Skip> {
    let world = world("file s/a")?;
    well(&world, "--plan P -a s d");
    well(&world, "--plan Q -a s e");
    fs::copy(
        world.root.join("Q/parts/00000"),
        world.root.join("P/parts/00000"),
    )
    .expect("ours");
    badly(&world, "--work P", &["parts/00000", "another plan"]);
    // And there is one plan in a directory.
    badly(&world, "--plan P -a s d", &["the directory is not empty"]);
    fs::remove_file(world.root.join("Q/plan.json")).expect("ours");
    badly(&world, "--work Q", &["no complete plan", "plan.json"]);
    badly(&world, "--finish Q", &["no complete plan", "plan.json"]);
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
        badly(&world, &format!("--plan P {option} -r s d"), &[text]);
    }
    badly(&world, "--plan P s/a x/a d", &["same destination"]);
    badly(&world, "--plan P -r s", &["missing destination"]);
    assert!(!world.root.join("P").exists(), "nothing is left of it");
    well(&world, "--plan P -r s d");
    badly(&world, "--work P -a", &["-a can be given to --plan only"]);
    badly(
        &world,
        "--work P s",
        &["the list of files can be given to --plan only"],
    );
    badly(
        &world,
        "--finish P --sparse=never",
        &["--sparse can be given to --plan only"],
    );
    badly(
        &world,
        "--work P --part 1",
        &["there is no part 1: the parts are 0 to 0"],
    );
    badly(&world, "--work missing", &["no complete plan in 'missing'"]);
    for wrong in [
        "--part 1 s d",
        "--take s d",
        "--work P --part 1 --take",
        "--plan P --work P",
        "--max-files 0 --plan Q s d",
    ] {
        let ran = ours(&world, wrong);
        assert_ne!(ran.status, super::WELL, "{wrong}");
    }
    Ok(())
}

fn slurm() -> Result<(), Skip> {
    let world = world("file s/a; file s/b; file s/c")?;
    well(&world, "--plan P --max-files 1 -a s d");
    for (number, status) in [
        ("2", super::WELL),
        ("x", "exit status 1"),
        ("3", "exit status 1"),
    ] {
        let mut command = command(&world, "--work P");
        command.env("SLURM_ARRAY_TASK_ID", number);
        let ran = run::finish(run::start(&mut command, b""), super::LIMIT);
        assert_eq!(ran.status, status, "{number}: {ran:?}");
        assert_eq!(names(&world.root.join("P/done")), ["00002"]);
    }
    Ok(())
}

fn replaced() -> Result<(), Skip> {
    let world = world("file s/t/u/a; file other/keep; dir other/u")?;
    well(&world, "--plan P -a s d");
    fs::rename(world.root.join("d/t"), world.root.join("was")).expect("ours");
    symlink("../other", world.root.join("d/t")).expect("ours");
    badly(&world, "--work P --patience 0", &["d/t"]);
    badly(&world, "--finish P --patience 0", &["d/t"]);
    assert_eq!(names(&world.root.join("other")), ["keep", "u"]);
    assert_eq!(names(&world.root.join("other/u")), [""; 0]);
    Ok(())
}

fn inside() -> Result<(), Skip> {
    let world = world("file s/a; file s/t/b; dir s/t/P")?;
    badly(
        &world,
        "--plan s/t/P -a s d",
        &["it is the directory of the plan"],
    );
    well(&world, "--work s/t/P");
    badly(
        &world,
        "--finish s/t/P",
        &["it is the directory of the plan"],
    );
    assert_eq!(names(&world.root.join("d/t")), ["b"]);
    Ok(())
}
