//! Generates random programs.

use super::step::{At, Buffer, Data, Fd, Name, Program, SLOTS, Step, Via};
use crate::Random;

/// Few names, so that steps use the same files; some of them are invalid.
const NAMES: &[Name] = &[
    "a",
    "a",
    "a",
    "b",
    "b",
    "c",
    "dir",
    "dir",
    "dir/a",
    "dir/a",
    "dir/b",
    "dir/sub",
    "dir/sub/a",
    "link",
    "dir/link",
    "fifo",
    "dir/fifo",
    "",
    ".",
    "dir/..",
    "dir/.",
    "missing/a",
    "a/b",
    "dir/",
    LONG_NAME,
];

/// One byte longer than the limit of file systems.
const LONG_NAME: Name = "longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong";

/// Targets of symbolic links. None leads out of the root.
const TARGETS: &[Name] = &["a", "b", "dir", "dir/a", "link", "missing", ".", "", "sub"];

/// Lengths around the sizes of pages and of the files.
const LENGTHS: &[usize] = &[0, 1, 7, 100, 511, 512, 4095, 4096, 4097, 10_000, 60_000];
const SMALL_LENGTHS: &[usize] = &[0, 1, 2, 5, 17, 100, 1000, 4096];
/// No call transfers this many bytes: calls refuse it, or the buffer would not fit into any address space.
const HUGE_LENGTHS: &[usize] = &[usize::MAX, isize::MAX as usize + 1];

const OFFSETS: &[i64] = &[
    0,
    0,
    1,
    10,
    100,
    4096,
    8191,
    9_999,
    10_000,
    20_000,
    200_000,
    -1,
    -2,
    i64::MIN,
    i64::MAX,
];
/// As [`OFFSETS`] where a file may grow to the offset: without the largest.
const SIZES: &[i64] = &[
    0,
    0,
    1,
    10,
    100,
    4096,
    8191,
    10_000,
    20_000,
    200_000,
    -1,
    i64::MIN,
];

/// As [`SIZES`], for calls in which two invalid sizes would be too many.
const RANGES: &[i64] = &[0, 0, 1, 4096, 8191, 10_000, 20_000, 200_000, -1];

/// The owner keeps these permissions on directories, so that they can be removed afterwards.
const MODES: &[u32] = &[0o700, 0o755, 0o777, 0o711];
const FILE_MODES: &[u32] = &[0o600, 0o644, 0o666, 0o000, 0o4755];

impl Program {
    /// Returns a random program: a few steps that create files and descriptors, and then random steps.
    pub fn random(random: &mut Random, steps: usize) -> Program {
        let mut program = Program { steps: beginning() };
        program.steps.extend((0..steps).map(|_| step(random)));
        program
    }
}

/// Opens files with data in the first slots, so that some steps succeed.
pub(super) fn beginning() -> Vec<Step> {
    let (flags, mode) = (libc::O_RDWR | libc::O_CREAT, 0o644);
    let open = |name, into| Step::Open {
        name,
        via: Via::Root,
        flags,
        mode,
        into,
    };
    let write = |slot, length| Step::Write {
        fd: Fd::Slot(slot),
        buffer: Buffer::Good,
        data: Data { seed: slot, length },
        claim: None,
    };
    vec![
        Step::MakeDirectory {
            name: "dir",
            via: Via::Root,
            mode: 0o755,
        },
        open("a", 0),
        write(0, 10_000),
        open("dir/a", 1),
        write(1, 100),
        Step::Symlink {
            target: "dir/a",
            name: "link",
            via: Via::Root,
        },
        Step::Open {
            name: "dir",
            via: Via::Root,
            flags: libc::O_RDONLY,
            mode: 0,
            into: 2,
        },
    ]
}

fn step(r: &mut Random) -> Step {
    match r.below(100) {
        0..14 => open(r),
        14..16 => Step::Close { fd: any_fd(r) },
        16..18 => Step::Duplicate {
            fd: any_fd(r),
            close_on_exec: r.chance(1, 2),
            into: slot(r),
        },
        18..26 => Step::Read {
            fd: any_fd(r),
            buffer: buffer(r),
            length: length(r),
        },
        26..31 => {
            let (fd, buffer, length) = (any_fd(r), buffer(r), length(r));
            Step::ReadAt {
                fd,
                buffer,
                length,
                offset: *r.pick(OFFSETS),
            }
        }
        31..34 => read_vector(r),
        34..41 => write(r),
        41..45 => {
            let (fd, buffer, data) = (any_fd(r), buffer(r), data(r));
            Step::WriteAt {
                fd,
                buffer,
                data,
                offset: *r.pick(SIZES),
            }
        }
        45..48 => write_vector(r),
        48..52 => seek(r),
        52..55 => status(r),
        55..58 => resize(r),
        58..62 => make(r),
        62..67 => remove_or_move(r),
        67..71 => look(r),
        71..73 => Step::List {
            fd: *r.pick(&[Fd::Slot(2), Fd::Slot(2), Fd::Root, Fd::Slot(0)]),
            length: *r.pick(&[8, 32 * 1024, 32 * 1024]),
        },
        73..75 => Step::Sync {
            fd: any_fd(r),
            data_only: r.chance(1, 2),
        },
        75..78 => flags(r),
        78..84 => pipe_step(r),
        84..93 => socket_step(r),
        93..95 => Step::SendFile {
            to: any_fd(r),
            from: any_fd(r),
            offset: r.chance(1, 2).then(|| *r.pick(OFFSETS)),
            length: *r.pick(LENGTHS),
        },
        95..97 => Step::CopyRange {
            from: any_fd(r),
            to: any_fd(r),
            length: *r.pick(LENGTHS),
            flags: u32::from(r.chance(1, 10)),
        },
        97..99 => read_fed(r),
        _ => write_drained(r),
    }
}

