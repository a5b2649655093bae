//! Too few descriptors, too little space, a closed output.

use crate::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    let tree = "many s/a 25; many s/b/c 25; link s/l a; many s/d 9";
    let mut cases = Vec::new();
    for limit in [24, 64] {
        let few = format!("ulimit -n {limit}");
        cases.extend([
            case(format!("{limit} descriptors"), tree, "-a s d").after(&few),
            case(
                format!("{limit} descriptors, deep"),
                "deep s 30 10",
                "-a s d",
            )
            .after(&few),
        ]);
    }
    for redirection in [">/dev/full", ">&-", "2>&-", "<&-", ">/dev/null 2>&1"] {
        cases.extend([
            case(format!("-v {redirection}"), "file a; file b", "-v a b").redirected(redirection),
            case(format!("-v of a tree {redirection}"), tree, "-rv s d").redirected(redirection),
            // A closed standard input would be open again in an emulator.
            case(format!("-i {redirection}"), "file a; file b", "-i a b")
                .redirected(redirection)
                .stdin("y\n")
                .needs("native"),
            case(format!("a copy {redirection}"), tree, "-r s d").redirected(redirection),
            case(format!("an error {redirection}"), tree, "x d").redirected(redirection),
            case(format!("--help {redirection}"), "", "--help")
                .redirected(redirection)
                .any_output(),
        ]);
    }
    cases.extend([
        case("little memory to lock", tree, "-a s d").after("ulimit -l 0"),
        case("no core, little stack", tree, "-a s d").after("ulimit -s 1024"),
        case(
            "a full file system, several files",
            "mount m; file s/a 400K; file s/b 400K; file s/c 400K",
            "-r s/a s/b s/c m",
        ),
        case(
            "a full file system, links and directories fit",
            "mount m; file s/a 2M; link s/l a; dir s/t",
            "-r s m",
        )
        .any_output(),
        case(
            "a read-only file of /proc among others",
            "file s/version; file s/other; dir d",
            "s/version s/other /proc",
        )
        .any_output(),
    ]);
    cases
}
