//! The back end of each step, and the transfer of files.

use laio::BackendKind;
use std::fmt;
use std::str::FromStr;

/// A kind of system call of a request, which can have a back end of its own. A [`Stage`] is
/// something else: a span of time in a request that is measured.
///
/// [`Stage`]: crate::observe::Stage
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoStep {
    /// Accepting a connection.
    Accept,
    /// Receiving from a client.
    Receive,
    /// Opening a file, listing a directory, and changing names.
    Open,
    /// Reading file metadata.
    Stat,
    /// Reading and writing file data.
    FileRead,
    /// Sending from memory.
    Send,
    /// Sending from a file or a pipe.
    Sendfile,
}

impl IoStep {
    /// All steps, in the order of a request.
    pub const ALL: [IoStep; 7] = [
        IoStep::Accept,
        IoStep::Receive,
        IoStep::Open,
        IoStep::Stat,
        IoStep::FileRead,
        IoStep::Send,
        IoStep::Sendfile,
    ];

    /// The name used by options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            IoStep::Accept => "accept",
            IoStep::Receive => "read",
            IoStep::Open => "open",
            IoStep::Stat => "stat",
            IoStep::FileRead => "file-read",
            IoStep::Send => "write",
            IoStep::Sendfile => "sendfile",
        }
    }
}

impl fmt::Display for IoStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for IoStep {
    type Err = String;

    fn from_str(name: &str) -> Result<IoStep, String> {
        named("operation", &IoStep::ALL, IoStep::name, name)
    }
}

/// The back end of each step; where none is set, the server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policies([Option<BackendKind>; IoStep::ALL.len()]);

impl Policies {
    /// Every step uses the server's back end.
    pub const NONE: Policies = Policies([None; IoStep::ALL.len()]);

    /// Sets the back end of a step.
    #[must_use]
    pub const fn with(mut self, step: IoStep, backend: BackendKind) -> Policies {
        self.0[step as usize] = Some(backend);
        self
    }

    /// Returns the back end of a step, if it has one of its own.
    pub const fn of(&self, step: IoStep) -> Option<BackendKind> {
        self.0[step as usize]
    }

    /// Returns these back ends, overridden by those of `other`.
    #[must_use]
    pub fn or_those_of(self, other: Policies) -> Policies {
        let mut both = self;
        for (own, other) in both.0.iter_mut().zip(other.0) {
            *own = other.or(*own);
        }
        both
    }
}

/// Parses `open=sync,stat=lazy`.
impl FromStr for Policies {
    type Err = String;

    fn from_str(text: &str) -> Result<Policies, String> {
        let mut policies = Policies::NONE;
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (step, backend) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not OPERATION=BACKEND"))?;
            policies = policies.with(step.parse()?, backend.parse()?);
        }
        Ok(policies)
    }
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for step in IoStep::ALL {
            if let Some(backend) = self.of(step) {
                write!(f, "{comma}{step}={backend}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}

/// How file data is sent to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// Read into the page cache, and send from there with `sendfile`; short pieces, and files of
    /// which the page cache may not keep what was read, through a buffer.
    #[default]
    PageCache,
    /// Read into a buffer and send it.
    Buffer,
    /// Send with `sendfile`.
    Sendfile,
    /// Read into shared memory (memfd), and send that with `sendfile`.
    ShmSendfile,
    /// `splice` into a pipe, and from the pipe to the socket.
    Splice,
    /// Read into buffers, and send them without a copy (`IORING_OP_SEND_ZC`). Only where
    /// [`IoStep::Send`] uses io_uring.
    ZeroCopy,
}

impl Transfer {
    /// All transfers.
    pub const ALL: [Transfer; 6] = [
        Transfer::PageCache,
        Transfer::Buffer,
        Transfer::Sendfile,
        Transfer::ShmSendfile,
        Transfer::Splice,
        Transfer::ZeroCopy,
    ];

    /// The name used by options.
    pub const fn name(self) -> &'static str {
        match self {
            Transfer::PageCache => "page-cache",
            Transfer::Buffer => "buffer",
            Transfer::Sendfile => "sendfile",
            Transfer::ShmSendfile => "shm-sendfile",
            Transfer::Splice => "splice",
            Transfer::ZeroCopy => "zerocopy",
        }
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Transfer {
    type Err = String;

    fn from_str(name: &str) -> Result<Transfer, String> {
        named("transfer", &Transfer::ALL, Transfer::name, name)
    }
}

/// The maximum number of operations in flight of each class and worker. A class with a limit has
/// that many helpers of its own; `None` is only limited by the worker's back end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassLimits {
    /// The limit for open and stat.
    pub stat: Option<u32>,
    /// The limit for file-read.
    pub read: Option<u32>,
    /// The limit for write and sendfile.
    pub write: Option<u32>,
}

impl ClassLimits {
    /// No limits.
    pub const NONE: ClassLimits = ClassLimits {
        stat: None,
        read: None,
        write: None,
    };

    /// Returns the limit of a step's class.
    pub const fn of(&self, step: IoStep) -> Option<u32> {
        match step {
            IoStep::Accept | IoStep::Receive => None,
            IoStep::Open | IoStep::Stat => self.stat,
            IoStep::FileRead => self.read,
            IoStep::Send | IoStep::Sendfile => self.write,
        }
    }
}

/// The back ends of steps, and the transfer of files. Together with
/// [`Options::backend`](super::Options::backend) this is what distinguishes the presets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// The back end of each step.
    pub policies: Policies,
    /// The limits of each class.
    pub class_limits: ClassLimits,
    /// How file data is sent.
    pub transfer: Transfer,
    /// Bytes of a file read or sent at a time; `None` is [`Limits::CHUNK`](super::Limits::CHUNK).
    pub chunk: Option<usize>,
    /// Send head and body in full packets with `TCP_CORK`. Otherwise the head is sent together with
    /// the first bytes of the body, in one send or with `MSG_MORE`.
    pub cork: bool,
}

/// Looks up a name. The error lists the known ones.
pub(super) fn named<T: Copy>(
    what: &str,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
    name: &str,
) -> Result<T, String> {
    let found = all.iter().copied().find(|&one| name_of(one) == name);
    found.ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|&one| name_of(one)).collect();
        format!(
            "there is no {what} `{name}`; the {what}s are {}",
            known.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_written() {
        let text = "open=sync,stat=lazy,file-read=posix-aio";
        let policies: Policies = text.parse().unwrap();
        assert_eq!(policies.of(IoStep::Open), Some(BackendKind::Sync));
        assert_eq!(policies.of(IoStep::Send), None);
        assert_eq!(policies.to_string(), text);
        let both = policies.or_those_of("open=uring,write=threads".parse().unwrap());
        let expected = "open=uring,stat=lazy,file-read=posix-aio,write=threads";
        assert_eq!(both.to_string(), expected);
        assert_eq!("".parse(), Ok(Policies::NONE));
    }

    #[test]
    fn errors_list_what_there_is() {
        for (wrong, expected) in [
            ("open", "OPERATION=BACKEND"),
            ("opne=sync", "accept, read, open"),
            ("open=synch", "sync, threads, hybrid"),
        ] {
            let error = wrong.parse::<Policies>().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = "sendflie".parse::<Transfer>().unwrap_err();
        assert!(error.contains("shm-sendfile, splice, zerocopy"), "{error}");
    }
}
