//! Data: holes, sizes, methods.

use crate::case::{Case, case};

#[rustfmt::skip]
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let files = [
        ("a hole at the start", "holes a 8M 7M+1M"),
        ("a hole in the middle", "holes a 8M 0+1M 7M+1M"),
        ("a hole at the end", "holes a 8M 0+1M"),
        ("a hole only", "holes a 8M"),
        ("many holes", "holes a 16M 1M+4K 3M+64K 7M+1 9M+100K 15M+3"),
        ("an odd size", "holes a 5000001 1000000+12345"),
        ("zeros", "zeros a 2M"),
        ("zeros at the end", "zeros a 2M; holes x 1M"),
        ("data", "file a 3000000"),
        ("nothing", "file a ="),
        ("one byte", "file a =x"),
        ("a small hole", "holes a 8192 4096+4096"),
    ];
    for (name, setup) in files {
        for option in [
            "",
            "--sparse=auto",
            "--sparse=always",
            "--sparse=never",
            "--reflink=auto",
            "--reflink=never",
            "--reflink=never --sparse=always",
            "--reflink=always",
            "--reflink",
            "--reflink=always --sparse=always",
        ] {
            cases.push(case(format!("{name} {option}").trim(), setup, format!("{option} a b")));
        }
        cases.push(case(format!("{name}, over data"), format!("{setup}; file b 9000000"), "a b"));
        cases.push(case(
            format!("{name}, over data, --sparse=always"),
            format!("{setup}; file b 9000000"),
            "--sparse=always a b",
        ));
        cases.push(case(
            format!("{name}, to another file system"),
            format!(
                "{}; mount m",
                setup
                    .replace("8M", "900K")
                    .replace("7M+1M", "800K+64K")
                    .replace("0+1M", "0+64K")
                    .replace("16M", "990K")
                    .replace(" 2M", " 500K")
                    .replace("3000000", "300000")
                    .replace("5000001 1000000", "500001 100000")
                    .replace("1M+4K 3M+64K 7M+1 9M+100K 15M+3", "100K+4K 300K+1")
            ),
            "a m",
        ));
    }
    for size in [
        1, 4095, 4096, 4097, 65535, 65536, 131_071, 131_073, 262_143, 262_144, 262_145, 1_048_577,
    ] {
        cases.push(case(format!("{size} bytes"), format!("file a {size}"), "a b"));
        cases.push(case(
            format!("{size} bytes, --sparse=always"),
            format!("file a {size}"),
            "--sparse=always a b",
        ));
    }
    cases.extend([
        case("a size that is not there", "file a", "--sparse=some a b"),
        case("a reflink that is not there", "file a", "--reflink=some a b"),
        case("abbreviations of values", "file a", "--sparse=alw --reflink=nev a b"),
        case("a tree of sparse files", "holes s/a 4M 1M+4K; holes s/t/b 4M; zeros s/c 1M", "-r s d"),
        case(
            "a tree of sparse files, always",
            "holes s/a 4M 1M+4K; holes s/t/b 4M; zeros s/c 1M",
            "-a --sparse=always s d",
        ),
        case("a tree of sparse files, never", "holes s/a 2M 1M+4K; holes s/t/b 2M", "-a --sparse=never s d"),
        case("a file in /proc", "dir d", "/proc/version d"),
        case("a file in /proc, -p", "dir d", "-p /proc/version d").any_output(),
        case("files in /proc", "dir d", "/proc/filesystems /proc/cmdline d"),
        case("a file in /proc, --sparse=always", "dir d", "--sparse=always /proc/filesystems d"),
        case("a file in /sys", "dir d", "/sys/kernel/mm/transparent_hugepage/enabled d"),
        case("a tree in /proc", "dir d", "-r /proc/sys/kernel/keys d"),
        case("a tree in /sys", "dir d", "-r /sys/kernel/mm/hugepages d"),
        case("to a file in /proc that refuses", "file a", "a /proc/version"),
        case("a file that becomes too large", "file a 100000", "a b")
            .after("trap '' XFSZ; ulimit -f 16")
            .any_output(),
        case(
            "a file that becomes too large, of several",
            "file s/a 100000; file s/b; file s/c 50000",
            "-r s d",
        )
        .after("trap '' XFSZ; ulimit -f 16")
        .any_output(),
        case("a full file system", "file a 3000000; mount m", "a m").any_output(),
    ]);
    cases
}
