//! Source and destination are the same file.

use crate::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    let setups = [
        ("itself", "file a", "a a"),
        ("another spelling", "file a", "a ./a"),
        ("a hard link", "file a; hard b a", "a b"),
        ("a link to it", "file a; link b a", "a b"),
        ("from a link to it", "file a; link b a", "b a"),
        ("two links to it", "file a; link b a; link c a", "b c"),
        ("hard links of a link", "file a; link b a; hard c b", "b c"),
        ("into its directory", "file a", "a ."),
        ("a directory", "dir a", "-r a a"),
        ("a fifo", "fifo a; hard b a", "-r a b"),
    ];
    let options = [
        "",
        "-f",
        "-b",
        "-bf",
        "--backup=t",
        "-i",
        "-n",
        "-u",
        "-p",
        "-a",
        "-d",
        "-df",
        "-db",
        "-P",
        "-L",
        "-l",
        "-lf",
        "-lb",
        "-s",
        "-sf",
        "-sb",
        "-dl",
        "-dlf",
        "-ds",
        "-dsf",
        "--remove-destination",
        "-d --remove-destination",
        "-l --remove-destination",
        "--attributes-only",
        "-v",
        "-T",
    ];
    let mut cases = Vec::new();
    for (name, setup, operands) in setups {
        for option in options {
            let case_name = format!("{name} {option}");
            let command = format!("{option} {operands}");
            cases.push(case(case_name.trim(), setup, command).stdin("y\n"));
        }
    }
    #[rustfmt::skip]
    cases.extend([
        case("in trees", "file s/a; dir d; hard d/a s/a", "-rT s d"),
        case("in trees, -f", "file s/a; dir d; hard d/a s/a", "-rfT s d"),
        case("in trees, -a", "file s/a; dir d; hard d/a s/a", "-aT s d"),
        case("in trees, by a link", "file s/a; dir d; link d/a ../s/a", "-rT s d"),
        case("a tree into its own parent", "file s/a; file s/t/b", "-r s ."),
        case("a tree with -l onto itself", "file s/a", "-rlT s s"),
    ]);
    cases
}
