//! Statistics: `laio_stats`, `laio_call_stats`, and the text of `laio_report`.

use crate::c::*;
use crate::context::Context;
use crate::{Counts, succeeded};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};

/// As `laio::Stats`. Nothing more is counted while it borrows the context.
#[derive(Debug)]
pub struct Stats<'a> {
    context: &'a Context,
    total: Counts,
    page: OnceCell<String>,
    /// Operations started.
    pub operations: u64,
    /// Operations whose completion has been delivered.
    pub completions: u64,
    /// Operations cancelled on request.
    pub cancelled: u64,
    /// Calls that met the limit of operations.
    pub limited: u64,
    /// Inline results delivered through `poll`.
    pub over_budget: u64,
    /// Times the context slept in `poll`.
    pub sleeps: u64,
    /// Submissions to the ring.
    pub submissions: u64,
    /// Operations in flight or not yet delivered at most.
    pub operations_max: u32,
    /// Calls on remote file systems that helpers make or that wait for one.
    pub unanswered: u64,
    /// Remote file systems that hang.
    pub hung_mounts: u64,
}

impl Context {
    /// Returns the statistics.
    pub fn stats(&self) -> Stats<'_> {
        let mut stats = laio_stats {
            size: size_of::<laio_stats>() as u32,
            ..Default::default()
        };
        // SAFETY: the struct is of the size that it says.
        succeeded(unsafe { laio_stats(self.named(), &mut stats) }).expect("statistics");
        Stats {
            context: self,
            total: stats.calls.into(),
            page: OnceCell::new(),
            operations: stats.operations,
            completions: stats.completions,
            cancelled: stats.cancelled,
            limited: stats.limited,
            over_budget: stats.over_budget,
            sleeps: stats.sleeps,
            submissions: stats.submissions,
            operations_max: stats.operations_max,
            unanswered: stats.unanswered,
            hung_mounts: stats.hung_mounts,
        }
    }

    /// The page for people.
    fn report(&self) -> String {
        // SAFETY: the name is a string, and the descriptor has no other owner.
        let mut file = unsafe {
            let fd = libc::memfd_create(c"report".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            File::from_raw_fd(fd)
        };
        succeeded(laio_report(self.named(), file.as_raw_fd())).expect("a report");
        let mut page = String::new();
        file.rewind()
            .and_then(|()| file.read_to_string(&mut page))
            .expect("a page of text");
        page
    }
}

impl Stats<'_> {
    /// The counts of one call number.
    pub fn call(&self, number: libc::c_long) -> Counts {
        let mut counts = laio_counts::default();
        // SAFETY: the counts may be written.
        succeeded(unsafe { laio_call_stats(self.context.named(), number, &mut counts) })
            .expect("counts");
        counts.into()
    }

    /// Names and counts of all calls made at least once. In C only the report contains the names.
    pub fn calls(&self) -> impl Iterator<Item = (&str, Counts)> {
        self.page
            .get_or_init(|| self.context.report())
            .lines()
            .skip_while(|line| !line.starts_with("system call"))
            .skip(1)
            .take_while(|line| !line.is_empty())
            .map(row)
    }

    /// The sum over all calls.
    pub fn total(&self) -> Counts {
        self.total
    }
}

/// A line of the page: a name without spaces, and four columns.
fn row(line: &str) -> (&str, Counts) {
    let mut words = line.split_whitespace();
    let name = words.next().expect("a name");
    let mut count = || words.next().and_then(|word| word.parse().ok());
    let mut column = || count().unwrap_or_else(|| panic!("not a row of counts: {line}"));
    let counts = Counts {
        inline: column(),
        background: column(),
        fallback: column(),
        latched: column(),
    };
    (name, counts)
}

impl From<laio_counts> for Counts {
    fn from(counts: laio_counts) -> Counts {
        Counts {
            inline: counts.inline_done,
            background: counts.background,
            fallback: counts.fallback,
            latched: counts.latched,
        }
    }
}
