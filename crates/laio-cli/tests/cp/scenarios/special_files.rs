//! FIFOs, sockets, devices.

use crate::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    let all = "fifo s/p; socket s/k; char s/n 1 3; block s/b 7 77; file s/f; mode 600 s/p; own 3:4 s/n; mode 4711 s/k";
    let mut cases = Vec::new();
    for option in [
        "-r",
        "-a",
        "-rp",
        "-R",
        "-rL",
        "-rv",
        "-rl",
        "-rn",
        "-rb",
        "-ru",
        "-r --attributes-only",
    ] {
        cases.push(case(
            format!("all kinds {option}"),
            all,
            format!("{option} s d"),
        ));
        let over = format!("{all}; fifo d/s/p; socket d/s/k; char d/s/n 1 5; file d/s/b");
        cases.push(case(
            format!("over an existing file {option}"),
            over,
            format!("{option} s d"),
        ));
    }
    for option in ["-r", "-a", "-P", "-d"] {
        for name in ["p", "k", "n", "b"] {
            if option.contains('r') || option.contains('a') {
                cases.push(case(
                    format!("one {option} {name}"),
                    all,
                    format!("{option} s/{name} x"),
                ));
            }
        }
    }
    #[rustfmt::skip]
    cases.extend([
        case("a fifo's contents", "fifo p", "p b").feed("p", "through the pipe\n"),
        case("a fifo's contents over a file", "fifo p; file b 10000", "p b")
        .feed("p", "through the pipe\n"),
        case("a fifo's contents, --copy-contents", "fifo s/p", "-r --copy-contents s d")
        .feed("s/p", "through the pipe\n"),
        case("a fifo's contents with -p", "fifo p; mode 640 p", "--preserve=mode p b")
        .feed("p", "through the pipe\n"),
        case("a socket's contents", "socket k", "k b"),
        case("a device's contents", "char n 1 3", "n b"),
        case("a device's contents, --copy-contents", "char s/n 1 3", "-r --copy-contents s d"),
        case("a device that is not there", "char n 240 250", "n b"),
        case(
            "a tree of devices as a user",
            "fifo s/p; socket s/k; file s/f; char s/n 1 3; own 54321:54321 s/n",
            "-r s d",
        )
        .user(),
        case("a fifo's link", "fifo p; link l p; dir d", "-r l d"),
        case("umask and special files", all, "-r s d").umask(0o77),
    ]);
    cases
}
