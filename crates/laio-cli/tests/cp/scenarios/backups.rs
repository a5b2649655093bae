//! Backups: of which files, under which names.

use crate::case::{Case, case};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let two = "file a; file b =old";
    let simple = "file a; file b =old; file b~ =older";
    let numbered = "file a; file b =old; file b.~1~ =one; file b.~9~ =nine; file b.~x~ =none; file b.~007~ =bond";
    let mut cases = Vec::new();
    for (name, setup) in [
        ("none", two),
        ("simple", simple),
        ("numbered", numbered),
        ("no destination", "file a"),
    ] {
        for option in [
            "-b",
            "--backup",
            "--backup=none",
            "--backup=off",
            "--backup=numbered",
            "--backup=t",
            "--backup=existing",
            "--backup=nil",
            "--backup=simple",
            "--backup=never",
            "--backup=",
            "-b -S .old",
            "-S .old",
            "--suffix=.old",
            "-b -S ''",
            "-b -S /x",
            "-b -S .",
            "-b --backup=t",
            "--backup=t -b",
            "--backup=t -S .old",
            "-bv",
            "-bi",
            "-bf",
            "-bp",
            "-bu",
            "-b --remove-destination",
            "-b --attributes-only",
        ] {
            let case_name = format!("{option} where backups are: {name}");
            cases.push(case(case_name, setup, format!("{option} a b")).stdin("y\n"));
        }
        for variables in [
            "VERSION_CONTROL=t",
            "VERSION_CONTROL=simple",
            "VERSION_CONTROL=none",
            "VERSION_CONTROL=",
            "SIMPLE_BACKUP_SUFFIX=.s",
            "SIMPLE_BACKUP_SUFFIX=",
            "SIMPLE_BACKUP_SUFFIX=/s",
            "SIMPLE_BACKUP_SUFFIX=.s VERSION_CONTROL=nil",
        ] {
            let case_name = format!("{variables} where backups are: {name}");
            cases.push(case(case_name, setup, format!("{variables} -b a b")));
        }
    }
    let long = "n".repeat(254);
    let longest = "n".repeat(255);
    cases.extend([
        case("control abbreviated", two, "--backup=num a b"),
        case("control ambiguous", two, "--backup=n a b"),
        case("control unknown", two, "--backup=x a b"),
        case("VERSION_CONTROL unknown", two, "VERSION_CONTROL=x -b a b"),
        case("VERSION_CONTROL alone", two, "VERSION_CONTROL=t a b"),
        case("VERSION_CONTROL and --backup=simple", two, "VERSION_CONTROL=t --backup=simple a b"),
        case("SIMPLE_BACKUP_SUFFIX and -S", two, "SIMPLE_BACKUP_SUFFIX=.s -b -S .t a b"),
        case("in a tree", "file s/a; file s/t/b; file d/s/a =old; file d/s/t/b =older", "-rb s d"),
        case("in a tree, numbered", "file s/a; file d/s/a =old; file d/s/a.~3~", "-r --backup=t s d"),
        case("in a tree, verbose", "file s/a; file d/s/a =old; link s/l x; link d/s/l y", "-rbv s d"),
        case("of a link", "link a x; link b y", "-bP a b"),
        case("of a link's file", "file a; file c; link b c", "-b a b"),
        case("of a dangling link", "file a; link b nowhere", "-b a b"),
        case("of a directory", "file a; dir b", "-bT a b"),
        case("a directory's merge makes none", "file s/a; dir d/s", "-rb s d"),
        case("of a fifo", "file a; fifo b", "-b a b"),
        case("that would be the source", "file a; file a~ =source", "-b a~ a"),
        case("that would be the source, numbered", "file a; file a.~1~ =source", "--backup=t a.~1~ a"),
        case("of hard links", "file s/a; hard s/b s/a; file d/s/a; hard d/s/b d/s/a", "-ab s d"),
        case("of itself, forced", "file a", "-bf a a"),
        case("of itself, forced, numbered", "file a; file a.~2~", "--backup=t -f a a"),
        case("of itself, forced, by another name", "file a; hard b a", "-bf a b"),
        case("of a long name", format!("file a; file {long} =old"), format!("-b a {long}")),
        case("of the longest name", format!("file a; file {longest} =old"), format!("-b a {longest}")),
        case(
            "of the longest name, numbered",
            format!("file a; file {longest} =old"),
            format!("--backup=t a {longest}"),
        ),
        case("in a directory with -t", "file a; file d/a =old", "-b -t d a"),
        case("in an unwritable directory", "file a; file d/a =old; mode 555 d", "-b a d").user(),
        case("of an unwritable file", "file a; file d/a =old; mode 444 d/a", "-b a d").user(),
        case("numbered, many", "file a; file b =old; file b.~99~", "--backup=numbered a b"),
        case(
            "numbered, of a name with a glob",
            "file a; file 'b*' =old; file bx.~4~",
            "--backup=numbered a 'b*'",
        ),
    ]);
    cases
}
