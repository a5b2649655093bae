//! Shared copies: `--plan`, `--work`, `--finish`.

mod killed;
mod plans;
mod schedulers;
mod success;

use std::path::Path;
use std::process::{Command, Stdio};

use laio_testing::Skip;
use libtest_mimic::Trial;

use crate::case::case;
use crate::compare::fresh;
use crate::programs::Side;
use crate::run::{self, LIMIT, Ran};
use crate::snapshot;
use crate::world::World;

const WELL: &str = "exit status 0";

pub(crate) fn trials() -> Vec<Trial> {
    let rooms = [
        success::trials(),
        killed::trials(),
        plans::trials(),
        schedulers::trials(),
    ];
    rooms.into_iter().flatten().collect()
}

/// A tree with all types of files.
fn tree() -> String {
    let long = "n".repeat(255);
    format!(
        "file s/f 300000; file s/g; file s/none =; dir s/t/u/v; dir s/empty; many s/many 60; \
         holes s/holes 3M 1M+64K; zeros s/zeros 200000; link s/l f; link s/no nowhere; hard s/t/h s/f; \
         hard s/t/u/h2 s/f; fifo s/p; fifo s/t/p; hard s/t/u/p2 s/t/p; socket s/k; char s/n 1 3; mode 4751 s/g; \
         file 's/t/new\\nline'; file s/t/not\\xfftext; file s/t/{long}; own 3:4 s/g s/l; xattr s/g user.one 1; \
         acl s/none u::rw,u:1000:rw,g::r,m::rw,o::; xattr s/t user.two 2; mode 2750 s/t; file s/ro/x; \
         file s/ro/in/y; mode 555 s/ro/in s/ro; mode 500 s/t/u; mode 0 s/empty; time 5000 s/t/u s/ro"
    )
}

fn world(lines: &str) -> Result<World, Skip> {
    World::make(&fresh(Side::Ours), lines, false)
}

/// Starts `laio cp`.
fn start(world: &World, arguments: &str) -> std::process::Child {
    run::start(&mut command(world, arguments), b"")
}

fn command(world: &World, arguments: &str) -> Command {
    run::command(&case("", "", arguments), Side::Ours, &world.root)
}

/// Runs `laio cp` to its end.
fn run_ours(world: &World, arguments: &str) -> Ran {
    run::finish(start(world, arguments), LIMIT)
}

/// Runs `laio cp`, which must succeed without messages.
fn run_successfully(world: &World, arguments: &str) -> Ran {
    let ran = run_ours(world, arguments);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.as_str(), &*said), (WELL, ""), "{arguments}");
    ran
}

/// Runs `laio cp`, which must fail with these messages.
fn run_failing(world: &World, arguments: &str, said: &[&str]) {
    let ran = run_ours(world, arguments);
    let complaint = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status, "exit status 1", "{arguments}: {complaint}");
    for text in said {
        assert!(complaint.contains(text), "{arguments}: {text}: {complaint}");
    }
}

/// The number of parts of a plan.
fn parts(world: &World, plan: &str) -> usize {
    names(&world.root.join(plan).join("parts")).len()
}

fn names(directory: &Path) -> Vec<String> {
    crate::failures::names(directory)
}

/// Compares two trees of a world, including preserved times, by a snapshot and by rsync.
fn same(world: &World, one: &str, other: &str) {
    alike(world, one, other);
    seen_by_rsync(world, one, other, &[]);
}

/// As [`same`], without the times of directories: the copy preserves none of them, and they differ if a second
/// ends between two copies.
fn same_files(world: &World, one: &str, other: &str) {
    alike(world, one, other);
    seen_by_rsync(world, one, other, &["--omit-dir-times"]);
}

/// Compares two trees of a world without times.
fn alike(world: &World, one: &str, other: &str) {
    let tree = |name: &str| snapshot::of(&world.root.join(name), &Default::default());
    let (one_tree, other_tree) = (tree(one), tree(other));
    let named = |tree: &snapshot::Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(named(&one_tree), named(&other_tree), "the same names");
    for (name, entry) in &one_tree {
        let copy = &other_tree[name];
        let name = name.escape_ascii();
        assert_eq!(entry.line, copy.line, "{name}");
        assert_eq!(entry.data, copy.data, "{name}: bytes that are not holes");
    }
}

fn seen_by_rsync(world: &World, one: &str, other: &str, options: &[&str]) {
    let rsync = Command::new("rsync")
        .args(["-naHAXS", "--checksum", "--delete", "--itemize-changes"])
        .args(options)
        .args([format!("{one}/"), format!("{other}/")])
        .current_dir(&world.root)
        .stdin(Stdio::null())
        .output();
    match rsync {
        Ok(output) => assert_eq!(
            (
                output.status.success(),
                String::from_utf8_lossy(&output.stdout).as_ref()
            ),
            (true, ""),
            "rsync: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => println!("rsync does not compare: {error}"),
    }
}
