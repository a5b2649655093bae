//! The system-call table against the C library's numbers and its own rules.

mod libc_numbers;

use laio::Errno;
use laio::table::{self, Attempt, Class, Opcode, ROWS, Row, Timeout, Transfer};
use std::collections::{HashMap, HashSet};

/// Checks a rule for each row, and reports all rows that break it at once.
fn every_row(rule: &str, holds: impl Fn(&Row) -> bool) {
    let broken: Vec<_> = ROWS
        .iter()
        .filter(|row| !holds(row))
        .map(|row| row.name)
        .collect();
    assert!(broken.is_empty(), "{rule}: {broken:?}");
}

fn by_name() -> HashMap<&'static str, &'static Row> {
    ROWS.iter().map(|row| (row.name, row)).collect()
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn has_every_call_that_libc_knows() {
    for &(name, number) in libc_numbers::LIBC {
        let row = table::row(number as usize);
        assert_eq!(row.name, name.trim_start_matches("SYS_"), "number {number}");
        assert_eq!(row.number().map(libc::c_long::from), Some(number), "{name}");
    }
}

#[test]
fn has_the_numbers_of_aarch64() {
    let rows = by_name();
    for &(name, number) in libc_numbers::AARCH64 {
        assert_eq!(
            rows.get(name).and_then(|row| row.aarch64),
            Some(number),
            "{name}"
        );
    }
}

#[test]
fn newer_calls_have_one_number_on_both() {
    // Since Linux 5.1 a new call gets the same number everywhere.
    every_row("424 and above are common", |row| {
        row.x86_64.max(row.aarch64) < Some(424) || row.x86_64 == row.aarch64
    });
    // x86-64 has no gaps except the one between the old numbers and the common ones.
    let newest = ROWS.iter().filter_map(|row| row.x86_64).max().unwrap();
    let numbers: HashSet<_> = ROWS.iter().filter_map(|row| row.x86_64).collect();
    let missing: Vec<_> = (0..=336)
        .chain(424..=newest)
        .filter(|n| !numbers.contains(n))
        .collect();
    assert!(
        missing.is_empty(),
        "x86-64 numbers without a row: {missing:?}"
    );
}

#[test]
fn no_number_or_name_twice() {
    fn distinct<T: std::hash::Hash + Eq + std::fmt::Debug>(items: impl Iterator<Item = T>) {
        let mut seen = HashSet::new();
        for item in items {
            let shown = format!("{item:?}");
            assert!(seen.insert(item), "{shown} occurs twice");
        }
    }
    distinct(ROWS.iter().map(|row| row.name));
    distinct(ROWS.iter().filter_map(|row| row.x86_64));
    distinct(ROWS.iter().filter_map(|row| row.aarch64));
    every_row("is a call of some architecture", |row| {
        row.x86_64.or(row.aarch64).is_some()
    });
}

#[test]
fn unknown_numbers_go_to_the_background() {
    for number in [400, 511, 512, 100_000, usize::MAX] {
        let row = table::row(number);
        assert_eq!(row.name, table::UNKNOWN.name);
        assert_eq!((row.class, row.attempt), (Class::Waiting, Attempt::Never));
    }
}

#[test]
fn classes_and_attempts_agree() {
    every_row("thread-bound calls are plain", |row| {
        row.class != Class::Thread || (row.attempt == Attempt::Plain && row.opcode.is_none())
    });
    every_row(
        "instant calls have an attempt, and background ones never a plain one",
        |row| match row.class {
            Class::Instant => row.attempt != Attempt::Never,
            Class::Thread => true,
            _ => row.attempt != Attempt::Plain,
        },
    );
    every_row("only thread-bound calls change the identity", |row| {
        !row.changes_identity || row.class == Class::Thread
    });
    every_row(
        "attempts are used with the classes they are for",
        |row| match row.attempt {
            Attempt::NowaitRead => matches!(row.class, Class::Stream | Class::FileRead),
            Attempt::NowaitWrite => matches!(row.class, Class::Stream | Class::FileWrite),
            Attempt::Dontwait(_) => row.class == Class::Stream,
            Attempt::CachedOpen
            | Attempt::CachedStat
            | Attempt::CachedAccess
            | Attempt::PlainIfLocal => row.class == Class::Path,
            Attempt::Flag(..) => matches!(row.class, Class::Stream | Class::Waiting),
            Attempt::ZeroTimeout(..) => row.class == Class::Waiting,
            Attempt::Seek
            | Attempt::Fcntl
            | Attempt::Ioctl
            | Attempt::Close
            | Attempt::Duplicate(_)
            | Attempt::CloseRange => row.class == Class::Instant,
            Attempt::Never | Attempt::Plain => true,
        },
    );
}

#[test]
fn refused_calls_are_only_refused() {
    let refused = |row: &&Row| row.class == Class::Refused;
    for row in ROWS.iter().filter(refused) {
        assert!(
            [Errno::NOSYS, Errno::OPNOTSUPP].contains(&row.refusal),
            "{}",
            row.name
        );
        assert_eq!(row.attempt, Attempt::Never, "{}", row.name);
        assert_eq!(
            (row.opcode, row.transfer),
            (None, Transfer::Whole),
            "{}",
            row.name
        );
        assert!(!row.note.is_empty(), "{} does not say why", row.name);
    }
    assert!(ROWS.iter().any(|row| refused(&row)));
}

#[test]
fn attempts_find_their_arguments() {
    every_row("RWF_NOWAIT is for buffers and vectors", |row| {
        !matches!(row.attempt, Attempt::NowaitRead | Attempt::NowaitWrite)
            || matches!(
                row.transfer,
                Transfer::Buffer { .. } | Transfer::Vector { .. }
            )
    });
    every_row("only transfers with an attempt can be partial", |row| {
        row.transfer == Transfer::Whole || row.attempt != Attempt::Never
    });
    every_row(
        "a positioned transfer is unordered, any other is ordered",
        |row| {
            let (Transfer::Buffer { offset, .. } | Transfer::Vector { offset, .. }) = row.transfer
            else {
                return true;
            };
            let usage = row.descriptors[0].map(|descriptor| descriptor.usage);
            offset.is_some() == (usage == Some(table::Use::Unordered))
        },
    );
    every_row("flags and time-outs are arguments", |row| {
        match row.attempt {
            Attempt::Dontwait(arg) => arg < 6 && is_plain(row, arg),
            Attempt::Flag(arg, flag) => arg < 6 && flag != 0 && is_plain(row, arg),
            Attempt::ZeroTimeout(arg, Timeout::Milliseconds) => arg < 6 && is_plain(row, arg),
            Attempt::ZeroTimeout(arg, Timeout::Timespec | Timeout::Timeval) => {
                arg < 6 && row.pointers & (1 << arg) != 0
            }
            Attempt::Duplicate(arg) => arg < 6 && is_plain(row, arg),
            _ => true,
        }
    });
    every_row("cached attempts need a name", |row| {
        !matches!(
            row.attempt,
            Attempt::CachedOpen | Attempt::CachedStat | Attempt::CachedAccess
        ) || row.file.is_some()
    });
    every_row("attempts on a descriptor need one", |row| {
        !matches!(
            row.attempt,
            Attempt::NowaitRead
                | Attempt::NowaitWrite
                | Attempt::Dontwait(_)
                | Attempt::PlainIfLocal
                | Attempt::Seek
                | Attempt::Fcntl
                | Attempt::Ioctl
                | Attempt::Close
                | Attempt::Duplicate(_)
        ) || row.descriptors[0].is_some_and(|descriptor| descriptor.arg == 0)
    });
    every_row("an open attempt yields a descriptor", |row| {
        row.attempt != Attempt::CachedOpen || row.yields_descriptor
    });
}

/// Neither an address nor a descriptor.
fn is_plain(row: &Row, arg: u8) -> bool {
    row.pointers & (1 << arg) == 0
        && row
            .descriptors
            .iter()
            .flatten()
            .all(|descriptor| descriptor.arg != arg)
}

#[test]
fn arguments_have_one_meaning() {
    every_row("there are six arguments", |row| row.pointers < 1 << 6);
    every_row("a descriptor is no address", |row| {
        row.descriptors.iter().flatten().all(|descriptor| {
            descriptor.arg < 6
                && row.pointers & (1 << descriptor.arg) == 0
                && descriptor
                    .offset_pointer
                    .is_none_or(|arg| row.pointers & (1 << arg) != 0)
        })
    });
    every_row("two descriptors are two arguments", |row| {
        match row.descriptors {
            [Some(first), Some(second)] => first.arg != second.arg,
            [None, Some(_)] => false,
            _ => true,
        }
    });
    every_row(
        "a name is an address, and its directory a descriptor",
        |row| {
            row.file.is_none_or(|name| {
                let directory = |arg| {
                    let usage = table::Use::Directory;
                    let is = |d: &table::Descriptor| d.arg == arg && d.usage == usage;
                    row.descriptors.iter().flatten().any(is)
                };
                row.pointers & (1 << name.path) != 0 && name.directory.is_none_or(directory)
            })
        },
    );
    every_row("flags are an argument", |row| {
        row.flags.is_none_or(|arg| arg < 6 && is_plain(row, arg))
    });
    every_row(
        "only attempts with a flag show in a way of their own that they would wait",
        |row| row.would_wait == table::WouldWait::Again || matches!(row.attempt, Attempt::Flag(..)),
    );
    every_row("a transfer's parts are arguments of their kind", |row| {
        let address = |arg: u8| row.pointers & (1 << arg) != 0;
        let number = |arg: u8| arg < 6 && is_plain(row, arg);
        match row.transfer {
            Transfer::Whole => true,
            Transfer::Buffer {
                pointer,
                length,
                offset,
            } => address(pointer) && number(length) && offset.is_none_or(number),
            Transfer::Vector {
                vector,
                count,
                offset,
                flags,
            } => {
                address(vector)
                    && number(count)
                    && offset.is_none_or(number)
                    && flags.is_none_or(number)
            }
            Transfer::Message { header } => address(header),
            Transfer::Messages { array, count } => address(array) && number(count),
        }
    });
}

#[test]
fn ring_operations_find_their_arguments() {
    every_row("operations on names have a name", |row| {
        !matches!(
            row.opcode,
            Some(
                Opcode::OpenAt
                    | Opcode::OpenAt2
                    | Opcode::Statx
                    | Opcode::MkdirAt
                    | Opcode::UnlinkAt
                    | Opcode::RenameAt
                    | Opcode::LinkAt
                    | Opcode::SymlinkAt
                    | Opcode::GetXattr
                    | Opcode::SetXattr
            )
        ) || row.file.is_some()
    });
    every_row(
        "reads and writes have a transfer of their shape",
        |row| match row.opcode {
            Some(Opcode::Read | Opcode::Write | Opcode::Recv | Opcode::Send) => {
                matches!(row.transfer, Transfer::Buffer { .. })
            }
            Some(Opcode::ReadV | Opcode::WriteV) => matches!(row.transfer, Transfer::Vector { .. }),
            Some(Opcode::RecvMsg | Opcode::SendMsg) => {
                matches!(row.transfer, Transfer::Message { .. })
            }
            _ => true,
        },
    );
    every_row(
        "sockets and opened files are closed when cancelled",
        |row| {
            !matches!(
                row.opcode,
                Some(Opcode::Accept | Opcode::OpenAt | Opcode::OpenAt2 | Opcode::Socket)
            ) || row.yields_descriptor
        },
    );
}
