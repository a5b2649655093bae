//! The destination: file, directory, `-t`, `-T`, `--parents`.

use crate::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    let two = "file a; file b; dir d";
    let tree = "dir s; file s/a; dir s/t; file s/t/b; link s/l a; file s/t/c =";
    let with = |more: &str| format!("{tree}; {more}");
    vec![
        case("a file to a new name", "file a", "a b"),
        case("a file over a file", two, "a b"),
        case(
            "a longer file over a shorter",
            "file a 10000; file b",
            "a b",
        ),
        case(
            "a shorter file over a longer",
            "file b 10000; file a",
            "a b",
        ),
        case(
            "a file over a file keeps its mode and owner",
            "file a; file b; mode 640 b; own 5:6 b",
            "a b",
        ),
        case("a file into a directory", two, "a d"),
        case("a file into a directory, slash", two, "a d/"),
        case(
            "a file into a directory over a file",
            "file a; file d/a =old",
            "a d",
        ),
        case(
            "a file into a directory over a directory",
            "file a; dir d/a",
            "a d",
        ),
        case("several files into a directory", two, "a b d"),
        case("several into a file", "file a; file b; file c", "a b c"),
        case("several into nothing", "file a; file b", "a b c"),
        case("several into nothing, slash", "file a; file b", "a b c/"),
        case(
            "several into a dangling link",
            "file a; file b; link c nowhere",
            "a b c",
        ),
        case(
            "the same name twice into a directory",
            "file a; file x/a; dir d",
            "a x/a d",
        ),
        case("the same source twice", two, "a a d"),
        case("the same source twice, other spellings", two, "a ./a d"),
        case("the same directory twice", with("dir d"), "-r s s d"),
        case(
            "the same directory twice, other spellings",
            with("dir d"),
            "-r s s/ ./s d",
        ),
        case(
            "two directories of one name",
            "file x/s/a; file y/s/b; dir d",
            "-r x/s y/s d",
        ),
        case(
            "two directories of one name with a common file",
            "file x/s/a; file y/s/a; dir d",
            "-r x/s y/s d",
        ),
        case(
            "just created is not overwritten, with backups",
            "file x/a; file y/a =other; dir d",
            "-b x/a y/a d",
        ),
        case(
            "just created is not overwritten, forced",
            "file x/a; file y/a =other; dir d",
            "-f x/a y/a d",
        ),
        case(
            "a directory over a just-created file",
            "file x/a; dir y/a; dir d",
            "-r x/a y/a d",
        ),
        case(
            "a file over a directory just created",
            "dir x/a; file y/a; dir d",
            "-r x/a y/a d",
        ),
        case("a file to a missing directory", "file a", "a d/b"),
        case("a file to a new name with a slash", "file a", "a b/"),
        case("a file through a file", "file a; file b", "a b/c"),
        case("a file onto a file with a slash", two, "a b/"),
        case("a missing source", "dir d", "a d"),
        case("one of several is missing", two, "a x b d"),
        case("a source through a file", "file a; dir d", "a/b d"),
        case("a source file with a slash", "file a; dir d", "a/ d"),
        case(
            "a source file with a slash, stripped",
            "file a; dir d",
            "--strip-trailing-slashes a/ d",
        ),
        case("an empty name", "file a; dir d", "'' d"),
        case("to an empty name", "file a", "a ''"),
        case("a directory without -r", with("dir d"), "s d"),
        case(
            "a directory without -r and a file",
            with("dir d; file f"),
            "s f d",
        ),
        case("a directory to a new name", tree, "-r s n"),
        case("a directory to a new name with a slash", tree, "-r s n/"),
        case("a directory into a directory", with("dir d"), "-r s d"),
        case(
            "a directory with a slash into a directory",
            with("dir d"),
            "-r s/ d/",
        ),
        case(
            "a directory with many slashes",
            with("dir d"),
            "-r s/// d///",
        ),
        case("a directory over a file", with("file f"), "-r s f"),
        case("a directory over a file, forced", with("file f"), "-rf s f"),
        case(
            "a directory over a file, removed first",
            with("file f"),
            "-r --remove-destination s f",
        ),
        case(
            "a directory over a link to a directory",
            with("dir d; link l d"),
            "-r s l",
        ),
        case(
            "a directory over a link, -T",
            with("dir d; link l d"),
            "-rT s l",
        ),
        case(
            "a directory over a dangling link",
            with("link l nowhere"),
            "-r s l",
        ),
        case(
            "a directory over a dangling link, -T",
            with("link l nowhere"),
            "-rT s l",
        ),
        case(
            "a directory over a dangling link, forced",
            with("link l nowhere"),
            "-rfT s l",
        ),
        case(
            "a directory merged into another",
            with("file d/s/z; file d/s/a =old"),
            "-r s d",
        ),
        case(
            "a directory merged into another by -T",
            with("file d/z; file d/a =old"),
            "-rT s d",
        ),
        case(
            "a directory's contents by a dot",
            with("file d/z"),
            "-r s/. d",
        ),
        case("a directory's contents to a new name", tree, "-r s/. n"),
        case(
            "a directory's contents, two dots",
            with("file d/z"),
            "-r s/t/.. d",
        ),
        case(
            "a subdirectory where a file is",
            with("file d/t"),
            "-rT s d",
        ),
        case("a file where a subdirectory is", with("dir d/a"), "-rT s d"),
        case(
            "a subdirectory where a link to a directory is",
            with("dir e; link d/t ../e"),
            "-rT s d",
        ),
        case(
            "a subdirectory where a dangling link is",
            with("link d/t nowhere"),
            "-rT s d",
        ),
        case("a link where a file is", with("file d/l =old"), "-rT s d"),
        case("a link where a directory is", with("file d/l/x"), "-rT s d"),
        case(
            "a file where a link is",
            with("link d/a ../z; file z"),
            "-rT s d",
        ),
        case(
            "a file where a dangling link is",
            with("link d/a ../z"),
            "-rT s d",
        ),
        case(
            "a file where a fifo is, removed first",
            with("fifo d/a"),
            "-rT --remove-destination s d",
        ),
        case("-T a file over a directory", two, "-T a d"),
        case("-T a file to a new name", two, "-T a c"),
        case("-T with a slash", two, "-T a d/"),
        case("-T with three operands", two, "-T a b d"),
        case("-T a directory over a file", with("file f"), "-rT s f"),
        case(
            "-T a directory over an empty directory",
            with("dir d"),
            "-rT s d",
        ),
        case("-t", two, "-t d a b"),
        case("-t, long", two, "--target-directory=d a"),
        case("-t with a slash", two, "-t d/ a"),
        case("-t missing", two, "-t x a"),
        case("-t a file", two, "-t a b"),
        case(
            "-t a link to a directory",
            "file a; dir d; link l d",
            "-t l a",
        ),
        case("-t a dangling link", "file a; link l nowhere", "-t l a"),
        case("-t without sources", two, "-t d"),
        case("-t twice", "file a; dir d; dir e", "-t d -t e a"),
        case("-t and -T", two, "-T -t d a"),
        case(
            "into a link to a directory",
            "file a; dir d; link l d",
            "a l",
        ),
        case(
            "into a link to a directory, slash",
            "file a; dir d; link l d",
            "a l/",
        ),
        case(
            "through a link to a file",
            "file a; file b; link l b",
            "a l",
        ),
        case("to a dangling link", "file a; link l nowhere", "a l"),
        case(
            "to a dangling link, POSIXLY_CORRECT",
            "file a; link l nowhere",
            "POSIXLY_CORRECT=1 a l",
        ),
        case(
            "to a dangling link, forced",
            "file a; link l nowhere",
            "-f a l",
        ),
        case(
            "to a dangling link, removed first",
            "file a; link l nowhere",
            "--remove-destination a l",
        ),
        case("to a link to itself", "file a; link l l", "a l"),
        case("to a link to itself, forced", "file a; link l l", "-f a l"),
        case("from a link to itself", "link l l; dir d", "l d"),
        case("from a dangling link", "link l nowhere; dir d", "l d"),
        case("into the current directory", "file x/a", "x/a ."),
        case("into the parent", "dir w; file x/a", "../x/a ..").inside("w"),
        case(
            "the current directory",
            "file w/a; file w/t/b; dir d",
            "-r . ../d",
        )
        .inside("w"),
        case(
            "the current directory to a new name",
            "file w/a; file w/t/b",
            "-r . ../n",
        )
        .inside("w"),
        case("--parents", "file a/b/c; dir d", "--parents a/b/c d"),
        case(
            "--parents absolute-like",
            "file a/b/c; dir d",
            "--parents ./a//b/../b/c d",
        ),
        case(
            "--parents of a directory",
            "file a/b/c; dir d",
            "-r --parents a/b d",
        ),
        case(
            "--parents of a directory with a slash",
            "file a/b/c; dir d",
            "-r --parents a/b/ d",
        ),
        case(
            "--parents where they are",
            "file a/b/c; dir d/a/b; mode 700 d/a",
            "--parents a/b/c d",
        ),
        case(
            "--parents with modes",
            "file a/b/c; dir d; mode 750 a; mode 711 a/b",
            "--parents a/b/c d",
        ),
        case(
            "--parents with -p",
            "file a/b/c; dir d; mode 750 a; mode 711 a/b; own 3:4 a",
            "-p --parents a/b/c d",
        ),
        case(
            "--parents with -p, some are there",
            "file a/b/c; dir d/a; mode 750 a; mode 711 a/b",
            "-p --parents a/b/c d",
        ),
        case(
            "--parents with -a",
            "file a/b/c; dir d; mode 1750 a; link a/b/l c",
            "-a --parents a/b d",
        ),
        case(
            "--parents with -v",
            "file a/b/c; dir d",
            "-v --parents a/b/c d",
        ),
        case(
            "--parents through a file",
            "file a/b/c; dir d; file d/a",
            "--parents a/b/c d",
        ),
        case(
            "--parents through a link",
            "file a/b/c; dir d; dir e; link d/a ../e",
            "--parents a/b/c d",
        ),
        case(
            "--parents without a directory",
            "file a/b/c",
            "--parents a/b/c n",
        ),
        case("--parents missing", "dir a/b; dir d", "--parents a/b/c d"),
        case(
            "--parents two of them",
            "file a/b/c; file a/b/e; file a/f; dir d",
            "-v --parents a/b/c a/b/e a/f d",
        ),
        case("to another file system", "file a 100000; mount m", "a m"),
        case("a tree to another file system", with("mount m"), "-r s m"),
        case(
            "a tree to another file system with everything",
            with("mount m; mode 2751 s/t; hard s/h s/a"),
            "-a s m",
        ),
        case(
            "from another file system",
            "mount m; file m/a 100000; file m/t/b",
            "-r m d",
        ),
    ]
}
