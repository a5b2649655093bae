//! Reads what `/proc` says about a thread: the call in which it is blocked, its times, and its state.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The longest line of these files that is read.
const LINE: usize = 512;

/// A system call in which a thread is blocked, or the place of a thread that is blocked outside of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockedCall {
    /// The number of the call; `None` outside of a call, which is a page fault.
    pub(crate) number: Option<usize>,
    /// Its six arguments.
    pub(crate) arguments: [u64; 6],
    /// The stack pointer of the program.
    pub(crate) stack: u64,
    /// The address of the program's next instruction.
    pub(crate) instruction: u64,
}

/// Where a thread is at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// It runs, or waits for a processor.
    Running,
    /// The kernel has taken it off the processor.
    Blocked(BlockedCall),
}

/// What the scheduler has counted for a thread since it started, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// How long it has run.
    pub(crate) run: u64,
    /// How long it has waited for a processor while it could have run.
    pub(crate) delay: u64,
    /// How often it has got a processor.
    pub(crate) turns: u64,
}

/// What `stat` says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadStat {
    /// The letter of its state: `S`, `D`, `T`.
    pub(crate) state: char,
    /// How many of its page faults have read a device or waited for another process.
    pub(crate) major_faults: u64,
}

/// The files of a thread that are read again and again.
#[derive(Debug)]
pub(crate) struct ThreadFiles {
    /// The name of the thread.
    pub(crate) name: String,
    position: File,
    times: File,
}

impl ThreadFiles {
    /// Opens them.
    ///
    /// # Errors
    /// If the thread is gone, or this process may not examine it.
    pub(crate) fn open(pid: u32, tid: u32) -> io::Result<ThreadFiles> {
        let open = |name: &str| File::open(format!("/proc/{pid}/task/{tid}/{name}"));
        let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"))?;
        Ok(ThreadFiles {
            name: name.trim_end().to_owned(),
            position: open("syscall")?,
            times: open("schedstat")?,
        })
    }

    /// Where the thread is. `None` if it is gone, or may not be examined.
    pub(crate) fn position(&self) -> Option<Position> {
        parse_position(line(&self.position, &mut [0; LINE])?)
    }

    /// What the scheduler has counted. `None` if the thread is gone.
    pub(crate) fn times(&self) -> Option<Times> {
        parse_times(line(&self.times, &mut [0; LINE])?)
    }
}

/// Reads the file `stat` of a thread. `None` if the thread is gone.
pub(crate) fn stat(pid: u32, tid: u32) -> Option<ThreadStat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
}

fn line<'a>(file: &File, buffer: &'a mut [u8; LINE]) -> Option<&'a str> {
    let length = file.read_at(buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()
}

fn parse_position(line: &str) -> Option<Position> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    if first == "running" {
        return Some(Position::Running);
    }
    let number: i64 = first.parse().ok()?;
    let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let mut arguments = [0; 6];
    if number >= 0 {
        for argument in &mut arguments {
            *argument = next()?;
        }
    }
    let (stack, instruction) = (next()?, next()?);
    if number < 0 && stack == 0 {
        // A thread that has ended, and is still listed.
        return Some(Position::Running);
    }
    Some(Position::Blocked(BlockedCall {
        number: usize::try_from(number).ok(),
        arguments,
        stack,
        instruction,
    }))
}

fn parse_times(line: &str) -> Option<Times> {
    let mut words = line.split_ascii_whitespace();
    let mut next = || words.next()?.parse().ok();
    Some(Times {
        run: next()?,
        delay: next()?,
        turns: next()?,
    })
}

fn parse_stat(line: &str) -> Option<ThreadStat> {
    /// The position of `majflt` after the name, which may contain anything.
    const MAJOR_FAULTS: usize = 9;
    let (_, after_name) = line.rsplit_once(") ")?;
    let words: Vec<&str> = after_name.split_ascii_whitespace().collect();
    Some(ThreadStat {
        state: words.first()?.chars().next()?,
        major_faults: words.get(MAJOR_FAULTS)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        assert_eq!(parse_position("running\n"), Some(Position::Running));
        let call = "230 0x0 0x0 0x7ffe 0x7fff 0x0 0x0 0x7ffe72524668 0x7f3670d1c503\n";
        let Some(Position::Blocked(call)) = parse_position(call) else {
            panic!("a call");
        };
        assert_eq!(
            (call.number, call.arguments[2], call.stack),
            (Some(230), 0x7ffe, 0x7ffe_7252_4668)
        );
        let Some(Position::Blocked(fault)) = parse_position("-1 0x10 0x20\n") else {
            panic!("a page fault");
        };
        assert_eq!(
            (fault.number, fault.stack, fault.instruction),
            (None, 16, 32)
        );
        let times = parse_times("1343423 7 3\n").unwrap();
        assert_eq!((times.run, times.delay, times.turns), (1_343_423, 7, 3));
        let stat = parse_stat("7 (a) b) D 1 2 3 4 5 6 700 8 9 10 11\n").unwrap();
        assert_eq!((stat.state, stat.major_faults), ('D', 9));
    }

    #[test]
    fn other_lines_are_nothing() {
        for line in ["", "x", "1 0x1", "-1", "1 2 3 4 5 6 7 8 9"] {
            assert_eq!(parse_position(line), None, "{line}");
        }
        assert_eq!(parse_times("1 2"), None);
        assert_eq!(parse_stat("1 (a) R"), None);
    }
}
