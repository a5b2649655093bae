//! What is done with each kind of source and of existing destination: every cell of the table in
//! `docs/safe-copies.md`, and the attributes that a replaced file leaves to its successor.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use laio_testing::Skip;
use libtest_mimic::Trial;

use crate::case::{Case, case, named};
use crate::compare::fresh;
use crate::failures::{names, trial};
use crate::programs::Side;
use crate::run::{self, Ran};
use crate::traced;
use crate::world::World;

const PAGE: &str = include_str!("../../../../docs/safe-copies.md");
/// The heading of the table.
const HEADING: &str = "| source | destination |";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![trial("kinds::the table is whole", the_table_is_whole)];
    for cell in cells() {
        let name = format!("kinds::{}", cell.name());
        trials.push(trial(&name, move || check(&cell)));
    }
    trials.push(trial(
        "kinds::a link to a link in another directory",
        links_in_a_row,
    ));
    trials.push(trial("kinds::attributes alone", attributes_alone));
    trials.push(trial("kinds::a group that cannot be kept", other_group));
    trials
}

/// A cell of the table: the options are the heading of its column.
#[derive(Clone, Debug)]
struct Cell {
    source: String,
    existing: String,
    options: String,
    expected: String,
}

impl Cell {
    fn name(&self) -> String {
        let options = match self.options.as_str() {
            "" => "no option",
            options => options,
        };
        format!("{options}, {} over {}", self.source, self.existing)
    }

    fn is_file(&self) -> bool {
        self.source == "regular file"
    }
}

/// The cells of the page: a column whose heading is `--atomic` also holds for `--resume`.
fn cells() -> Vec<Cell> {
    let lines = PAGE.lines().skip_while(|line| !line.starts_with(HEADING));
    let mut rows = lines.take_while(|line| line.starts_with('|')).map(|line| {
        let fields = line.trim_matches('|').split('|');
        fields.map(|field| field.trim().replace('`', "")).collect()
    });
    let heading: Vec<String> = rows.next().expect("the table is there");
    let mut cells = Vec::new();
    for row in rows.skip(1) {
        let row: Vec<String> = row;
        let sources = match row[0].as_str() {
            "link, FIFO, device" => vec!["link", "FIFO", "device"],
            source => vec![source],
        };
        for existing in row[1].split(", ") {
            for (options, expected) in heading.iter().zip(&row).skip(2) {
                let options = if options == "none" { "" } else { options };
                let mut ways = vec![options.to_owned()];
                if options.contains("--atomic") {
                    ways.push(options.replace("--atomic", "--resume"));
                }
                for (source, options) in sources
                    .iter()
                    .flat_map(|source| ways.iter().map(move |way| (source, way)))
                {
                    cells.push(Cell {
                        source: (*source).to_owned(),
                        existing: existing.to_owned(),
                        options: options.clone(),
                        expected: expected.clone(),
                    });
                }
            }
        }
    }
    cells
}

fn the_table_is_whole() -> Result<(), Skip> {
    let cells = cells();
    for existing in EXISTING {
        for source in ["regular file", "link", "FIFO", "device"] {
            let of_both = |cell: &&Cell| cell.existing == existing.0 && cell.source == source;
            assert!(
                cells.iter().filter(of_both).count() >= 7,
                "{source} over {}",
                existing.0
            );
        }
    }
    Ok(())
}

/// The kinds of destinations, and the lines that make `d/f`.
const EXISTING: [(&str, &str); 8] = [
    ("nothing", "dir d"),
    ("regular file", "file d/f =old"),
    ("link to a file", "file e/t =old; link d/f ../e/t"),
    ("dangling link", "link d/f nowhere"),
    ("FIFO", "fifo d/f"),
    ("device", "char d/f 1 3"),
    ("socket", "socket d/f"),
    ("directory", "dir d/f"),
];

fn world(lines: &str) -> Result<World, Skip> {
    World::make(&fresh(Side::Ours), lines, false)
}

fn ran(command: &str, root: &Path) -> Ran {
    run::run(&case("", "", command), Side::Ours, root)
}

