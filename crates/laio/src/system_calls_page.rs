//! `docs/system-calls.md`, generated from the table and from [`crate::placement`].

use crate::attempt::Why;
use crate::background::{Parts, aio};
use crate::composition::{AioLibrary, Composition, RingUse, Strategy};
use crate::operations::Part;
use crate::placement::{Case, Placement, placement};
use crate::table::{Attempt, Class, ROWS, Row, Timeout, row};
use crate::{BackendKind, Options};
use std::fmt::Write;
use std::path::Path;

#[test]
fn is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/system-calls.md");
    let page = page();
    if std::env::var_os("LAIO_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(&path, &page).expect("the page can be written");
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/system-calls.md is not what the table says; to regenerate it:\n\
         LAIO_BLESS=1 cargo test -p laio --lib system_calls_page"
    );
}

/// The classes in the order of the page, with their headings and descriptions.
const CLASSES: [(Class, &str, &str); 8] = [
    (
        Class::Instant,
        "Instant",
        "Never wait for a device or a peer, and have the same effect on every thread. The call \
         itself is made inline.",
    ),
    (
        Class::Thread,
        "Thread",
        "Belong to the calling thread: its identity, signals, credentials, scheduling, or the \
         image of the process. They run plainly, inline, in every back end, even the few that \
         can wait; on another thread they would return or change that thread's state. After a \
         call that *changes the identity* of the thread (credentials, namespaces, filters), \
         helpers started earlier make no later call.",
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
        "Read file data, or read it into the page cache. Cached data is read inline; from the \
         first page that is not cached, the background reads the rest.",
    ),
    (
        Class::FileWrite,
        "FileWrite",
        "Change file data, or wait until it has reached the device. Whether a write can be \
         attempted without blocking depends on the file system (ext4 refuses); laio finds \
         out per mount.",
    ),
    (
        Class::Path,
        "Path",
        "Resolve a name, or read or change a directory or metadata. They are attempted where \
         the kernel can resolve the name from its cache alone.",
    ),
    (
        Class::Waiting,
        "Waiting",
        "Wait by nature: for a time, a child, a lock, an event. The attempt is their \
         non-waiting form, if they have one without side effects when it would wait.",
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
     LAIO_BLESS=1 cargo test -p laio --lib system_calls_page -->

laio has one table with one row per system call, and everything that depends on the call is in its
row. This page shows the table: how each call is attempted without blocking, and how it is made
in the background if it would block.

laio first *attempts* a call, inline. If the attempt does not block, its result is the result of the
call: nothing was queued, and it costs about as much as the plain call. If the call would block, it
becomes an *operation* in the *background*: on the ring, if the call has an io_uring operation and
this machine allows it; else by readiness, if a descriptor reports it; else on a helper thread.
`poll` delivers its result once, and it is that of the plain blocking call.

This is the default back end, `lazy`. The others make no attempt (`threads`, `uring`), or make the
call itself and let another thread continue the program (`activations`), or block (`sync`).
[Placement](#placement) shows what each back end does with each call.

A number that the table does not have belongs to a newer kernel, and may block: a helper thread
makes the call. A kernel that does not have it either returns `ENOSYS`.

Two things can still make an attempt wait: a page fault in the caller's own buffer (swapped out,
or a mapping of a file that is not in memory), and hooks that an administrator adds to calls
(security modules, fanotify permission events).
";

const ATTEMPTS: &str = "\
## Attempts

Arguments count from 0.

| attempt | meaning |
| --- | --- |
| never | There is no attempt: the call goes to the background at once. |
| plain | The call itself, which cannot block. |
| plain if local | The call itself, unless the file is on a remote or FUSE file system. |
| seek | The call itself, unless an operation in flight uses the descriptor's position. |
| NOWAIT read | `preadv2` with `RWF_NOWAIT`. Not repeated on a file system that refuses it. |
| NOWAIT write | `pwritev2` with `RWF_NOWAIT`. |
| MSG_DONTWAIT *n* | The call with `MSG_DONTWAIT` in argument *n*. |
| cached open | `openat2` with `RESOLVE_CACHED`; not if it may create or truncate a file. |
| cached stat | `openat2` with `O_PATH` and `RESOLVE_CACHED`, then the call on that descriptor. |
| cached access | As cached stat, for `faccessat2`. |
| flag *f* in *n* | The call with a flag in argument *n* that makes it fail rather than wait. |
| zero time-out *n* | The call with a time-out of zero in argument *n*. |
| fcntl | Waiting lock commands as their non-waiting form; all other commands plainly. |
| ioctl | Commands that wait for a disk are not attempted; all other commands plainly. |
| close | Operations in flight on the descriptor are cancelled first. |
| duplicate *n* | As close, for the descriptor in argument *n*. |
| close range | As close, for each descriptor in the range. |
";

/// Returns the page as Markdown.
fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push('\n');
    page.push_str(ATTEMPTS);
    counts(&mut page);
    placements(&mut page);
    for (class, heading, text) in CLASSES {
        write!(page, "\n## {heading}\n\n{text}\n\n").expect("a String takes all");
        page.push_str("| name | x86-64 | aarch64 | class | attempt | ring opcode | note |\n");
        page.push_str("| --- | ---: | ---: | --- | --- | --- | --- |\n");
        for row in ROWS.iter().filter(|row| row.class == class) {
            line(&mut page, row, heading);
        }
    }
    let unknown = row(usize::MAX);
    write!(page, "\n`{}`: {}.\n", unknown.name, unknown.note).expect("a String takes all");
    page
}

/// Appends the table of the number of calls per class.
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

const PLACEMENT: &str = "
## Placement

What each back end does with a call that it does not finish inline. The table shows the ordinary
case: the file is local, the name leads to no remote file system and is not that of a device, and the
stream is a socket or pipe in blocking mode and has no time-out. Otherwise a helper makes the call. It
also makes calls with a status word, and the `read`, `write`, `readv` and `writev` of a file at its own
position.

| entry | meaning |
| --- | --- |
| inline | The call itself is made inline. |
| ring | io_uring makes the call. Where the kernel lacks the opcode: as without a ring. |
| readiness | The descriptor's readiness is awaited, on the ring or with epoll; then the call is attempted again. |
| attempt | The call is attempted; if it would block, as `readiness`. |
| AIO | The library of asynchronous file I/O makes the call; `linux-aio` only for `fsync` and for files that are open with `O_DIRECT`, else a helper. |
| carrier | The call blocks in its thread, and another thread continues the program. |
| helper | A helper thread makes the call. |

A `poll` or `ppoll` without a time-out, on one event of one descriptor, waits for its readiness in
every back end but `threads`. The back end `sync` makes all calls inline.

";

/// A back end of the table of placements.
struct Column {
    heading: &'static str,
    composition: Composition,
    has_ring: bool,
}

impl Column {
    fn all() -> Vec<Column> {
        let kinds = BackendKind::ALL.into_iter();
        let kinds = kinds.filter(|&kind| kind != BackendKind::Sync);
        let column = |kind: BackendKind| Column {
            heading: kind.name(),
            composition: Composition::for_backend(kind, &Options::new()),
            has_ring: true,
        };
        let mut columns: Vec<Column> = kinds.map(column).collect();
        let lazy = columns.iter().position(|column| column.heading == "lazy");
        let without_ring = Column {
            heading: "lazy, no ring",
            has_ring: false,
            ..column(BackendKind::Lazy)
        };
        columns.insert(lazy.expect("it is a back end") + 1, without_ring);
        columns
    }

    /// What the back end does with an ordinary call of this row that it does not finish inline.
    fn placement(&self, row: &Row) -> &'static str {
        let Composition {
            strategies,
            ring,
            readiness,
            aio,
            ..
        } = self.composition;
        let why = match strategies[row.class as usize] {
            Strategy::Plain => return "inline",
            Strategy::Carry => return "carrier",
            Strategy::Try if row.attempt != Attempt::Never => Why::WouldBlock,
            Strategy::Try | Strategy::Background => Why::NotTried,
        };
        let parts = Parts {
            ring: self.has_ring && ring != RingUse::Never,
            readiness,
            aio: aio.is_some(),
        };
        let mut case = Case::usual(row, why, parts);
        loop {
            let place = placement(&case);
            match place.part() {
                Some(part) if !has_form(part, row, aio) => case.parts.decline(part),
                _ => return entry(place),
            }
        }
    }
}

