//! A new file is accessible by its owner only until data, owner, ACL and other attributes are
//! complete; except a regular file of which none is set, which has its final mode from the start. The group bits of a source with an ACL are the ACL's mask, which may allow more than
//! the ACL grants the group.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use laio_testing::Skip;
use libtest_mimic::Trial;

use crate::case::{Case, case, named};
use crate::compare::fresh;
use crate::failures::trial;
use crate::programs::Side;
use crate::run;
use crate::traced;
use crate::world::World;

/// Every type of file, with permissions for group and others, and a file whose ACL denies its group
/// what its mode seems to allow.
const WORLD: &str = "file s/open 300000; mode 666 s/open; file s/masked; acl s/masked u::rw,u:1000:rw,g::,m::rw,o::; \
    file s/given; own 1000:1000 s/given; mode 664 s/given; file s/none =; holes s/holes 3M 1M+64K; hard s/h s/open; link s/l open; \
    fifo s/p; mode 666 s/p; char s/n 1 3; mode 666 s/n; dir s/t; mode 777 s/t; file s/t/f; xattr s/given user.one 1; \
    file e/open =old; file e/masked =old; link e/l old";

/// Options that create files in different ways. `D` is a directory that does not exist, `E` one
/// that contains some of the files.
const WAYS: [&str; 27] = [
    "-r s D",
    "-a s D",
    "-rp s D",
    "-r --preserve=mode s D",
    "-r --preserve=ownership s D",
    "-r --preserve=xattr,timestamps s D",
    "-r --no-preserve=mode s D",
    "-a --no-preserve=mode s D",
    "-r --atomic s D",
    "-a --atomic --fsync s D",
    "-aT --atomic s E",
    "-rT --force --remove-destination s E",
    "-aT --backup=numbered s E",
    "-r --verify s D",
    "-a --verify --manifest=/dev/null s D",
    "-r --sparse=always s D",
    "-a --sparse=never --fallocate s D",
    "-r --reflink=auto --method=copy-file-range s D",
    "-r --method=read-write --direct s D",
    "-r --attributes-only s D",
    "-rl s D",
    "-rL --preserve=links s D",
    "-a --resume s D",
    "--resume s/open s/masked s/given e",
    "--parents -r s/t e",
    "--parents -a s/t/f s/masked e",
    "--copy-contents s/open s/masked s/given e",
];

/// The system calls that create files.
const MAKING: &str = "open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<_> = WAYS
        .iter()
        .map(|way| {
            trial_of(format!("private::files created by {way}"), move || {
                nothing_for_others(way)
            })
        })
        .collect();
    trials.push(trial("private::--plan, --work and --finish", plan));
    for way in [
        "-a",
        "-r",
        "-rp --atomic",
        "-r --preserve=ownership",
        "-a --resume",
    ] {
        trials.push(trial_of(
            format!("private::{way}, stopped after every call"),
            move || checked_after_every_call(way),
        ));
    }
    trials.push(trial(
        "private::what an atomic copy replaces",
        replaced_by_atomic_copies,
    ));
    trials.push(trial(
        "private::a file continued by --resume",
        continued_in_private,
    ));
    trials
}

fn trial_of(name: String, body: impl Fn() -> Result<(), Skip> + Send + 'static) -> Trial {
    let test = name.clone();
    Trial::ignorable_test(name, move || match body() {
        Ok(()) => Ok(libtest_mimic::Completion::Completed),
        Err(skip) => crate::compare::skipped(&test, &skip),
    })
}