fn said(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

fn inode(path: &Path) -> Option<(u64, u32)> {
    let status = fs::symlink_metadata(path).ok()?;
    Some((status.ino(), status.mode() & libc::S_IFMT))
}

fn check(cell: &Cell) -> Result<(), Skip> {
    let existing = EXISTING.iter().find(|(name, _)| *name == cell.existing);
    let (_, existing) = existing.expect("the test makes such a destination");
    let source = match cell.source.as_str() {
        "regular file" => "file s =new",
        "link" => "link s target",
        "FIFO" => "fifo s",
        _ => "char s 1 5",
    };
    let world = world(&format!("{source}; {existing}"))?;
    let (f, behind) = (world.root.join("d/f"), world.root.join("e/t"));
    let before = (inode(&f), inode(&behind));
    // Without a reader, the copy into a FIFO would wait for one.
    let mut reader = cell.existing.contains("FIFO").then(|| {
        let mut options = fs::File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        options
            .open(&f)
            .expect("a FIFO can be opened without a writer")
    });
    let way = if cell.is_file() { "" } else { "-a" };
    let command = format!("{} {way} -T s d/f", cell.options);
    let order = order_of_names(cell, &command, &world.root)?;
    let (status, text, removed) = match order {
        Some((status, removed)) => (status, String::new(), removed),
        None => {
            let ran = ran(&command, &world.root);
            (ran.status.clone(), said(&ran), false)
        }
    };
    let after = (inode(&f), inode(&behind));
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let is_new = |path: &Path| match cell.source.as_str() {
        "regular file" => {
            fs::symlink_metadata(path).is_ok_and(|it| it.is_file()) && read(path) == "new"
        }
        "link" => fs::read_link(path).is_ok_and(|text| text == Path::new("target")),
        "FIFO" => fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_fifo()),
        _ => fs::symlink_metadata(path).is_ok_and(|it| it.rdev() == rustix::fs::makedev(1, 5)),
    };
    let what = format!("cp {command}: {status}: {text}");
    let well = status == "exit status 0";
    match cell.expected.as_str() {
        "created" => assert!(well && before.0.is_none() && is_new(&f), "{what}"),
        "overwritten" if cell.existing == "link to a file" => {
            assert!(well && after == before && read(&behind) == "new", "{what}");
        }
        "overwritten" => assert!(well && after == before && is_new(&f), "{what}"),
        "replaced" => {
            assert!(well && after.0 != before.0 && is_new(&f), "{what}");
            assert!(
                after.1 == before.1 && !removed,
                "{what}: it was removed first"
            );
        }
        "target replaced" => {
            assert!(well && after.0 == before.0, "{what}: the link stays");
            assert!(after.1 != before.1 && is_new(&behind), "{what}");
        }
        "removed first" => assert!(well && is_new(&f) && after.1 == before.1, "{what}"),
        "written into" => {
            assert!(well && after == before, "{what}");
            if let Some(reader) = &mut reader {
                let mut text = String::new();
                reader
                    .read_to_string(&mut text)
                    .expect("the data is in the pipe");
                assert_eq!(text, "new", "{what}");
            }
        }
        "backed up" => {
            assert!(well && is_new(&f) && after.1 == before.1, "{what}");
            assert_eq!(inode(&world.root.join("d/f~")), before.0, "{what}");
        }
        "refused" => {
            assert_eq!(
                (status.as_str(), after),
                ("exit status 1", before),
                "{what}"
            );
            assert!(!behind.exists() || read(&behind) == "old", "{what}");
        }
        other => panic!("the page says {other}"),
    }
    for directory in [".", "d", "e"] {
        let left = names(&world.root.join(directory));
        assert!(
            !left.iter().any(|name| name.starts_with(".laio-cp-")),
            "{what}: {left:?}"
        );
    }
    Ok(())
}

/// Where strace can show that the existing name is never missing: the exit status, and whether the name was removed.
fn order_of_names(cell: &Cell, command: &str, root: &Path) -> Result<Option<(String, bool)>, Skip> {
    if cell.expected != "replaced" || Skip::unless_there("strace").is_err() {
        return Ok(None);
    }
    let (calls, status) = traced::calls("unlink,unlinkat", command, root)?;
    let is_name = |call: &String| call.contains("d/f\"") || call.contains("\"f\"");
    let removed = calls
        .iter()
        .filter(|call| is_name(call))
        .any(|call| call.ends_with("= 0"));
    Ok(Some((format!("exit status {status}"), removed)))
}

/// The file behind several links is replaced where it is.
fn links_in_a_row() -> Result<(), Skip> {
    for options in [
        "--atomic",
        "--resume",
        "--atomic --verify --fsync",
        "-r --atomic",
    ] {
        let world = world(
            "file s/f =new; dir d; file far/away/t =old; link far/l away/t; link d/f ../far/l; mode 640 far/away/t",
        )?;
        let command = format!("{options} s/f d");
        let ran = ran(&command, &world.root);
        assert_eq!(ran.status, "exit status 0", "{command}: {}", said(&ran));
        let text = fs::read_to_string(world.root.join("far/away/t")).expect("there");
        assert_eq!(text, "new", "{command}");
        let status = fs::metadata(world.root.join("far/away/t")).expect("there");
        assert_eq!(status.mode() & 0o777, 0o640, "{command}");
        assert_eq!(names(&world.root.join("far/away")), ["t"], "{command}");
        assert!(world.root.join("d/f").is_symlink(), "{command}");
        // A second run finds the file complete.
        if options == "--resume" {
            let again = run::run(
                &case("", "", "--resume --stats s/f d"),
                Side::Ours,
                &world.root,
            );
            assert!(
                said(&again).contains("  whole       1\n"),
                "{}",
                said(&again)
            );
        }
    }
    Ok(())
}

