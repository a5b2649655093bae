//! Without failures the result equals that of `cp`.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use laio_testing::{Skip, temp};
use libtest_mimic::Trial;

use super::{
    LIMIT, WELL, alike, names, parts, run_ours, run_successfully, same, same_files, start, tree,
    world,
};
use crate::case::case;
use crate::failures::trial;
use crate::programs::Side;
use crate::run;

#[rustfmt::skip]
pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("distributed::success::several processes", several),
        trial("distributed::success::as cp does, with other options", others),
        trial("distributed::success::all parts twice", twice),
        trial("distributed::success::a file of 200 MB in regions", large),
        trial("distributed::success::regions of a file with holes", holes),
        trial("distributed::success::into an existing destination", existing),
        trial("distributed::success::--update of two names of a file", updated_links),
        trial("distributed::success::a list of files, and --parents", listed),
        trial("distributed::success::nothing to do", nothing),
    ]
}

fn several() -> Result<(), Skip> {
    // An emulator shows a process another start time of itself than other processes see.
    Skip::unless_there("native")?;
    let world = world(&tree())?;
    run_successfully(&world, "--plan P --max-files 7 --max-bytes 100K -a s d");
    assert!(parts(&world, "P") > 10, "{}", parts(&world, "P"));
    let workers: Vec<_> = (0..4).map(|_| start(&world, "--work P --take")).collect();
    for worker in workers {
        let ran = run::finish(worker, LIMIT);
        assert_eq!((ran.status.as_str(), ran.stderr), (WELL, Vec::new()));
    }
    assert_eq!(names(&world.root.join("P/done")).len(), parts(&world, "P"));
    assert_eq!(names(&world.root.join("P/claims")), [""; 0]);
    run_successfully(&world, "--finish P");
    same(&world, "s", "d");
    // Repeating it changes nothing.
    run_successfully(&world, "--work P");
    run_successfully(&world, "--finish P");
    same(&world, "s", "d");
    Ok(())
}

fn others() -> Result<(), Skip> {
    for options in [
        "-r",
        "-rp",
        "-a --no-preserve=mode",
        "-r --preserve=links",
        "-a --sparse=always",
        "-a --sparse=never",
        "-rL --exclude=no",
        "-a --method=read-write --backend=threads",
        "-ax --exclude=many --include=*.o",
    ] {
        let world = world(&tree())?;
        run_successfully(&world, &format!("{options} s e"));
        run_successfully(&world, &format!("--plan P --max-files 9 {options} s d"));
        run_successfully(&world, "--work P");
        run_successfully(&world, "--finish P");
        alike(&world, "e", "d");
    }
    Ok(())
}

fn twice() -> Result<(), Skip> {
    let world = world(&tree())?;
    run_successfully(&world, "--plan P --max-files 11 --max-bytes 100K -a s d");
    for _ in 0..2 {
        for part in 0..parts(&world, "P") {
            run_successfully(&world, &format!("--work P --part {part}"));
            let done = world.root.join(format!("P/done/{part:05}"));
            std::fs::remove_file(done).expect("it is done");
        }
    }
    run_successfully(&world, "--work P --take");
    run_successfully(&world, "--finish P");
    same(&world, "s", "d");
    Ok(())
}

fn large() -> Result<(), Skip> {
    let world = world("file s/f; file s/t/big; hard s/t/other s/t/big")?;
    let mut file = File::create(world.root.join("s/t/big")).expect("a file of ours");
    for seed in 0..25 {
        let piece = temp::pattern(8_000_000, seed);
        file.write_all(&piece).expect("there is space");
    }
    run_successfully(&world, "--plan P --max-bytes 32M -a s d");
    assert_eq!(parts(&world, "P"), 7);
    let workers: Vec<_> = (0..3).map(|_| start(&world, "--work P --take")).collect();
    for worker in workers {
        assert_eq!(run::finish(worker, LIMIT).status, WELL);
    }
    assert!(
        !world.root.join("d/t/big").exists(),
        "it gets its name in the end"
    );
    run_successfully(&world, "--finish P");
    same(&world, "s", "d");
    Ok(())
}

