//! The commands of the documentation, unchanged, for each tool that starts processes.

use std::process::Command;

use laio_testing::Skip;
use libtest_mimic::Trial;

use super::{LIMIT, WELL, parts, run_successfully, same, tree, world};
use crate::failures::trial;
use crate::run;
use crate::world::World;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("distributed::schedulers::GNU parallel", parallel),
        trial("distributed::schedulers::mpirun", mpirun),
        trial("distributed::schedulers::a loop of a shell", shell),
    ]
}

fn planned() -> Result<World, Skip> {
    let world = world(&tree())?;
    run_successfully(&world, "--plan P --max-files 5 --max-bytes 100K -a s d");
    assert!(parts(&world, "P") > 10);
    Ok(world)
}

fn finished(world: &World, script: &str) {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-e", "-c", script])
        .current_dir(&world.root)
        .env("LAIO", env!("CARGO_BIN_EXE_laio"))
        .env("HOME", &world.root);
    let ran = run::finish(run::start(&mut command, b""), LIMIT);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status, WELL, "{said}");
    run_successfully(world, "--finish P");
    same(world, "s", "d");
}

/// Whether the intended program of this name is installed.
fn is_there(program: &str, package: &str, says: &str) -> Result<(), Skip> {
    let version = Command::new(program).arg("--version").output();
    let version = version.map_err(|error| {
        Skip::because(
            program,
            format!("{program}: {error}; the package is {package}"),
        )
    })?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    if text.contains(says) {
        Ok(())
    } else {
        Err(Skip::because(
            program,
            format!("{program} is not that of {says}"),
        ))
    }
}

fn parallel() -> Result<(), Skip> {
    is_there("parallel", "parallel", "GNU parallel")?;
    let world = planned()?;
    let script = "ls P/parts | parallel --will-cite -j 3 \"$LAIO\" cp --work P --part {}";
    finished(&world, script);
    Ok(())
}

fn mpirun() -> Result<(), Skip> {
    is_there("mpirun", "openmpi-bin", "Open MPI")?;
    let world = planned()?;
    let root = if rustix::process::geteuid().is_root() {
        "--allow-run-as-root"
    } else {
        ""
    };
    let script = format!("mpirun {root} --oversubscribe -n 3 \"$LAIO\" cp --work P --take");
    finished(&world, &script);
    Ok(())
}

fn shell() -> Result<(), Skip> {
    let world = planned()?;
    let script = "for node in 1 2 3; do \"$LAIO\" cp --work P & done; wait";
    finished(&world, script);
    Ok(())
}