fn slot(r: &mut Random) -> u8 {
    r.below(usize::from(SLOTS)) as u8
}

fn any_fd(r: &mut Random) -> Fd {
    match r.below(40) {
        0 => Fd::PipeRead,
        1 => Fd::PipeWrite,
        2 => Fd::Left,
        3 => Fd::PacketRight,
        4 => Fd::Root,
        5 => *r.pick(&[
            Fd::Number(-1),
            Fd::Number(1_000_000),
            Fd::Number(i32::MAX),
            Fd::Number(libc::AT_FDCWD),
        ]),
        6..16 => Fd::Slot(0),
        16..24 => Fd::Slot(1),
        _ => Fd::Slot(slot(r)),
    }
}

fn any_socket(r: &mut Random) -> Fd {
    *r.pick(&[
        Fd::Left,
        Fd::Right,
        Fd::Left,
        Fd::Right,
        Fd::PacketLeft,
        Fd::PacketRight,
    ])
}

fn name(r: &mut Random) -> Name {
    r.pick::<Name>(NAMES)
}

/// One of these, or any value.
fn name_like(r: &mut Random, likely: &'static [Name]) -> Name {
    if r.chance(1, 2) {
        r.pick::<Name>(likely)
    } else {
        name(r)
    }
}

fn via(r: &mut Random) -> Via {
    *r.pick(&[Via::Root, Via::Root, Via::Absolute, Via::Legacy])
}

fn buffer(r: &mut Random) -> Buffer {
    match r.below(30) {
        0 => Buffer::Null,
        1 => Buffer::One,
        2 => Buffer::Kernel,
        _ => Buffer::Good,
    }
}

fn length(r: &mut Random) -> usize {
    if r.chance(1, 30) {
        *r.pick(HUGE_LENGTHS)
    } else {
        *r.pick(LENGTHS)
    }
}

fn data(r: &mut Random) -> Data {
    Data {
        seed: r.bits() as u8,
        length: *r.pick(LENGTHS),
    }
}

fn small_data(r: &mut Random) -> Data {
    Data {
        seed: r.bits() as u8,
        length: *r.pick(SMALL_LENGTHS),
    }
}

fn open(r: &mut Random) -> Step {
    let access = *r.pick(&[libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_RDWR]);
    let mut flags = access;
    let extras = [
        (libc::O_CREAT, 3),
        (libc::O_CREAT | libc::O_EXCL, 10),
        (libc::O_TRUNC, 10),
        (libc::O_APPEND, 6),
        (libc::O_DIRECTORY, 8),
        (libc::O_NOFOLLOW, 10),
        (libc::O_CLOEXEC, 3),
        (libc::O_NONBLOCK, 6),
        (libc::O_DSYNC, 20),
        (libc::O_SYNC, 20),
        (libc::O_PATH, 15),
        (libc::O_TMPFILE, 20),
    ];
    for (extra, one_in) in extras {
        if r.chance(1, one_in) {
            flags |= extra;
        }
    }
    let (name, into, mode) = (name(r), slot(r), *r.pick(FILE_MODES));
    if r.chance(1, 5) {
        // RESOLVE_CACHED may fail in one world and not in the other.
        let resolve = *r.pick(&[
            0,
            libc::RESOLVE_BENEATH,
            libc::RESOLVE_IN_ROOT,
            libc::RESOLVE_NO_SYMLINKS,
            libc::RESOLVE_NO_MAGICLINKS,
            1 << 40,
        ]);
        // A mode without creating a file is refused.
        let mode = if flags & libc::O_CREAT != 0 || r.chance(1, 10) {
            u64::from(mode)
        } else {
            0
        };
        return Step::OpenResolved {
            name,
            flags: flags as u64,
            mode,
            resolve,
            into,
        };
    }
    Step::Open {
        name,
        via: via(r),
        flags,
        mode,
        into,
    }
}

