//! Mode, owner, times, extended attributes, ACLs.

use crate::case::{Case, case};

/// `cap_net_raw=ep` in the kernel's format.
const CAPABILITY: &str = "0x0100000200200000000000000000000000000000";

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let world = "file s/f; file s/g; dir s/t; file s/t/h; link s/l f; fifo s/p; socket s/k; char s/n 1 3; \
                 mode 4751 s/f; mode 640 s/g; mode 2750 s/t; mode 400 s/t/h; mode 604 s/p; mode 777 s; \
                 own 3:4 s/f s/l s/p; own 0:6 s/g; own 7:0 s/t; xattr s/f user.one 1; xattr s/t user.two 2; \
                 xattr s/f trusted.three 3";
    let mut cases = Vec::new();
    let sets = [
        "",
        "-p",
        "-a",
        "--preserve",
        "--preserve=mode",
        "--preserve=ownership",
        "--preserve=timestamps",
        "--preserve=links",
        "--preserve=xattr",
        "--preserve=all",
        "--preserve=mode,ownership",
        "--preserve=mode,timestamps,xattr",
        "--preserve=mode --preserve=timestamps",
        "-p --no-preserve=mode",
        "-p --no-preserve=ownership",
        "-p --no-preserve=timestamps",
        "-a --no-preserve=all",
        "-a --no-preserve=xattr",
        "-a --no-preserve=mode,ownership",
        "--no-preserve=mode",
        "--no-preserve=all",
        "--no-preserve=mode -p",
        "--archive",
        "-d",
        "-pd",
    ];
    for set in sets {
        cases.push(case(format!("new {set}"), world, format!("-r {set} s d")));
        let over = format!(
            "{world}; file d/s/f; mode 777 d/s/f; own 8:9 d/s/f; dir d/s/t; mode 700 d/s/t; xattr d/s/f user.old 0"
        );
        cases.push(case(format!("over {set}"), over, format!("-r {set} s d")));
        for umask in [0o000, 0o077, 0o777] {
            cases.push(case(format!("umask {umask:o} {set}"), world, format!("-r {set} s d")).umask(umask));
        }
        let plain = "file s/f; dir s/t; file s/t/h; link s/l f; mode 6751 s/f; mode 2750 s/t; mode 400 s/t/h; xattr s/f user.one 1";
        cases.push(case(format!("user {set}"), plain, format!("-r {set} s d")).user());
        let others = format!(
            "{plain}; file s/o; own 0:0 s/f s/o s/t; mode 755 s/t; mode 6755 s/f s/o; mode 444 s/t/h"
        );
        cases.push(case(format!("user, of others {set}"), others, format!("-r {set} s d")).user());
    }
    for mode in ["000", "001", "4000", "6777", "7777", "222", "444", "1644"] {
        for option in ["", "-p", "--no-preserve=mode", "-p --no-preserve=ownership"] {
            cases.push(case(
                format!("mode {mode} {option}"),
                format!("file a; mode {mode} a"),
                format!("{option} a b"),
            ));
        }
    }
    let acl = "u::rw,u:1000:rw,g::r,m::rw,o::";
    let default = "u::rwx,g::rx,g:77:rwx,m::rwx,o::";
    for option in [
        "",
        "-p",
        "-a",
        "--preserve=mode",
        "--preserve=xattr",
        "--preserve=all",
        "--no-preserve=mode",
        "-a --no-preserve=mode",
    ] {
        cases.extend([
            case(format!("ACL {option}"), format!("file a; acl a {acl}"), format!("{option} a b")),
            case(format!("ACL over a file {option}"), format!("file a; acl a {acl}; file b; mode 600 b"), format!("{option} a b")),
            case(format!("ACL over an ACL {option}"), format!("file a; file b; acl b {acl}"), format!("{option} a b")),
            case(format!("ACL of directories {option}"), format!("dir s/t; acl s/t {acl}; dacl s {default}; file s/f"), format!("-r {option} s d")),
            case(format!("inherited ACL {option}"), format!("file s/t/f; mode 751 s/t; dir d; dacl d {default}"), format!("-r {option} s d")),
            case(format!("inherited ACL, umask {option}"), format!("file s/t/f; mode 751 s/t; dir d; dacl d {default}"), format!("-r {option} s d")).umask(0o077),
            case(format!("file capability {option}"), format!("file a; own 3:4 a; xattr a security.capability {CAPABILITY}"), format!("{option} a b")),
            case(format!("many xattrs {option}"), "file a; xattr a user.a 1; xattr a user.b ''; xattr a user.c 0x00ff00; xattr a trusted.d 4", format!("{option} a b")),
            case(format!("xattrs where there can be none {option}"), "link l x; fifo p; dir d; file a; xattr a trusted.x 1; xattr p trusted.y 2; xattr l trusted.z 3", format!("-r {option} l p a d")),
            case(format!("xattrs for a user {option}"), "file a; xattr a user.x 1; xattr a trusted.y 2", format!("{option} a b")).user(),
            case(format!("xattrs of an unwritable file {option}"), "file a; xattr a user.x 1; mode 444 a", format!("{option} a b")).user(),
        ]);
    }
    // With -p, GNU cp 9.1 keeps special bits that the directory has inherited, or had, and the
    // source does not have; newer versions set the mode of the source, as laio cp does.
    for option in ["-rp", "-a", "-r --preserve=mode"] {
        for (what, there) in [
            ("inherited", "own 0:77 d; mode 2775 d"),
            ("existing", "dir d/s; mode 3775 d/s"),
        ] {
            cases.push(
                case(
                    format!("{what} special bits of directories {option}"),
                    format!("file s/f; dir s/t; mode 755 s s/t; dir d; {there}"),
                    format!("{option} s d"),
                )
                .against(format!("cp {option} s d && chmod g-s,-t d/s d/s/t")),
            );
        }
    }
    for option in ["", "--preserve=xattr", "--no-preserve=mode"] {
        let inherited = "file s/f; dir s/t; dir d; own 0:77 d; mode 2775 d";
        cases.push(case(format!("set-group-id directory {option}"), inherited, format!("-r {option} s d")));
    }
    let text = "x".repeat(3000);
    cases.extend([
        case("a large xattr", format!("file a; xattr a user.x {text}"), "-a a b"),
        case(
            "xattrs of a hundred files",
            format!("many s 100; xattr s user.a b; xattr s/00007 user.{} c", "n".repeat(240)),
            "-a s d",
        ),
        case(
            "--atomic, set-ID bits and a capability over a file",
            format!("file a; mode 6755 a; xattr a security.capability {CAPABILITY}; file b; file d/a =old"),
            "-a --no-preserve=ownership a b d",
        )
        .added("--atomic"),
        case("times before 1970", "file a; time -123456789 a", "-p a b"),
        case("times after 2038", "file a; time 4000000000 a", "-p a b"),
        case("times of an overwritten file", "file a; file b =old", "-p a b"),
        case(
            "times of a tree that is there",
            "file s/a; file s/t/b; file d/s/a =old; dir d/s/t; dir d/s/u",
            "-rp s d",
        ),
        case("times of links and fifos", "link s/l x; fifo s/p; socket s/k; char s/c 1 5", "-rp s d"),
        case("ownership without a right", "file a; own 0:0 a", "-p a b").user(),
        case("ownership of a group", "file a; own 54321:0 a; mode 6755 a", "-p a b").user(),
        case("-Z where there is no SELinux", "file a", "-Z a b"),
        case("--context where there is no SELinux", "file a", "--context=x a b"),
        case("--preserve=context where there is no SELinux", "file a", "--preserve=context a b"),
        case("-a --preserve=context where there is no SELinux", "file a", "-a --preserve=context a b"),
        case("--preserve abbreviated", "file a; mode 751 a", "--preserve=m,ti a b"),
        case("--preserve nothing", "file a", "--preserve= a b"),
        case("--preserve unknown", "file a", "--preserve=colour a b"),
        case("--preserve unknown among others", "file a", "--preserve=mode,colour a b"),
        case("--no-preserve without a list", "file a; file b", "--no-preserve a b"),
        case("--no-preserve unknown", "file a", "--no-preserve=x a b"),
        case("--preserve=context,mode", "file a", "--preserve=mode,context a b"),
    ]);
    cases
}