/// Whether the part has a form of calls of this row.
fn has_form(part: Part, row: &Row, library: Option<AioLibrary>) -> bool {
    match part {
        // `PollAdd` is how the ring reports readiness.
        Part::Ring | Part::RingWorker => row.opcode.is_some() && !row.polls,
        Part::Aio => library.is_some_and(|library| aio::has_form(library, row)),
        Part::Readiness | Part::Helper | Part::Carrier => true,
    }
}

fn entry(place: Placement) -> &'static str {
    match place {
        Placement::Ring | Placement::RingWorker => "ring",
        Placement::Attempt => "attempt",
        Placement::Readiness => "readiness",
        Placement::Aio => "AIO",
        Placement::Helper(_) => "helper",
    }
}

/// Appends the table of placements: a line for all calls that have the same ones.
fn placements(page: &mut String) {
    page.push_str(PLACEMENT);
    let columns = Column::all();
    let mut lines: Vec<(Vec<&str>, Vec<&Row>)> = Vec::new();
    for (class, _, _) in CLASSES {
        for row in ROWS.iter().filter(|row| row.class == class) {
            let entries = columns.iter().map(|column| column.placement(row));
            let entries: Vec<&str> = entries.collect();
            match lines.iter_mut().find(|(line, _)| *line == entries) {
                Some((_, rows)) => rows.push(row),
                None => lines.push((entries, vec![row])),
            }
        }
    }
    let headings: Vec<String> = columns
        .iter()
        .map(|column| format!("`{}`", column.heading))
        .collect();
    let rule = "| --- ".repeat(columns.len() + 1);
    write!(page, "| {} | calls |\n{rule}|\n", headings.join(" | ")).expect("a String takes all");
    for (entries, rows) in lines {
        writeln!(page, "| {} | {} |", entries.join(" | "), names(&rows))
            .expect("a String takes all");
    }
}

/// The names of calls; the class for all calls of a class.
fn names(rows: &[&Row]) -> String {
    let mut names = Vec::new();
    for (class, heading, _) in CLASSES {
        let of_class: Vec<&&Row> = rows.iter().filter(|row| row.class == class).collect();
        let all = ROWS.iter().filter(|row| row.class == class).count();
        if of_class.len() == all {
            names.push(format!("all of {heading}"))
        } else {
            names.extend(of_class.iter().map(|row| format!("`{}`", row.name)))
        }
    }
    names.join(", ")
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
        Attempt::Seek => "seek".into(),
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
        Attempt::Fcntl => "fcntl".into(),
        Attempt::Ioctl => "ioctl".into(),
        Attempt::Close => "close".into(),
        Attempt::Duplicate(arg) => format!("duplicate {arg}"),
        Attempt::CloseRange => "close range".into(),
    }
}
