//! One failing FUSE request, on the side of the source or of the destination, for both programs:
//! messages and trees must be equal.

use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::{Skip, temp};
use libtest_mimic::{Completion, Failed, Trial};

use crate::Verdict;
use crate::compare::{differences, skipped};
use crate::programs::{self, Side};
use crate::run::{self, LIMIT, Ran};
use crate::snapshot::{self, Tree};

use super::faulty_fs::FaultyFixture;

/// A name below the file system (or all), the fault, and the command.
struct Faulty {
    at: &'static str,
    kind: Kind,
    fault: Fault,
    command: &'static str,
    /// A further name below the file system, at which this kind of request also fails with `EIO`.
    also: Option<(&'static str, Kind)>,
    /// Options for `laio cp` only.
    added: &'static str,
    /// Whether the messages are compared: `laio cp` makes other system calls, and its messages name
    /// the one that failed.
    words: bool,
}

pub(super) fn trials() -> Vec<Trial> {
    let faults = all();
    // Messages of `laio cp` that name another call than GNU's: it does not `stat` a file that it
    // opens, and it sets the times last, even if setting the mode failed.
    let told_otherwise = [
        "a source vanishes",
        "a source cannot be looked up",
        "a directory cannot be read",
        "the top cannot be read",
        "attributes of a file fail",
        "attributes of a file fail, EIO",
        "attributes of a directory fail",
        "attributes of a link fail",
        "truncating fails",
    ];
    let named = |(name, faulty): (&'static str, Faulty)| {
        let words = !told_otherwise.contains(&name);
        let faulty = Faulty { words, ..faulty };
        let test = format!("faults::{name}");
        Trial::ignorable_test(test.clone(), move || check(&test, &faulty))
    };
    let closing = closing().into_iter().map(|faulty| {
        let also = faulty.also.map(|(_, kind)| format!("after {kind:?} "));
        let (also, added) = (also.unwrap_or_default(), faulty.added);
        let test = format!("faults::closing: {also}{added} {}", faulty.command);
        Trial::ignorable_test(test.clone(), move || check(&test, &faulty))
    });
    faults.into_iter().map(named).chain(closing).collect()
}

#[rustfmt::skip]
fn all() -> Vec<(&'static str, Faulty)> {
    let fail = |at, kind, errno, command| Faulty {
        at,
        kind,
        fault: Fault::Fail(errno),
        command,
        also: None,
        added: "",
        words: true,
    };
    let short = |at, kind, size, command| Faulty {
        at,
        kind,
        fault: Fault::Short(size),
        command,
        also: None,
        added: "",
        words: true,
    };
    let (from, to) = ("-r FS/s d", "-r s FS/d");
    vec![
        ("nothing goes wrong, from", short("s/b", Kind::Read, 1 << 20, from)),
        ("nothing goes wrong, to", short("d/s/b", Kind::Write, 1 << 20, to)),
        ("reading fails", fail("s/b", Kind::Read, libc::EIO, from)),
        ("reading a single file fails", fail("s/b", Kind::Read, libc::EIO, "FS/s/b d")),
        ("opening fails", fail("s/b", Kind::Open, libc::EIO, from)),
        ("opening is forbidden", fail("s/b", Kind::Open, libc::EACCES, from)),
        ("opening finds too many files", fail("s/b", Kind::Open, libc::ENFILE, from)),
        ("a source vanishes", fail("s/b", Kind::Lookup, libc::ENOENT, from)),
        ("a source cannot be looked up", fail("s/b", Kind::Lookup, libc::EIO, from)),
        ("a directory cannot be opened", fail("s/t", Kind::Opendir, libc::EACCES, from)),
        ("a directory cannot be read", fail("s/t", Kind::Readdir, libc::EIO, from)),
        ("the top cannot be read", fail("s", Kind::Readdir, libc::EIO, from)),
        ("a link cannot be read", fail("s/l", Kind::Readlink, libc::EIO, "-r FS/s d")),
        ("short reads", short("s/b", Kind::Read, 1000, from)),
        ("short reads of one byte", short("s/a", Kind::Read, 1, from)),
        ("short listings", short("s", Kind::Readdir, 1, from)),
        ("creating is forbidden", fail("d/s/b", Kind::Create, libc::EACCES, to)),
        ("creating finds no space", fail("d/s/b", Kind::Create, libc::ENOSPC, to)),
        ("creating on a read-only file system", fail("d/s/b", Kind::Create, libc::EROFS, to)),
        ("writing fails", fail("d/s/b", Kind::Write, libc::EIO, to)),
        ("writing finds no space", fail("d/s/b", Kind::Write, libc::ENOSPC, to)),
        ("writing is over the quota", fail("d/s/b", Kind::Write, libc::EDQUOT, to)),
        ("short writes", short("d/s/b", Kind::Write, 1000, to)),
        ("closing fails", fail("d/s/b", Kind::Flush, libc::EIO, to)),
        ("closing finds no space", fail("d/s/b", Kind::Flush, libc::ENOSPC, to)),
        ("closing a single file fails", fail("d/b", Kind::Flush, libc::EDQUOT, "s/b FS/d")),
        ("making a directory fails", fail("d/s/t", Kind::Mkdir, libc::ENOSPC, to)),
        ("making the top fails", fail("d/s", Kind::Mkdir, libc::EACCES, to)),
        ("making a link fails", fail("d/s/l", Kind::Symlink, libc::EPERM, to)),
        ("making a fifo fails", fail("d/s/p", Kind::Mknod, libc::EPERM, to)),
        ("attributes of a file fail", fail("d/s/b", Kind::Setattr, libc::EPERM, "-rp s FS/d")),
        ("attributes of a file fail, EIO", fail("d/s/b", Kind::Setattr, libc::EIO, "-a s FS/d")),
        ("attributes of a directory fail", fail("d/s/t", Kind::Setattr, libc::EIO, "-a s FS/d")),
        ("attributes of a link fail", fail("d/s/l", Kind::Setattr, libc::EIO, "-a s FS/d")),
        ("removing fails", fail("d/old", Kind::Unlink, libc::EBUSY, "--remove-destination -T s/b FS/d/old")),
        ("renaming for a backup fails", fail("d/old", Kind::Rename, libc::EBUSY, "-bT s/b FS/d/old")),
        ("truncating fails", fail("d/old", Kind::Setattr, libc::EIO, "-T s/b FS/d/old")),
        ("looking at the destination fails", fail("d", Kind::Lookup, libc::EIO, "s/b FS/d")),
        (
            "looking at a name of the destination fails",
            fail("d/old", Kind::Lookup, libc::EIO, "-T s/b FS/d/old"),
        ),
        ("the destination is a stale handle", fail("d/s/b", Kind::Create, libc::ESTALE, to)),
    ]
}

/// `close` fails, for example because the data of a file is over a quota of the server.
fn closing() -> Vec<Faulty> {
    let fail = |at, command| Faulty {
        at,
        kind: Kind::Flush,
        fault: Fault::Fail(libc::EDQUOT),
        command,
        also: None,
        added: "",
        words: true,
    };
    let mut all = vec![
        fail("s/b", "-r FS/s d"),
        fail("s/b", "FS/s/b d"),
        fail("s/b", "-bT FS/s/b old"),
        fail("d/old", "-T s/b FS/d/old"),
        fail("d/old", "-fT s/b FS/d/old"),
        fail("d/old", "-bT s/b FS/d/old"),
        fail("d/old", "--remove-destination -T s/b FS/d/old"),
        fail("d/old", "--attributes-only -T s/b FS/d/old"),
        fail("d/a", "--preserve=links s/a s/h FS/d"),
        fail("d/b", "-p s/b FS/d"),
        fail("d/s/b", "--parents s/b FS/d"),
        fail("d/b", "--sparse=always s/b FS/d"),
    ];
    for added in [
        "--method=copy-file-range",
        "--method=read-write --buffer=64K --queue=4",
        "--direct",
        "--backend=threads",
        "--backend=hybrid --backend-writes",
        "--fsync",
        "--jobs=1 --depth=1",
    ] {
        all.push(Faulty {
            added,
            ..fail("d/s/b", "-r s FS/d")
        });
    }
    // The failed copy is reported once: that it cannot be closed either says nothing new.
    for (name, kind, command) in [
        ("d/s/b", Kind::Write, "-r s FS/d"),
        ("s/b", Kind::Read, "-r FS/s d"),
    ] {
        all.push(Faulty {
            also: Some((name, kind)),
            words: false,
            ..fail(name, command)
        });
    }
    all
}

fn check(test: &str, faulty: &Faulty) -> Verdict {
    let both =
        programs::gnu().and_then(|()| Ok((side(faulty, Side::Gnu)?, side(faulty, Side::Ours)?)));
    let report = match both {
        Ok((theirs, ours)) => differences((&theirs.0, &theirs.1), (&ours.0, &ours.1), faulty.words),
        Err(skip) => return skipped(test, &skip),
    };
    match report.as_str() {
        "" => Ok(Completion::Completed),
        _ => Err(Failed::from(format!("cp {}\n{report}", faulty.command))),
    }
}

/// Runs one program; the contents of the file system are named `FS/...`.
fn side(faulty: &Faulty, side: Side) -> Result<(Ran, Tree), Skip> {
    let lines = "file s/a; file s/b 300000; file s/t/c; link s/l a; fifo s/p; hard s/h s/a; dir d; file old";
    let fixture = FaultyFixture::make(side, lines)?;
    let fs = &fixture.fs;
    for directory in ["s", "s/t", "d"] {
        fs.add_dir(directory);
    }
    for (name, contents) in [("s/a", &b"one"[..]), ("s/t/c", b"three"), ("d/old", b"old")] {
        fs.add_file(name, contents);
    }
    fs.add_file("s/b", &temp::pattern(300_000, 2));
    std::os::unix::fs::symlink("a", fs.join("s/l")).expect("a symbolic link");
    match faulty.at {
        "" => fs.set(faulty.kind, faulty.fault),
        name => fs.set_at(name, faulty.kind, faulty.fault),
    }
    if let Some((name, kind)) = faulty.also {
        fs.set_at(name, kind, Fault::Fail(libc::EIO));
    }
    let added = if side == Side::Ours { faulty.added } else { "" };
    let command = format!("{added} {}", faulty.command);
    let mut ran = run::finish(fixture.start(&command), LIMIT);
    fs.clear_all();
    for text in [&mut ran.stdout, &mut ran.stderr] {
        *text = fixture.without_name(text);
    }
    let old = fixture.world.names();
    let mut tree = snapshot::of(&fixture.world.root, &old);
    let below = snapshot::of(fs.path(), &old);
    tree.extend(
        below
            .into_iter()
            .map(|(name, entry)| ([b"FS/", name.as_slice()].concat(), entry)),
    );
    Ok((ran, tree))
}