fn at(r: &mut Random, offsets: &[i64], flags: &[i32]) -> At {
    match r.below(4) {
        0 => At::Offset(*r.pick(offsets)),
        1 => At::Flags(*r.pick(offsets), *r.pick(flags)),
        _ => At::Position,
    }
}

fn count(r: &mut Random) -> Option<usize> {
    // More than the kernel accepts, or negative.
    r.chance(1, 20).then(|| *r.pick(&[1025, usize::MAX]))
}

fn bad(r: &mut Random, count: usize) -> Option<usize> {
    (count > 0 && r.chance(1, 10)).then(|| r.below(count))
}

/// No flag that depends on the cache, in which worlds may differ.
const UNKNOWN_FLAG: i32 = 1 << 30;

fn read_vector(r: &mut Random) -> Step {
    let lengths: Vec<usize> = (0..r.below(4)).map(|_| *r.pick(LENGTHS)).collect();
    let (bad, at) = (bad(r, lengths.len()), at(r, OFFSETS, &[0, 0, UNKNOWN_FLAG]));
    Step::ReadVector {
        fd: any_fd(r),
        lengths,
        bad,
        count: count(r),
        at,
    }
}

fn write(r: &mut Random) -> Step {
    let claim = r.chance(1, 30).then(|| *r.pick(HUGE_LENGTHS));
    Step::Write {
        fd: any_fd(r),
        buffer: buffer(r),
        data: data(r),
        claim,
    }
}

fn write_vector(r: &mut Random) -> Step {
    let data: Vec<Data> = (0..r.below(4)).map(|_| data(r)).collect();
    let flags = [0, libc::RWF_DSYNC, libc::RWF_APPEND, UNKNOWN_FLAG];
    let (bad, at) = (bad(r, data.len()), at(r, SIZES, &flags));
    Step::WriteVector {
        fd: any_fd(r),
        data,
        bad,
        count: count(r),
        at,
    }
}

fn seek(r: &mut Random) -> Step {
    let whence = [
        libc::SEEK_SET,
        libc::SEEK_SET,
        libc::SEEK_CUR,
        libc::SEEK_END,
        libc::SEEK_DATA,
        77,
    ];
    Step::Seek {
        fd: any_fd(r),
        offset: *r.pick(SIZES),
        whence: *r.pick(&whence),
    }
}

fn status(r: &mut Random) -> Step {
    match r.below(3) {
        0 => Step::StatFd {
            fd: any_fd(r),
            buffer: buffer(r),
        },
        1 => {
            let flags = [0, libc::AT_SYMLINK_NOFOLLOW, libc::AT_EMPTY_PATH, 1 << 20];
            Step::StatName {
                name: name(r),
                via: via(r),
                flags: *r.pick(&flags),
            }
        }
        _ => {
            let flags = [0, libc::AT_SYMLINK_NOFOLLOW, libc::AT_EMPTY_PATH];
            Step::Statx {
                name: name(r),
                flags: *r.pick(&flags),
                mask: libc::STATX_BASIC_STATS,
            }
        }
    }
}

fn resize(r: &mut Random) -> Step {
    match r.below(3) {
        0 => Step::Truncate {
            fd: any_fd(r),
            length: *r.pick(SIZES),
        },
        1 => Step::TruncateName {
            name: name(r),
            length: *r.pick(SIZES),
        },
        _ => {
            let keep = libc::FALLOC_FL_KEEP_SIZE;
            let modes = [
                0,
                keep,
                keep | libc::FALLOC_FL_PUNCH_HOLE,
                libc::FALLOC_FL_ZERO_RANGE,
                1 << 20,
            ];
            let (fd, mode) = (any_fd(r), *r.pick(&modes));
            let (offset, length) = (*r.pick(RANGES), *r.pick(RANGES));
            Step::Allocate {
                fd,
                mode,
                offset,
                length,
            }
        }
    }
}

fn make(r: &mut Random) -> Step {
    match r.below(5) {
        0 | 1 => Step::MakeDirectory {
            name: name_like(r, &["b", "c", "dir/sub", "dir/b"]),
            via: via(r),
            mode: *r.pick(MODES),
        },
        2 => Step::MakeFifo {
            name: r.pick::<Name>(&["fifo", "dir/fifo", "a"]),
            mode: 0o600,
        },
        _ => Step::Symlink {
            target: r.pick::<Name>(TARGETS),
            name: r.pick::<Name>(&["link", "dir/link", "link", "c", "a", "missing/a", ""]),
            via: via(r),
        },
    }
}

