//! Unusual names, and how messages quote them.

use crate::case::{Case, case};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let longest = "n".repeat(255);
    let too_long = "n".repeat(256);
    let mut cases = Vec::new();
    let names = [
        "a\\nb",
        "\\xff\\xfe",
        "a\\ b",
        "a\\'b",
        "a\\\"b",
        "a\\\\b",
        "'$HOME'",
        "'*'",
        "-r",
        "--",
        "-",
        "\\x01\\x7f",
        "caf\\xc3\\xa9",
        "~",
        "a=b",
        "..a",
        "...",
        "\\t",
        "{a}",
        "!",
        "#x",
    ];
    for name in names {
        // The C library decides in which locales bytes beyond ASCII are letters.
        let locale = if name.contains("\\xc3") {
            "LC_ALL=C.UTF-8 "
        } else {
            ""
        };
        cases.extend([
            case(
                format!("{name}, copied"),
                format!("file ./{name}; dir d"),
                format!("{locale}-v -- ./{name} d"),
            ),
            case(format!("{name}, missing"), "dir d", format!("{locale}-- ./{name} d")),
            case(
                format!("{name}, in a tree"),
                format!("file s/{name}/{name}; link s/l {name}"),
                format!("{locale}-rv s d"),
            ),
            case(format!("{name}, as the destination"), "file a; file b", format!("{locale}-- a b {name}")),
            case(
                format!("{name}, a directory without -r"),
                format!("dir ./{name}; dir d"),
                format!("{locale}-- ./{name} d"),
            ),
        ]);
    }
    cases.extend([
        case("a leading dash after --", "file -r; dir d", "-- -r d"),
        case("a leading dash taken for an option", "file -y; dir d", "-y d"),
        case("a dash", "file -; dir d", "- d"),
        case("options after operands", "file s/a; dir d", "s d -r"),
        case("options after operands, POSIXLY_CORRECT", "file s/a; dir d", "POSIXLY_CORRECT=1 s d -r"),
        case("options after --", "file s/a; dir d", "-- s d -r"),
        case("the longest name", format!("file {longest}; file s/{longest}"), format!("-r {longest} s x")),
        case("the longest name copied", format!("file {longest}; dir d"), format!("{longest} d")),
        case("the longest name in a tree", format!("file s/{longest}/{longest}"), "-r s d"),
        case("to the longest name", "file a", format!("a {longest}")),
        case("a name that is too long", "file a", format!("a {too_long}")),
        case("a missing name that is too long", "dir d", format!("{too_long} d")),
        case("a path that is too long", "file a", format!("a {}x", "d/".repeat(2100))),
        case("many slashes", "file a/b; dir d", "a////b .//d//"),
        case("many slashes in a tree", "file a/b/c; dir d", "-rv a///b/// .//d//"),
        case("dots", "file a/b/c; dir d", "-rv ./a/./b/../b d/."),
        case("hidden names", "file s/.a; file s/..b; file s/.t/.c", "-rv s d"),
        case("a name of all bytes", format!("file s/{}", all_bytes()), "-r s d"),
    ]);
    cases
}

fn all_bytes() -> String {
    let allowed = |byte: &u8| !b"/;\n".contains(byte);
    (1..=0xff)
        .filter(allowed)
        .take(250)
        .map(|byte: u8| format!("\\x{byte:02x}"))
        .collect()
}