/// There is no data to be complete: the contents of the existing file stay.
fn attributes_alone() -> Result<(), Skip> {
    for options in ["", "--atomic", "--resume"] {
        let world = world("file f =new; mode 640 f; file g =old")?;
        let command = format!("-p --attributes-only {options} f g");
        let ran = ran(&command, &world.root);
        assert_eq!(ran.status, "exit status 0", "{command}: {}", said(&ran));
        let text = fs::read_to_string(world.root.join("g")).expect("there");
        assert_eq!(text, "old", "{command}");
    }
    Ok(())
}

/// An ordinary user replaces a file of a group to which the user does not belong: another group must not get what that group
/// had.
fn other_group() -> Result<(), Skip> {
    crate::programs::reached_by_user()?;
    let lines = "file f =new; file d/f =old; own 0:4321 d/f; mode 664 d/f; file d/g =old; own 0:4321 d/g; \
        acl d/g u::rw,u:77:rw,g::r,m::rw,o::r";
    let world = World::make(&fresh(Side::Ours), lines, true)?;
    let command = |line: &str| run::run(&case("", "", line).user(), Side::Ours, &world.root);
    let ran = command("--atomic f d");
    assert_eq!(ran.status, "exit status 0", "{}", said(&ran));
    let mode = fs::metadata(world.root.join("d/f")).expect("there").mode();
    assert_eq!(mode & 0o777, 0o644, "the group gets what all others have");
    let ran = command("--atomic f d/g");
    assert_eq!(ran.status, "exit status 1", "{}", said(&ran));
    assert!(
        said(&ran).contains("cannot get its group"),
        "{}",
        said(&ran)
    );
    let text = fs::read_to_string(world.root.join("d/g")).expect("there");
    assert_eq!(
        (text.as_str(), names(&world.root.join("d"))),
        ("old", vec!["f".into(), "g".into()])
    );
    Ok(())
}

/// What GNU's cp leaves as it is when it writes into a file, a file that replaces it has too; and hard links take the place
/// of other files in any directory.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let settings = [
        "acl d/f u::rw,u:77:rw,g::,m::rw,o::rw",
        "acl d/f u::rw,g::,g:88:r,m::r,o::",
        "acl d/f u::rw,u:77:,g::r,m::r,o::r",
        "xattr d/f user.note keep",
        "mode 604 d/f",
        "own 5:6 d/f; mode 640 d/f; xattr d/f user.note keep; acl d/f u::rw,u:77:rwx,g::r,m::rwx,o::",
        "dacl d u::rwx,u:1000:rwx,g::rwx,m::rwx,o::rwx",
        "dacl d u::rw,g::r,o::; acl d/f u::rw,u:77:rw,g::r,m::rw,o::",
    ];
    let sources = [
        "mode 666 f",
        "mode 400 f",
        "xattr f user.note other; acl f u::rw,u:99:rw,g::,m::rw,o::",
    ];
    for setting in settings {
        for source in sources {
            for way in [
                "",
                "-p",
                "--preserve=mode",
                "--preserve=xattr",
                "--preserve=ownership",
                "--no-preserve=mode",
            ] {
                let lines = format!("file f; {source}; file d/f =old; {setting}");
                let name = format!("{way} over a file with {setting}; {source}");
                let command = format!("{way} f d");
                // The new name changes the time of the directory.
                let against = format!("cp {command} && touch d");
                let case = case(name, lines, command)
                    .added("--atomic")
                    .against(against);
                cases.push(case);
            }
        }
    }
    cases.extend(forced_links());
    named("kept_attributes", cases)
}

fn forced_links() -> Vec<Case> {
    let base = "dir d/e; file f =new; file d/g =old; file d/e/g =old; link d/sym ../f; link d/other g; \
        link d/dangling none; hard d/same f";
    let mut cases = Vec::new();
    for options in [
        "-lf",
        "-lfT",
        "-lu",
        "-lfv",
        "-lf --backup=numbered",
        "-l --remove-destination",
    ] {
        for destination in [
            "d/g",
            "./d/g",
            "d/e/g",
            "d/sym",
            "d/other",
            "d/dangling",
            "d/same",
            "d/new",
        ] {
            let name = format!("{options} f {destination}");
            cases.push(case(name, base, format!("{options} f {destination}")));
        }
    }
    #[rustfmt::skip]
    cases.extend([
        case("-lf into a directory", format!("{base}; file g =two"), "-lf g d"),
        case("-rlf", format!("{base}; file s/g =n"), "-rlf s/. d"),
        case("-rlfT", format!("{base}; file s/g =n"), "-rlfT s d"),
        case("-lf between directories", "file a/f =x; file b/f =y", "-lf a/f b/f"),
        case("-lf to a parent", "file a/f =x; file b/f =y", "-lf f ../b/f")
        .inside("a"),
        case("-sf", "file a/f =x; file b/f =y", "-sf f g").inside("a"),
    ]);
    cases
}
