//! `docs/system-calls.md`, generated from the table.

use super::{Attempt, Class, ROWS, Row, Timeout, UNKNOWN};
use std::fmt::Write;

/// The classes in the order of the page, with their headings and what the page says about them.
const CLASSES: [(Class, &str, &str); 8] = [
    (
        Class::Instant,
        "Instant",
        "Never wait for a device or a peer, and do the same on whichever thread they run. The \
         call itself is made, and its result is there when it returns.",
    ),
    (
        Class::Thread,
        "Thread",
        "Belong to the calling thread: its identity, signals, credentials, scheduling, or the \
         image of the process. They run plainly, inline, in every back end, even the few that \
         can wait; on another thread they would answer or change the wrong thing. After a \
         call that *changes the identity* of the thread for the kernel, helpers started \
         earlier serve no later call.",
    ),
    (
        Class::Stream,
        "Stream",
        "Move bytes, or connections, in order, on a socket, pipe, terminal, or at a file's \
         own position. On one descriptor a later call does not overtake an earlier one of the \
         same direction that is still in the background. A write ends when all its bytes are \
         written.",
    ),
    (
        Class::FileRead,
        "FileRead",
        "Read file data, or see to it that it is in memory. What is resident is read inline; \
         from the first page that is not, the rest goes on in the background.",
    ),
    (
        Class::FileWrite,
        "FileWrite",
        "Change file data, or wait until it has reached the device. Whether a write can be \
         tried without blocking depends on the file system (ext4 refuses); this is found out \
         per mount.",
    ),
    (
        Class::Path,
        "Path",
        "Resolve a name, or read or change a directory or metadata. They are tried where the \
         kernel can resolve a name from its cache one_shot.",
    ),
    (
        Class::Waiting,
        "Waiting",
        "Wait by nature: for a time, a child, a lock, an event. They are tried in their \
         non-waiting form where they have one that leaves no trace when it finds nothing.",
    ),
    (
        Class::Refused,
        "Refused",
        "Make no sense through laio, and fail at once with the errno in the note.",
    ),
];

const INTRODUCTION: &str = "\
# System calls

<!-- Generated from crates/laio/src/table/rows.rs. To regenerate:
     LAIO_BLESS=1 cargo test -p laio --test suite table -->

Everything in laio that depends on which system call it is comes from one table with one row per
call. This page is that table for reading. It says for each call how it is tried without
blocking, and what stands behind it when it would block.

A call is first *attempted*, inline. If the attempt tells the outcome, that is the result of the
call: nothing was queued, and the price was that of a plain call, or near it. If the attempt
says that the call would block, the call becomes an *operation* in the *background*: on the
ring, if the call has an io_uring operation and this machine allows it; otherwise by waiting for
readiness, where a descriptor tells it; otherwise on a helper thread. Its result is delivered
once, by `poll`, and is that of the plain blocking call.

This is the default back end, `lazy`. The others leave out the attempt (`threads`, `uring`), or
make the call itself and let another thread carry the application on (`activations`), or just
block (`sync`); for calls of the classes Instant and Thread they differ little, for Refused not
at all.

A number that the table does not have belongs to a newer kernel, and may block: the call goes to
a helper thread. On a kernel without it the answer is `ENOSYS`.

Two things can still make an attempt wait: a page fault in the caller's own buffer (swapped out,
or a mapping of a file that is not in memory), and hooks that an administrator puts into calls
(security modules, fanotify permission events).
";

const ATTEMPTS: &str = "\
## Attempts

Arguments count from 0.

| attempt | meaning |
| --- | --- |
| never | No strategy is known: straight to the background. |
| plain | The call itself, which cannot block. |
| plain if local | The call itself, unless the file system has a server behind it (NFS, FUSE). |
| position | The call itself, unless an operation in flight uses the descriptor's position. |
| NOWAIT read | `preadv2` with `RWF_NOWAIT`. A file system that refuses it is remembered. |
| NOWAIT write | `pwritev2` with `RWF_NOWAIT`. |
| MSG_DONTWAIT *n* | The call with `MSG_DONTWAIT` in argument *n*. |
| cached open | `openat2` with `RESOLVE_CACHED`; what must create or truncate a file is not tried. |
| cached stat | `openat2` with `O_PATH` and `RESOLVE_CACHED`, then the call on that descriptor. |
| cached access | As cached stat, for `faccessat2`. |
| flag *f* in *n* | The call with a flag in argument *n* that makes it fail rather than wait. |
| zero time-out *n* | The call with a time-out of zero in argument *n*. |
| lock command | Waiting lock commands as their non-waiting form; all other commands plainly. |
| disk command | Commands that wait for a disk are not tried; all other commands plainly. |
| close | What is in flight on the descriptor is cancelled first. |
| replace *n* | As close, for the descriptor in argument *n*. |
| close range | As close, for each descriptor in the range. |
";

