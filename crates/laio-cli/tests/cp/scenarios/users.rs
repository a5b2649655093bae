//! Copies by an ordinary user without the necessary rights.

use crate::case::{Case, case};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let cases = vec![
        case("an unreadable file", "file a; mode 0 a; dir d", "a d"),
        case("--atomic over a set-ID file", "file a; file b; file d/b =old; mode 6755 d/b", "a b d")
        .added("--atomic"),
        case("an unreadable file among others", "file a; file b; file c; mode 0 b; dir d", "-v a b c d"),
        case("an unreadable file over a file", "file a; file b =old; mode 0 a", "a b"),
        case("an unreadable file with -l", "file a; mode 0 a; dir d", "-l a d"),
        case("an unreadable file of others with -l", "file a; own 0:0 a; mode 600 a; dir d", "-l a d"),
        case("an unreadable file with -s", "file a; mode 0 a", "-s a b"),
        case("an unreadable file with --attributes-only", "file a; mode 0 a", "--attributes-only a b"),
        case("an unreadable file in a tree", "file s/a; file s/b; mode 0 s/a", "-r s d"),
        case("an unreadable directory", "file s/t/a; file s/b; mode 0 s/t", "-r s d"),
        case("an unreadable directory, -a", "file s/t/a; file s/b; mode 0 s/t", "-a s d"),
        case("an unreadable top", "file s/t/a; mode 0 s", "-r s d"),
        case("a directory that can be listed only", "file s/t/a; file s/b; mode 444 s/t", "-r s d")
        .any_output(),
        case("a directory that can be searched only", "file s/t/a; file s/b; mode 111 s/t", "-r s d"),
        case("a file in a directory that can be searched only", "file t/a; mode 111 t; dir d", "t/a d"),
        case("a file in a directory that cannot be searched", "file t/a; mode 666 t; dir d", "t/a d"),
        case("a read-only directory in the source", "file s/t/a; file s/t/u/b; mode 555 s/t s/t/u", "-r s d"),
        case(
            "a read-only directory in the source, -a",
            "file s/t/a; file s/t/u/b; mode 555 s/t/u s/t",
            "-a s d",
        ),
        case(
            "a read-only tree copied again",
            "file s/t/a; mode 555 s/t; file d/s/t/z; mode 555 d/s/t",
            "-a s d",
        ),
        case("a write-only directory in the source", "file s/t/a; mode 333 s/t", "-r s d"),
        case("an unwritable destination", "file a; dir d; mode 555 d", "a d"),
        case("an unwritable destination, tree", "file s/a; file s/t/b; dir d; mode 555 d", "-r s d"),
        case("an unwritable destination, over a file", "file a; file d/a =old; mode 555 d", "a d"),
        case("an unsearchable destination", "file a; dir d; mode 666 d", "a d"),
        case("an unsearchable destination, by name", "file a; dir d; mode 666 d", "a d/b"),
        case(
            "an unwritable subdirectory of the destination",
            "file s/t/a; file s/b; dir d/s/t; mode 555 d/s/t",
            "-r s d",
        ),
        case("a destination of others", "file a; file b =old; own 0:0 b; mode 644 b", "a b"),
        case("a destination of others, forced", "file a; file b =old; own 0:0 b; mode 644 b", "-f a b"),
        case("a destination of others, writable", "file a; file b =old; own 0:0 b; mode 666 b", "-p a b")
        .any_output(),
        case(
            "a destination of others in a sticky directory",
            "file a; file d/a =old; own 0:0 d d/a; mode 1777 d; mode 644 d/a",
            "-f a d",
        ),
        case(
            "a destination directory of others, -a",
            "file s/a; dir d/s; own 0:0 d/s; mode 777 d/s",
            "-a s d",
        )
        .any_output(),
        case(
            "a destination directory of others, -r",
            "file s/a; dir d/s; own 0:0 d/s; mode 777 d/s",
            "-r s d",
        ),
        case("devices", "char s/n 1 3; file s/f", "-r s d"),
        case("umask 777", "file s/a; dir s/t; file s/t/b", "-r s d").umask(0o777),
        case("umask 777, -p", "file s/a; dir s/t; file s/t/b", "-rp s d").umask(0o777),
        case("umask 577 of directories", "dir s/t; file s/t/b", "-r s d").umask(0o577),
        case("-i where the answer is yes", "file a; file b =old; mode 400 b", "-i a b").stdin("y\n"),
        case(
            "--parents through an unsearchable directory",
            "file a/b/c; mode 0 a/b; dir d",
            "--parents a/b/c d",
        ),
        case("--parents of a read-only directory", "file a/b/c; mode 555 a/b a; dir d", "--parents a/b/c d"),
        case(
            "--parents of a read-only directory, -p",
            "file a/b/c; file a/b/e; mode 555 a/b a; dir d",
            "-p --parents a/b/c a/b/e d",
        )
        // The second file is refused only if it comes after the first.
        .needs("nowait"),
        case("a link to an unreadable file", "file a; mode 0 a; link l a; dir d", "l d"),
        case("a link into an unsearchable directory", "file t/a; mode 0 t; link l t/a; dir d", "l d"),
    ];
    cases.into_iter().map(Case::user).collect()
}
