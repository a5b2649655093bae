//! Trees: copied into themselves, across file systems, deep, wide.

use crate::case::{Case, case};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    vec![
        case("an empty directory", "dir s", "-r s d"),
        case("empty directories in each other", "dir s/a/b/c; dir s/d", "-R s d"),
        case("--recursive", "file s/a", "--recursive s d"),
        case("into itself", "dir s", "-r s s"),
        case("into itself, named by a dot", "dir s", "-r . d").inside("s"),
        case("into a descendant", "dir s/t/u", "-r s s/t/u"),
        case("into a new descendant", "dir s/t", "-r s s/t/n"),
        case("onto itself by -T", "dir s", "-rT s s"),
        case("into a descendant that a link names", "dir s/t; link l s/t", "-r s l"),
        case("into a descendant, with another source", "dir s/t; file x", "-r s x s/t"),
        case("into itself by a dot", "dir s", "-r s/. s"),
        case("into itself with -a", "dir s/t", "-a s s/t"),
        case("into itself with -l", "dir s/t", "-rl s s/t"),
        case("a loop of links is copied as links", "link s/l ..; file s/a", "-r s d"),
        case("a loop of links followed", "file s/a; link s/l ../s", "-rL s d"),
        case("a loop of links followed, deeper", "file s/t/a; link s/t/l ..", "-rL s d"),
        case("a directory seen twice is no loop", "file s/t/a; link s/l t; link s/m t", "-rL s d"),
        case("links that follow each other", "file s/a; link s/b a; link s/c b", "-rL s d"),
        case("a dangling link among others, followed", "file s/a; link s/l nowhere; file s/z", "-rL s d"),
        case("a link to itself, followed", "file s/a; link s/l l", "-rL s d"),
        case(
            "modes of directories",
            "file s/t/a; file s/u/b; mode 555 s/t; mode 700 s/u; mode 1777 s",
            "-r s d",
        ),
        case(
            "modes of directories, kept",
            "file s/t/a; file s/u/b; mode 555 s/t; mode 1770 s/u; mode 2755 s",
            "-rp s d",
        ),
        case("times of directories, kept", "file s/t/a; file s/t/u/b; dir s/v", "-rp s d"),
        case("times of directories that are there", "file s/t/a; file d/s/t/z", "-rp s d"),
        case(
            "modes of directories that are there",
            "file s/t/a; mode 700 s/t; file d/s/t/z; mode 711 d/s/t",
            "-r s d",
        ),
        case(
            "modes of directories that are there, kept",
            "file s/t/a; mode 700 s/t; file d/s/t/z; mode 711 d/s/t",
            "-rp s d",
        ),
        case("-x without a mount", "file s/t/a", "-rx s d"),
        case("-x", "file s/a; mount s/m; file s/m/inner; file s/z", "-rx s d"),
        case("-x kept", "file s/a; mount s/m; file s/m/inner; mode 750 s/m", "-ax s d"),
        case("without -x", "file s/a; mount s/m; file s/m/inner", "-r s d"),
        case("-x of a mount itself", "mount s; file s/a", "-rx s d"),
        case(
            "-x and links to another file system",
            "mount m; file m/a; file s/b; link s/l ../m; link s/k ../m/a",
            "-rxL s d",
        ),
        case("--one-file-system to another", "mount m; file s/a; file s/t/b", "-r --one-file-system s m"),
        case("a hundred directories", "many s/a 30; many s/b 30; many s/c/d 30; many s/c/e 30", "-r s d"),
        case(
            "a hundred directories, verbose",
            "many s/a 30; many s/b 30; many s/c/d 30; many s/c/e 30",
            "-rv s d",
        ),
        case("a hundred directories, again", "many s/a 30; many s/b 30; many d/s/a 20", "-a s d"),
        case("10,000 files in one directory", "many s 10000", "-r s d"),
        case("200 levels", "deep s 200 1", "-r s d"),
        case(
            "names with a common beginning",
            "file s/a; file s/aa; file s/a.; dir s/a-; file s/a-/a",
            "-r s d",
        ),
        case("several trees", "file x/a; file y/b; file z; dir d", "-r x y z d"),
        case("several trees of which one is missing", "file x/a; file z/b; dir d", "-rv x y z d"),
        case("a tree and a file over it", "file x/a; file a; dir d", "-rv x/a a d"),
        case("-v", "file s/a; dir s/t; link s/l a; fifo s/p", "-rv s d"),
        case("-v over an existing file", "file s/a; dir s/t; file d/s/a", "-rv s d"),
        case("-v with links", "file s/a; file s/t/b; dir d", "-rlv s d"),
        case("-v with symbolic links", "file a; dir d", "-sv a s"),
    ]
}