/// The final modes equal those of GNU's cp, for every umask and default ACL.
pub(crate) fn cases() -> Vec<Case> {
    let tree = "file s/a; mode 666 s/a; file s/b; mode 640 s/b; file s/c; mode 4755 s/c; dir s/t; mode 2775 s/t; file s/t/d; mode 1777 s; \
        fifo s/p; mode 664 s/p; file s/m; acl s/m u::rw,u:1000:rw,g::,m::rw,o::r";
    let mut cases = Vec::new();
    for way in [
        "-r",
        "-p",
        "-a",
        "--preserve=mode",
        "--preserve=ownership",
        "--no-preserve=mode",
        "--preserve=timestamps",
        "--preserve=xattr",
    ] {
        for umask in [0, 0o002, 0o027, 0o077, 0o777] {
            let name = |what: &str| format!("{what}{way}, umask {umask:03o}");
            cases.extend([
                case(name("a tree "), tree, format!("-r {way} s d")).umask(umask),
                case(name("a file "), tree, format!("{way} s/a d")).umask(umask),
                case(name("a file with an ACL "), tree, format!("{way} s/m d")).umask(umask),
            ]);
        }
        let mut inherited = vec!["own 0:1000 x; mode 2775 x".to_owned()];
        for acl in ["u::rwx,u:1000:rwx,g::rwx,m::rwx,o::rwx", "u::rw,g::r,o::"] {
            inherited.push(format!("dacl d/s {acl}"));
            inherited.push(format!("dacl x {acl}"));
        }
        for setting in inherited {
            let world = format!(
                "file s/a; mode 660 s/a; file s/b; mode 606 s/b; dir d/s x; link d/s/a ../../x/a; \
                 link d/s/b ../../x/b; {setting}"
            );
            let name = format!("{way} through a dangling link, {setting}");
            let command = format!("POSIXLY_CORRECT=1 -r {way} s d");
            cases.push(case(name, world, command));
        }
        for (what, text) in [
            ("a narrow", "u::rw,g::r,o::"),
            ("a masked", "u::rwx,u:1000:rwx,g::rx,m::rx,o::"),
            ("a wide", "u::rwx,u:1000:rwx,g::rwx,m::rwx,o::rwx"),
        ] {
            let world = format!("{tree}; dir d; dacl d {text}");
            let name = |kind: &str| format!("{kind}{way} below {what} default ACL");
            let through = format!("{tree}; link l d/new; dir d; dacl d {text}");
            #[rustfmt::skip]
            cases.extend([
                case(name("a link "), through, format!("POSIXLY_CORRECT=1 {way} s/a l")),
                case(name("umask 077, a file "), &world, format!("{way} s/a d/new"))
                .umask(0o077),
                case(
                    name("an unwritable file "),
                    format!("{world}; mode 444 s/a"),
                    format!("{way} s/a d/new"),
                )
                .user(),
                case(name("a tree "), &world, format!("-r {way} s d")),
                case(name("files "), &world, format!("{way} s/a s/b s/m d")),
                case(name("a named file "), &world, format!("{way} s/a d/new")).user(),
            ]);
            if way != "--no-preserve=mode" {
                let command = format!("-r --parents {way} s/t d");
                cases.push(case(name("parents "), &world, command));
            }
        }
    }
    named("private", cases)
}

fn world(lines: &str) -> Result<World, Skip> {
    World::make(&fresh(Side::Ours), lines, false)
}

fn nothing_for_others(way: &str) -> Result<(), Skip> {
    let world = world(WORLD)?;
    let command = way.replace(" D", " new").replace(" E", " e");
    let made = modes_asked(&command, &world.root)?;
    let least = match way.split_once(" e") {
        Some(_) => 1,
        None if way.starts_with("-rl") => 2,
        None => 3,
    };
    assert!(made.len() >= least, "cp {command} made only {made:?}");
    Ok(())
}

fn plan() -> Result<(), Skip> {
    let world = world(WORLD)?;
    for (command, least) in [
        ("--plan plan --max-bytes 65536 -a s new", 2),
        ("--work plan", 3),
        ("--finish plan", 0),
    ] {
        let made = modes_asked(command, &world.root)?;
        let copies = made.iter().filter(|call| !call.contains("\"plan")).count();
        assert!(copies >= least, "cp {command} made only {made:?}");
    }
    Ok(())
}

