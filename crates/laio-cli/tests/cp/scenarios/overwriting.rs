//! Existing destinations: -i, -n, -u, -f, --remove-destination, --attributes-only.

use crate::case::{Case, case};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let two = "file a; file b =old";
    let trees = "file s/a; file s/b; file s/t/c; file d/s/a =old; file d/s/t/c =older";
    let mut cases = Vec::new();
    for answer in [
        "y\n",
        "n\n",
        "Yes\n",
        "no\n",
        "",
        "\n",
        "maybe\n",
        "Y",
        " y\n",
        "y\ny\nn\n",
    ] {
        let name = format!("-i answered {answer:?}");
        cases.push(case(&name, two, "-i a b").stdin(answer));
    }
    // Of -i and -n the last one counts, with or without -f.
    for options in [
        "-i",
        "-n",
        "-in",
        "-ni",
        "-fi",
        "-if",
        "-fn",
        "-nf",
        "-f",
        "-u",
        "-ui",
        "-iu",
        "-un",
        "-nv",
        "-iv",
        "-uv",
        "--remove-destination -i",
        "--remove-destination -n",
        "-n --remove-destination",
        "--remove-destination -v",
        "--interactive",
        "--no-clobber",
        "--force",
        "--update",
        "-fv",
        "--attributes-only",
        "-p --attributes-only",
        "--attributes-only -v",
        "--attributes-only -n",
    ] {
        let answers = "n\ny\ny\ny\n";
        cases.push(
            case(format!("{options} older source"), format!("{two}; time 1000 a"), format!("{options} a b"))
            .stdin(answers),
        );
        cases.push(case(format!("{options} younger source"), two, format!("{options} b a")).stdin(answers));
        cases.push(
            case(format!("{options} nothing there"), "file a", format!("{options} a b")).stdin(answers),
        );
    }
    for options in [
        "-rn",
        "-ru",
        "-rf",
        "-au",
        "-an",
        "-rp --attributes-only",
        "-r --remove-destination",
        "-rb",
        "-rvn",
        "-rvu",
        "-rvb",
    ] {
        cases.push(case(format!("trees {options}"), trees, format!("{options} s d")));
        let old = format!("{trees}; time 1000 s/a; time 1000 s/t/c");
        cases.push(case(format!("trees {options} older source"), old, format!("{options} s d")));
    }
    // Only a file that an argument created is protected from later arguments.
    let three = "file a/f; file b/f; file c/f; file d/f =old; time 1000 a/f; time 2000 d/f; time 3000 b/f; \
                 time 4000 c/f";
    for options in [
        "-u",
        "-uv",
        "-au",
        "-ub",
        "-u --backup=numbered",
        "-n",
        "-nv",
        "-an",
        "-ul",
        "-i",
        "-iv",
    ] {
        for sources in [
            "a/f b/f",
            "b/f a/f",
            "a/f b/f c/f",
            "a/f a/f b/f",
            "d/f b/f",
            "a/f none/f b/f",
        ] {
            let name = format!("{options} {sources} into one directory");
            let command = format!("{options} {sources} d");
            cases.push(case(name, three, command).stdin("n\ny\ny\n"));
        }
        let trees = three.replace("/f", "/t/f");
        let name = format!("{options} trees into one directory");
        cases.push(case(name, trees, format!("-r {options} a/t b/t d")).stdin("n\ny\n"));
    }
    let stamped =
        |source: &str, destination: &str| format!("{two}; time {source} a; time {destination} b");
    cases.extend([
        case("-i in a tree", "file s/a; file d/s/a =old", "-ri s d").stdin("y\n"),
        case("-i in a tree, no", "file s/a; file d/s/a =old", "-ri s d").stdin("n\n"),
        case("-i for several", "file a; file b; file d/a =x; file d/b =y", "-i a b d").stdin("n\ny\n"),
        case("-i unwritable", format!("{two}; mode 444 b"), "-i a b").stdin("y\n"),
        case("-i unwritable for a user", format!("{two}; mode 444 b"), "-i a b").stdin("y\n").user(),
        case("-i -f unwritable for a user", format!("{two}; mode 444 b"), "-if a b").stdin("y\n").user(),
        case("-i over a directory", "file a; dir b", "-iT a b").stdin("y\n"),
        case("-i where a dangling link is", "file a; link b nowhere", "-i a b").stdin("y\n"),
        case("-n where a dangling link is", "file a; link b nowhere", "-n a b"),
        case("-n over a directory", "file a; dir d/a", "-n a d"),
        case("-n a directory over a file", "dir a; file d/a", "-rn a d"),
        case("-n a file over a directory in a tree", "file s/a; dir d/s/a", "-rn s d"),
        case("-n a link over a link", "link a x; link b y", "-nP a b"),
        case(
            "-u --atomic, a link to a newer file",
            "file a; time 5000 a; file t =new; time 6000 t; link b t; time 1000 b",
            "-u a b",
        )
        .added("--atomic"),
        case(
            "-u --atomic, a newer link to an older file",
            "file a; time 5000 a; file t =old; time 1000 t; link b t; time 6000 b",
            "-u a b",
        )
        // The new name changes the time of the directory.
        .added("--atomic")
        .against("cp -u a b && touch ."),
        case("-u --atomic, a newer dangling link", "file a; time 5000 a; link b t; time 6000 b", "-u a b")
        .added("--atomic"),
        case("-u the same time", stamped("1000", "1000"), "-u a b"),
        case("-u one second older", stamped("1000", "1001"), "-u a b"),
        case("-u one second younger", stamped("1001", "1000"), "-u a b"),
        case("-u before 1970", stamped("-5000", "-6000"), "-u a b"),
        case("-up the same time", stamped("1000", "1000"), "-up a b"),
        case("-u a missing source", "file b", "-u a b"),
        case("-u over a directory", "file a; dir d/a", "-u a d"),
        case("-u a link over a file", "link a x; file b; time 1 a", "-uP a b"),
        case("-u special files", "fifo s/a; fifo d/s/a", "-ru s d"),
        case("-f unwritable, as root", format!("{two}; mode 0 b"), "-f a b"),
        case("unwritable for a user", format!("{two}; mode 444 b"), "a b").user(),
        case("-f unwritable for a user", format!("{two}; mode 444 b"), "-f a b").user(),
        case("-fv unwritable for a user", format!("{two}; mode 444 b"), "-fv a b").user(),
        case("-fp unwritable for a user", format!("{two}; mode 444 b"), "-fp a b").user(),
        case("-f unwritable, other names", format!("{two}; hard c b; mode 444 b"), "-f a b").user(),
        case("-f in an unwritable directory", "file a; file d/a =x; mode 444 d/a; mode 555 d", "-f a d")
        .user(),
        case("-f an unwritable file in a tree", "file s/a; file d/s/a =x; mode 444 d/s/a", "-rf s d").user(),
        case("an unwritable file in a tree", "file s/a; file s/b; file d/s/a =x; mode 444 d/s/a", "-r s d")
        .user(),
        case("--remove-destination unwritable", format!("{two}; mode 444 b"), "--remove-destination a b")
        .user(),
        case("--remove-destination of a directory", "file a; dir b", "-T --remove-destination a b"),
        case(
            "--remove-destination in an unwritable directory",
            "file a; file d/a =x; mode 555 d",
            "--remove-destination a d",
        )
        .user(),
        case("--remove-destination of a fifo", "file a; fifo b", "--remove-destination a b"),
        case(
            "--remove-destination gives the source's mode",
            format!("{two}; mode 751 a; mode 600 b"),
            "--remove-destination a b",
        ),
        case("--attributes-only to a new name", "file a; mode 751 a", "--attributes-only a b"),
        case(
            "--attributes-only keeps existing data",
            format!("{two}; mode 751 a"),
            "-p --attributes-only a b",
        ),
        case(
            "--attributes-only of a tree",
            "file s/a; file s/t/b; file d/s/a =old; mode 751 s/t",
            "-a --attributes-only s d",
        ),
        case("--attributes-only of links", "link s/l a; file s/a; hard s/b s/a", "-a --attributes-only s d"),
        case(
            "--attributes-only with extended ones",
            "file a; xattr a user.x y; file b =old",
            "--preserve=all --attributes-only a b",
        ),
        case("--attributes-only of a sparse file", "holes a 3M 1M+64K", "--attributes-only a b"),
        case("over a file of another type", "file s/p; fifo d/s/p", "-r --remove-destination s d"),
        case("a fifo over a file", "fifo s/p; file d/s/p", "-r s d"),
        case("a fifo over a fifo", "fifo s/p; fifo d/s/p", "-r s d"),
        case("a fifo over a directory", "fifo s/p; dir d/s/p", "-r s d"),
        case("a device over a file", "char s/n 1 3; file d/s/n", "-r s d"),
        case("nothing over nothing is a change", "file a =; file b =", "a b"),
        case("-H over other types", "link s/l x; fifo s/p; file d/s/l; file d/s/p", "-rH s d"),
        case("-l over other types", "link s/l x; fifo s/p; link d/s/l y; file d/s/p", "-al s d"),
        case("set-uid is lost when overwritten", "file a; file b; mode 6755 b", "a b"),
        case("set-uid is kept when the mode is", "file a; mode 6755 a; file b", "-p a b"),
        case("set-uid of a new file", "file a; mode 6755 a", "a b"),
        case("to /dev/null", "file a", "a /dev/null"),
        case("to /dev/null, removed first is not tried", "file a", "-f a /dev/null"),
        case("to /dev/full", "file a 100000", "a /dev/full"),
        case("to /dev/stdout", "file a", "a /dev/stdout"),
        case("from /dev/stdin", "dir d", "/dev/stdin d/x").stdin("typed\n"),
        case("from /dev/null", "dir d", "/dev/null d/x"),
        case("from /dev/null over a file", "file b", "/dev/null b"),
    ]);
    cases
}