/// The page as Markdown.
pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push('\n');
    page.push_str(ATTEMPTS);
    counts(&mut page);
    for (class, heading, text) in CLASSES {
        write!(page, "\n## {heading}\n\n{text}\n\n").expect("a String takes all");
        page.push_str("| name | x86-64 | aarch64 | class | attempt | ring opcode | note |\n");
        page.push_str("| --- | ---: | ---: | --- | --- | --- | --- |\n");
        for row in ROWS.iter().filter(|row| row.class == class) {
            line(&mut page, row, heading);
        }
    }
    write!(page, "\n`{}`: {}.\n", UNKNOWN.name, UNKNOWN.note).expect("a String takes all");
    page
}

/// How many calls there are of which kind.
fn counts(page: &mut String) {
    page.push_str("\n## Counts\n\n");
    page.push_str("| class | calls | x86-64 | aarch64 | with an attempt | with a ring opcode |\n");
    page.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
    let mut add = |heading: &str, class: Option<Class>| {
        let count = |property: fn(&Row) -> bool| {
            let of_class = |row: &&Row| class.is_none_or(|class| row.class == class);
            ROWS.iter()
                .filter(of_class)
                .filter(|row| property(row))
                .count()
        };
        writeln!(
            page,
            "| {heading} | {} | {} | {} | {} | {} |",
            count(|_| true),
            count(|row| row.x86_64.is_some()),
            count(|row| row.aarch64.is_some()),
            count(|row| row.attempt != Attempt::Never),
            count(|row| row.opcode.is_some()),
        )
        .expect("a String takes all");
    };
    for (class, heading, _) in CLASSES {
        add(heading, Some(class));
    }
    add("all", None);
}

fn line(page: &mut String, row: &Row, class: &str) {
    let number = |number: Option<u16>| number.map_or("–".into(), |number| number.to_string());
    let opcode = row
        .opcode
        .map_or("–".into(), |opcode| format!("{opcode:?}"));
    let mut note = row.note.to_string();
    let mut remark = |remark: String| {
        if !note.is_empty() {
            note.push_str("; ");
        }
        note.push_str(&remark);
    };
    if row.changes_identity {
        remark("changes the identity".into());
    }
    if row.class == Class::Refused {
        remark(format!("fails with {:?}", row.refusal));
    }
    writeln!(
        page,
        "| `{}` | {} | {} | {class} | {} | {opcode} | {note} |",
        row.name,
        number(row.x86_64),
        number(row.aarch64),
        attempt(row),
    )
    .expect("a String takes all");
}

fn attempt(row: &Row) -> String {
    match row.attempt {
        Attempt::Never if row.class == Class::Refused => "–".into(),
        Attempt::Never => "never".into(),
        Attempt::Plain => "plain".into(),
        Attempt::PlainIfLocal => "plain if local".into(),
        Attempt::Position => "position".into(),
        Attempt::NowaitRead => "NOWAIT read".into(),
        Attempt::NowaitWrite => "NOWAIT write".into(),
        Attempt::Dontwait(arg) => format!("MSG_DONTWAIT {arg}"),
        Attempt::CachedOpen => "cached open".into(),
        Attempt::CachedStat => "cached stat".into(),
        Attempt::CachedAccess => "cached access".into(),
        Attempt::Flag(arg, flag) => format!("flag {flag:#x} in {arg}"),
        Attempt::ZeroTimeout(arg, Timeout::Milliseconds) => format!("zero time-out {arg} (ms)"),
        Attempt::ZeroTimeout(arg, Timeout::Timespec) => format!("zero time-out {arg} (timespec)"),
        Attempt::ZeroTimeout(arg, Timeout::Timeval) => format!("zero time-out {arg} (timeval)"),
        Attempt::LockCommand => "lock command".into(),
        Attempt::DiskCommand => "disk command".into(),
        Attempt::Close => "close".into(),
        Attempt::Replace(arg) => format!("replace {arg}"),
        Attempt::CloseRange => "close range".into(),
    }
}
