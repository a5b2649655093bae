//! Symbolic links, hard links, and the options that follow them.

use crate::case::{Case, case};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let world = "file a; file s/f; link s/in f; link s/dir ../x; link s/no nowhere; file x/y; \
                 link l a; link k s; dir d";
    let mut cases = Vec::new();
    // Each option for links, on the command line and inside directories, for files and directories.
    for option in [
        "", "-r", "-H", "-L", "-P", "-d", "-rH", "-rL", "-rP", "-a", "-rp", "-rd", "-aL", "-aH",
        "-rLP", "-rPL", "-RH", "-LR", "-HR -P",
    ] {
        for source in ["l", "k", "s", "k/", "s/no", "l k s"] {
            let name = format!("{option} {source}");
            cases.push(case(name.trim(), world, format!("{option} {source} d")));
        }
    }
    let linked = "file s/a; hard s/b s/a; hard s/t/c s/a; file s/z; hard out s/z; dir d";
    for option in [
        "-r",
        "-a",
        "-rp",
        "-rd",
        "-r --preserve=links",
        "-a --no-preserve=links",
        "-r --preserve=all",
        "-rl",
        "-rs",
        "-dl",
        "-al",
        "-rL --preserve=links",
        "-rH --preserve=links",
    ] {
        cases.push(case(format!("hard links {option}"), linked, format!("{option} s d")));
    }
    let through = "file a; link b a; link c a; hard h a; dir d";
    cases.extend([
        case("hard links of several sources", through, "-a a h d"),
        case("hard links of several sources, not kept", through, "-r a h d"),
        case("links to one file become hard links", through, "-L --preserve=links a b c d"),
        case("links to one file, -p", through, "-pL a b c d"),
        case(
            "hard links over existing files",
            "file s/a; hard s/b s/a; file d/s/a =x; file d/s/b =y",
            "-a s d",
        ),
        case(
            "hard links over existing links",
            "file s/a; hard s/b s/a; file d/s/a =x; hard d/s/b d/s/a",
            "-a s d",
        ),
        case(
            "hard links, -u",
            "file s/a; hard s/b s/a; file d/s/a =x; hard d/s/b d/s/a; time 2000000 s/a",
            "-au s d",
        ),
        case("hard links across sources", "file x/a; dir y; hard y/b x/a; dir d", "-a x y d"),
        case("hard links of symbolic links", "link s/l nowhere; hard s/m s/l", "-a s d"),
        case("hard links of fifos", "fifo s/p; hard s/q s/p", "-a s d"),
        case("hard links with backups", "file s/a; hard s/b s/a; file d/s/a =x; file d/s/b =y", "-ab s d"),
        case("hard links, -v", "file s/a; hard s/b s/a", "-av s d"),
        case("hard links, forced over a directory", "file s/a; hard s/b s/a; dir d/s/b", "-a s d"),
        case("-l", "file a; dir d", "-l a d"),
        case("-l over a file", "file a; file b", "-l a b"),
        case("-l over a file, forced", "file a; file b", "-lf a b"),
        case("-l over a file, removed first", "file a; file b", "-l --remove-destination a b"),
        case("-l over a file, asked", "file a; file b", "-li a b").stdin("y\n"),
        case("-l with a backup", "file a; file b", "-lb a b"),
        case("-l of a link", "file a; link l a; dir d", "-l l d"),
        case("-l of a link, followed", "file a; link l a; dir d", "-lL l d"),
        case("-l of a dangling link", "link l nowhere; dir d", "-l l d"),
        case("-l of a directory", "file s/a; file s/t/b; dir d", "-rl s d"),
        case("-l of a directory without -r", "file s/a; dir d", "-l s d"),
        case("-l to another file system", "file a; mount m", "-l a m"),
        case("-l of a tree over a part of it", "file s/a; file s/b; dir d/s; hard d/s/a s/a", "-rl s d"),
        case("-s", "file a", "-s a b"),
        case("-s over a file", "file a; file b", "-s a b"),
        case("-s over a file, forced", "file a; file b", "-sf a b"),
        case("-s with a backup", "file a; file b", "-sb a b"),
        case("-s into another directory", "file a; dir d", "-s a d"),
        case("-s into the current directory", "file x/a", "-s x/a ."),
        case("-s of a tree", "file s/a; dir d", "-rs s d"),
        case("-s of a directory without -r", "dir s; dir d", "-s s d"),
        case("-s of a missing file", "dir d", "-s a ."),
        case("-s and -l", "file a", "-sl a b"),
        case("a link's own attributes", "link l nowhere; own 3:4 l", "-a l m"),
        case("a link's own attributes over a link", "link l nowhere; own 3:4 l; link m else", "-a l m"),
        case("a link over a file", "link l nowhere; file m", "-P l m"),
        case("a link over a link", "link l nowhere; link m else", "-P l m"),
        case("a link over a link, forced", "link l nowhere; link m else", "-Pf l m"),
        case("a link over a directory", "link l nowhere; dir m", "-PT l m"),
        case("a link over a directory's link", "link l nowhere; dir x; link m x", "-PT l m"),
        case("a link over the same link", "link l t; link m t", "-a l m"),
        case("a link, removed first", "link l nowhere; file m", "-P --remove-destination l m"),
        case("a long link", format!("link l {}", "x/".repeat(2000)), "-P l m"),
        case("a link whose target has strange bytes", "link l a\\nb\\xff", "-P l m"),
        case("a file over a link to it, -f", "file a; file b; link l b", "-f a l"),
        case("--remove-destination over a link", "file a; file b; link l b", "--remove-destination a l"),
        case("--remove-destination over a hard link", "file a; file b; hard c b", "--remove-destination a b"),
        case("over one of two hard links", "file a; file b; hard c b", "a b"),
        case(
            "-L of links into the copied tree",
            "file s/a; link s/b a; link s/c a",
            "-rL --preserve=links s d",
        ),
        case(
            "a link through which the destination is written",
            "file x/f; link d/x ../out; dir out",
            "-r x d",
        ),
        case(
            "a link just created is not written through",
            "link x/l ../victim; file y/l; dir d; file victim",
            "-r x/l y/l d",
        ),
        case(
            "a directory link just created is not followed",
            "dir out; link x/s ../out; file y/s/f; dir d",
            "-r x/s y/s d",
        ),
    ]);
    cases
}