/// Runs `laio cp` and returns the system calls that create files; none may ask for permissions of
/// group or others, except for the files of a plan, whose directory has mode 700.
fn modes_asked(command: &str, root: &Path) -> Result<Vec<String>, Skip> {
    let (calls, status) = traced::calls(MAKING, command, root)?;
    assert_eq!(status, 0, "cp {command}");
    let makes = |call: &String| call.contains("O_CREAT") || call.starts_with("mk");
    let made: Vec<_> = calls.into_iter().filter(makes).collect();
    for call in &made {
        if call.contains("\"plan") {
            continue;
        }
        if call.contains("O_CREAT") && sets_no_attributes(command) {
            continue;
        }
        let mode = mode_of(call).unwrap_or_else(|| panic!("cp {command}: no mode in {call}"));
        assert_eq!(mode & 0o077, 0, "cp {command}: {call}");
    }
    Ok(made)
}

/// Whether the copy sets neither modes, owners nor attributes of new files, which have their final names: then
/// `cases` shows that the kernel gives them the final mode.
fn sets_no_attributes(command: &str) -> bool {
    let setting = [
        "-a ",
        "-aT",
        "-rp",
        "preserve=mode",
        "preserve=ownership",
        "preserve=xattr",
        "--atomic",
        "--resume",
        "--plan",
        "--work",
        "--finish",
    ];
    !setting.iter().any(|option| command.contains(option))
}

/// The mode is the only octal number in the line: `S_IFIFO|0600`, `mode=0600`, or by itself.
fn mode_of(call: &str) -> Option<u32> {
    let arguments = call
        .rsplit_once(") ")
        .map_or(call, |(arguments, _)| arguments);
    let mut words = arguments.split(|letter: char| !letter.is_ascii_alphanumeric());
    let octal =
        words.rfind(|word| word.len() > 1 && word.starts_with('0') && !word.contains('x'))?;
    u32::from_str_radix(octal, 8).ok()
}

/// Stops a copy after each system call: no file may have more permissions than in the end.
fn checked_after_every_call(way: &str) -> Result<(), Skip> {
    let world = world(
        "file s/masked 20; acl s/masked u::rw,u:1000:rw,g::,m::rw,o::; dir s/t; mode 2770 s/t; fifo s/p; mode 660 s/p",
    )?;
    let target = world.root.join("d");
    let mut seen = Vec::new();
    let calls =
        format!("{MAKING},write,pwrite64,fchown,fchownat,fchmod,fsetxattr,utimensat,renameat2");
    let command = format!("{way} --jobs=1 s d");
    let status = traced::stopping(&calls, &command, &world.root, || {
        for name in ["masked", "t", "p"] {
            if let Some(state) = state(&target, name) {
                seen.push((name, state));
            }
        }
    })?;
    assert_eq!(status, 0, "cp {command}");
    for name in ["masked", "t", "p"] {
        let of_name = seen.iter().filter(|(other, _)| *other == name);
        let last = state(&target, name).expect("it has been copied");
        let mut first = None;
        for (_, state) in of_name {
            first.get_or_insert(state.0 & 0o777);
            let is_private = state.0 & 0o077 == 0;
            // With an ACL, the group bits are its mask.
            let is_complete = *state == last || (name == "masked" && state.1 == last.1);
            assert!(
                is_private || is_complete,
                "cp {command}: {name} was {state:?}, and is {last:?}"
            );
        }
        if name != "masked" || !sets_no_attributes(&command) {
            let others = first.map(|mode| mode & 0o077);
            assert_eq!(others, Some(0), "{name} was seen in private: {seen:?}");
        }
    }
    Ok(())
}

/// The mode and the ACL of a file, under its final or its temporary name.
fn state(directory: &Path, name: &str) -> Option<(u32, Option<Vec<u8>>)> {
    let path = match name {
        "masked" => fs::read_dir(directory).ok()?.find_map(|entry| {
            let entry = entry.ok()?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            is_file.then(|| entry.path())
        })?,
        _ => directory.join(name),
    };
    let mode = fs::symlink_metadata(&path).ok()?.permissions().mode() & 0o7777;
    let mut value = vec![0; 1024];
    let length = rustix::fs::lgetxattr(&path, "system.posix_acl_access", &mut value).ok();
    Some((mode, length.map(|length| value[..length].to_vec())))
}