fn holes() -> Result<(), Skip> {
    let world = world("holes s/h 9M 0+64K 2M+2M 5M+100K 8M+1M; mode 600 s/h; xattr s/h user.a b")?;
    for (plan, options) in [("P", "-a"), ("Q", "-a --sparse=always")] {
        run_successfully(
            &world,
            &format!("--plan {plan} --max-bytes 1M {options} s {plan}d"),
        );
        assert_eq!(parts(&world, plan), 9);
        run_successfully(&world, &format!("--work {plan}"));
        run_successfully(&world, &format!("--finish {plan}"));
        same(&world, "s", &format!("{plan}d"));
    }
    // A changed file is not combined from two versions.
    run_successfully(&world, "--plan R --max-bytes 1M -a s Rd");
    run_successfully(&world, "--work R --part 0");
    let file = File::options().write(true).open(world.root.join("s/h"));
    file.and_then(|file| file.write_all_at(b"changed", 5 << 20))
        .expect("a file of ours");
    super::run_failing(&world, "--work R --part 5", &["has changed since"]);
    super::run_failing(&world, "--work R --part 8", &["has changed since"]);
    super::run_failing(&world, "--work R", &["has changed since"]);
    super::run_failing(&world, "--finish R", &["has changed since", "part 5"]);
    assert!(!world.root.join("Rd/h").exists());
    Ok(())
}

/// The rules for existing files apply to files that existed before the plan, not to earlier copies
/// of a part.
fn existing() -> Result<(), Skip> {
    let there = "file d/s/f =old; file d/s/t/a =old; file d/s/t/b =old; time 2000000000 d/s/t/b; link d/s/l x; \
                 file s/f; file s/t/a 200000; file s/t/b; link s/l f; hard s/t/h s/f; file s/t/c; time 1500 d/s/f";
    for options in ["-a", "-an", "-au", "-rn", "-r --remove-destination"] {
        let world = world(there)?;
        run_successfully(&world, "-aT d e");
        run_successfully(&world, &format!("{options} s e"));
        run_successfully(
            &world,
            &format!("--plan P --max-files 2 --max-bytes 64K {options} s d"),
        );
        for part in 0..parts(&world, "P") {
            run_successfully(&world, &format!("--work P --part {part}"));
            let done = world.root.join(format!("P/done/{part:05}"));
            std::fs::remove_file(done).expect("it is done");
        }
        run_successfully(&world, "--work P");
        run_successfully(&world, "--finish P");
        alike(&world, "e/s", "d/s");
    }
    Ok(())
}

/// GNU cp links a second name to the first copy even if a newer file has that name.
fn updated_links() -> Result<(), Skip> {
    crate::programs::gnu()?;
    let old = |name: &str| format!("file {name} =old; time 1000 {name}");
    let newer = |name: &str| format!("file {name} =newer; time 2000000000 {name}");
    let missing = |_: &str| String::new();
    let files: [&dyn Fn(&str) -> String; 3] = [&old, &newer, &missing];
    for (first, second) in (0..9).map(|number| (files[number / 3], files[number % 3])) {
        let in_directory = |name: &str| {
            let (first, second) = (first(&format!("{name}/f")), second(&format!("{name}/h")));
            format!("dir {name}; {first}; {second}")
        };
        let there = format!("{}; {}", in_directory("d"), in_directory("e"));
        let world = world(&format!("file s/f; hard s/h s/f; {there}"))?;
        let copy = case("", "", "-au s/f s/h e");
        assert_eq!(run::run(&copy, Side::Gnu, &world.root).status, WELL);
        run_successfully(&world, "--plan P -au s/f s/h d");
        run_successfully(&world, "--work P");
        run_successfully(&world, "--finish P");
        same_files(&world, "e", "d");
    }
    Ok(())
}

fn listed() -> Result<(), Skip> {
    let lines = r"file s/a; file s/t/b 200000; file s/t/c; dir d e; file list =a\x00t/b\x00";
    let world = world(lines)?;
    for (index, command) in [
        "-p --files-from0=list s",
        "-a --parents s/t s/a",
        "-p s/a s/t/b",
    ]
    .into_iter()
    .enumerate()
    {
        run_successfully(&world, &format!("{command} e"));
        run_successfully(
            &world,
            &format!("--plan P{index} --max-files 1 --max-bytes 64K {command} d"),
        );
        run_successfully(&world, &format!("--work P{index}"));
        run_successfully(&world, &format!("--finish P{index}"));
        alike(&world, "e", "d");
    }
    // The destination is a file in another directory, and the source is copied in regions.
    run_successfully(&world, "--plan Q --max-bytes 64K -p s/t/b d/new");
    run_successfully(&world, "--work Q");
    run_successfully(&world, "--finish Q");
    run_successfully(&world, "-p s/t/b e/new");
    alike(&world, "e", "d");
    Ok(())
}

fn nothing() -> Result<(), Skip> {
    let world = world("dir s/empty")?;
    run_successfully(&world, "--plan P -a s d");
    run_successfully(&world, "--work P");
    run_successfully(&world, "--finish P");
    same(&world, "s", "d");
    assert_eq!(
        run_ours(&world, "--work P --part 0").status,
        "exit status 1"
    );
    Ok(())
}