fn remove_or_move(r: &mut Random) -> Step {
    match r.below(6) {
        0 | 1 => Step::Unlink {
            name: name(r),
            via: via(r),
        },
        2 => Step::RemoveDirectory {
            name: name_like(r, &["b", "c", "dir/sub"]),
            via: via(r),
        },
        3 | 4 => {
            let flags = [0, 0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE, 1 << 10];
            Step::Rename {
                from: name_like(r, &["a", "b", "dir/a", "dir/b", "link"]),
                to: name_like(r, &["a", "b", "c", "dir/a", "dir/b"]),
                via: via(r),
                flags: *r.pick(&flags),
            }
        }
        _ => {
            let flags = [0, 0, libc::AT_SYMLINK_FOLLOW, 1 << 20];
            Step::Link {
                from: name_like(r, &["a", "dir/a", "link"]),
                to: name_like(r, &["b", "c", "dir/b"]),
                via: via(r),
                flags: *r.pick(&flags),
            }
        }
    }
}

fn look(r: &mut Random) -> Step {
    match r.below(3) {
        0 => Step::ReadLink {
            name: name_like(r, &["link", "dir/link"]),
            via: via(r),
            length: *r.pick(&[0, 1, 3, 100]),
        },
        1 => {
            let modes = [
                libc::F_OK,
                libc::R_OK,
                libc::W_OK | libc::R_OK,
                libc::X_OK,
                64,
            ];
            Step::Access {
                name: name(r),
                via: via(r),
                mode: *r.pick(&modes),
            }
        }
        _ => Step::ChangeMode {
            fd: any_fd(r),
            mode: *r.pick(MODES),
        },
    }
}

fn flags(r: &mut Random) -> Step {
    let fd = any_fd(r);
    match r.below(4) {
        0 => Step::GetFdFlags { fd },
        1 => Step::SetFlags {
            fd,
            flags: *r.pick(&[0, libc::O_APPEND, libc::O_NONBLOCK]),
        },
        _ => Step::GetFlags { fd },
    }
}

fn pipe_step(r: &mut Random) -> Step {
    if r.chance(1, 2) {
        let (fd, buffer) = (Fd::PipeWrite, buffer(r));
        Step::Write {
            fd,
            buffer,
            data: small_data(r),
            claim: None,
        }
    } else {
        Step::Read {
            fd: Fd::PipeRead,
            buffer: buffer(r),
            length: *r.pick(SMALL_LENGTHS),
        }
    }
}

fn socket_step(r: &mut Random) -> Step {
    let fd = if r.chance(1, 20) {
        any_fd(r)
    } else {
        any_socket(r)
    };
    let sending = [0, 0, libc::MSG_NOSIGNAL, libc::MSG_DONTWAIT, libc::MSG_MORE];
    let receiving = [
        0,
        0,
        libc::MSG_DONTWAIT,
        libc::MSG_PEEK,
        libc::MSG_WAITALL,
        libc::MSG_TRUNC,
    ];
    match r.below(20) {
        0..6 => Step::Send {
            fd,
            buffer: buffer(r),
            data: small_data(r),
            flags: *r.pick(&sending),
        },
        6..9 => {
            let data = (0..r.below(4)).map(|_| small_data(r)).collect();
            Step::SendMessage {
                fd,
                data,
                flags: *r.pick(&sending),
            }
        }
        9..15 => {
            let (buffer, length) = (buffer(r), *r.pick(SMALL_LENGTHS));
            Step::Receive {
                fd,
                buffer,
                length,
                flags: *r.pick(&receiving),
            }
        }
        15..18 => {
            let lengths = (0..r.below(4)).map(|_| *r.pick(SMALL_LENGTHS)).collect();
            Step::ReceiveMessage {
                fd,
                lengths,
                flags: *r.pick(&receiving),
            }
        }
        18 => Step::Write {
            fd,
            buffer: Buffer::Good,
            data: small_data(r),
            claim: None,
        },
        _ if r.chance(1, 4) => Step::Shutdown {
            fd,
            how: r.below(4) as i32,
        },
        _ => Step::Read {
            fd,
            buffer: Buffer::Good,
            length: *r.pick(SMALL_LENGTHS),
        },
    }
}

fn read_fed(r: &mut Random) -> Step {
    let fds = [
        Fd::PipeRead,
        Fd::Left,
        Fd::Right,
        Fd::PacketLeft,
        Fd::PacketRight,
    ];
    let feed = Data {
        seed: r.bits() as u8,
        length: r.between(1..4096),
    };
    Step::ReadFed {
        fd: *r.pick(&fds),
        length: *r.pick(&SMALL_LENGTHS[1..]),
        feed,
    }
}

fn write_drained(r: &mut Random) -> Step {
    let data = Data {
        seed: r.bits() as u8,
        length: r.between(1..300_000),
    };
    Step::WriteDrained {
        fd: *r.pick(&[Fd::PipeWrite, Fd::Left, Fd::Right]),
        data,
    }
}