/// An earlier run may have set the final mode already.
fn continued_in_private() -> Result<(), Skip> {
    let world = world("file s/f 3000000; mode 640 s/f; own 1000:1000 s/f; dir d/s")?;
    // Interrupted after the mode is set, before the file is renamed.
    let faults = ["renameat2:error=EIO:when=1+", "unlinkat:error=EIO:when=1+"];
    let first = traced::failing(&faults, "-a --resume s d", &world.root)?;
    assert_eq!(first.status, "exit status 1", "{first:?}");
    let target = world.root.join("d/s");
    let left = crate::failures::names(&target);
    assert_eq!(left.len(), 1, "{left:?}");
    let changing = "fchmod,fchown,write,pwrite64,copy_file_range";
    let (calls, status) = traced::calls(changing, "-a --resume -T s d/s", &world.root)?;
    assert_eq!(status, 0, "{calls:?}");
    let file = |call: &&String| !call.starts_with("write(") && !call.contains("eventfd");
    let first = calls.iter().find(file).expect("it is changed");
    assert!(
        first.starts_with("fchmod(") && mode_of(first) == Some(0o600),
        "{calls:?}"
    );
    let mode = fs::metadata(target.join("f"))
        .expect("complete")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    Ok(())
}

/// Copies that create the file under a temporary name and rename it.
const ATOMIC: [&[&str]; 7] = [
    &["--atomic -T s/f d/s/f"],
    &["--atomic s/f d/s"],
    &["-r --atomic s d"],
    &["--resume -T s/f d/s/f"],
    &["-r --resume s d"],
    &["--plan P -r s d", "--work P", "--finish P"],
    // The file is copied in regions, and `--finish` renames it.
    &["--plan P --max-bytes 64K -r s d", "--work P", "--finish P"],
];

/// The copy gets the mode and the owner of the regular file that it replaces. If it takes the name of anything else
/// (`--remove-destination`), it is a new file: a symbolic link has mode 777, and another user may have created it.
fn replaced_by_atomic_copies() -> Result<(), Skip> {
    let file = |mode: u32| format!("file d/s/f =old; own 1000:1001 d/s/f; mode {mode:o} d/s/f");
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let process = (user.as_raw(), group.as_raw());
    let others = [
        "link d/s/f ../../other; own 1000:1001 d/s/f",
        "link d/s/f nowhere; own 1000:1001 d/s/f",
        "fifo d/s/f; mode 666 d/s/f; own 1000:1001 d/s/f",
    ];
    let others = others.map(|there| (there.to_owned(), None, process));
    let modes = [0o600, 0o666, 0o4755];
    let files = modes.map(|mode| (file(mode), Some(mode), (1000, 1001)));
    for umask in [0o022, 0o077] {
        for (there, kept, owner) in others.iter().chain(&files) {
            let mode = kept.unwrap_or(0o664 & !umask);
            for commands in ATOMIC {
                let world = world(&format!(
                    "file s/f 300000; mode 664 s/f; file other =other; mode 640 other; dir d; {there}"
                ))?;
                for command in commands {
                    // Without it, data is written into a FIFO, and behind a link.
                    let starts = kept.is_none()
                        && !command.starts_with("--work")
                        && !command.starts_with("--finish");
                    let option = if starts { "--remove-destination " } else { "" };
                    let case = case("", "", format!("{option}{command}")).umask(umask);
                    let ran = run::run(&case, Side::Ours, &world.root);
                    let said = String::from_utf8_lossy(&ran.stderr);
                    assert_eq!((&*ran.status, &*said), ("exit status 0", ""), "{command}");
                }
                let what = format!("{commands:?} over {there}, umask {umask:03o}");
                let status = fs::symlink_metadata(world.root.join("d/s/f")).expect("a copy");
                assert!(status.is_file() && status.len() == 300_000, "{what}");
                let found = (status.mode() & 0o7777, (status.uid(), status.gid()));
                assert_eq!(found, (mode, *owner), "{what}: {:o}", found.0);
                let other = fs::read(world.root.join("other")).expect("a file");
                assert_eq!(other, b"other", "{what}");
            }
        }
    }
    Ok(())
}
