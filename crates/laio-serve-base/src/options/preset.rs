//! Presets that model the servers of published comparisons.

use super::policy::{ClassLimits, Io, IoStep, Policies, Transfer};
use super::{Options, policy};
use laio::BackendKind;
use std::fmt;
use std::str::FromStr;

/// The system calls of a known server: the back end of each step, and the transfer of files.
///
/// Those servers were single-threaded; set `Options::workers` to 1 to compare with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name of the preset.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// The back end of steps without one of their own.
    pub backend: BackendKind,
    /// The back ends of steps, and the transfer.
    pub io: Io,
}

use BackendKind::{Activations, Hybrid, Lazy, LinuxAio, PosixAio, Sync, Threads};
use IoStep::{FileRead, Open, Sendfile, Stat};

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "ohttpd-all",
        about: "every call by a helper thread (liblaiogen); sendfile, TCP_CORK",
        backend: Threads,
        io: Io {
            transfer: Transfer::Sendfile,
            cork: true,
            ..PLAIN
        },
    },
    Preset {
        name: "ohttpd-networkonly",
        about: "as ohttpd-all, but open and stat are made plainly",
        backend: Threads,
        io: Io {
            policies: BLOCKING_NAMES,
            transfer: Transfer::Sendfile,
            cork: true,
            ..PLAIN
        },
    },
    Preset {
        name: "thttpd-nb-b",
        about: "non-blocking network, blocking disk; sendfile",
        backend: Hybrid,
        io: Io {
            policies: BLOCKING_DISK.with(Sendfile, Sync),
            transfer: Transfer::Sendfile,
            ..PLAIN
        },
    },
    Preset {
        name: "thttpd-laio",
        about: "every call lazily, by scheduler activations (liblaio); sendfile",
        backend: Activations,
        io: Io {
            transfer: Transfer::Sendfile,
            ..PLAIN
        },
    },
    Preset {
        name: "thttpd-laiogen",
        about: "every call by a helper thread (liblaiogen); sendfile",
        backend: Threads,
        io: Io {
            transfer: Transfer::Sendfile,
            ..PLAIN
        },
    },
    Preset {
        name: "flash-nb-b",
        about: "non-blocking network, blocking disk; sent from memory, head and body in one send",
        backend: Hybrid,
        io: Io {
            policies: BLOCKING_DISK,
            ..PLAIN
        },
    },
    Preset {
        name: "flash-nb-aio",
        about: "as flash-nb-b, but files are read by asynchronous I/O (POSIX AIO)",
        backend: Hybrid,
        io: Io {
            policies: BLOCKING_NAMES.with(FileRead, PosixAio),
            ..PLAIN
        },
    },
    Preset {
        name: "flash-amped",
        about: "non-blocking network, helpers that read files and others that look names up",
        backend: Hybrid,
        io: Io {
            class_limits: ClassLimits {
                stat: Some(16),
                read: Some(16),
                write: None,
            },
            ..PLAIN
        },
    },
    Preset {
        name: "flash-laio",
        about: "every call lazily; sent from memory, head and body in one send",
        backend: Lazy,
        io: PLAIN,
    },
    Preset {
        name: "seda",
        about: "a stage for names, files and sending each, with a bounded pool of threads and a queue",
        backend: Hybrid,
        io: Io {
            policies: Policies::NONE.with(IoStep::Send, Threads),
            class_limits: ClassLimits {
                stat: Some(8),
                read: Some(8),
                write: Some(8),
            },
            ..PLAIN
        },
    },
    Preset {
        name: "lighttpd-sendfile",
        about: "non-blocking network, blocking disk; sendfile, TCP_CORK (linux-sendfile)",
        backend: Hybrid,
        io: Io {
            policies: BLOCKING_DISK.with(Sendfile, Sync),
            transfer: Transfer::Sendfile,
            cork: true,
            ..PLAIN
        },
    },
    Preset {
        name: "lighttpd-linux-aio",
        about: "kernel AIO past the page cache into shared memory, sendfile from there; 4 stat threads",
        backend: Hybrid,
        io: Io {
            policies: FROM_MEMORY.with(FileRead, LinuxAio),
            class_limits: ClassLimits {
                stat: Some(4),
                read: Some(64),
                write: None,
            },
            ..LIGHTTPD_AIO
        },
    },
    Preset {
        name: "lighttpd-posix-aio",
        about: "POSIX AIO into shared memory, sendfile from there; 4 stat threads",
        backend: Hybrid,
        io: Io {
            policies: FROM_MEMORY.with(FileRead, PosixAio),
            class_limits: ClassLimits {
                stat: Some(4),
                read: None,
                write: None,
            },
            ..LIGHTTPD_AIO
        },
    },
    Preset {
        name: "lighttpd-gthread-aio",
        about: "8 threads read into shared memory, sendfile from there; 4 stat threads",
        backend: Hybrid,
        io: Io {
            policies: FROM_MEMORY,
            class_limits: ClassLimits {
                stat: Some(4),
                read: Some(8),
                write: None,
            },
            ..LIGHTTPD_AIO
        },
    },
];

const PLAIN: Io = Io {
    policies: Policies::NONE,
    class_limits: ClassLimits::NONE,
    transfer: Transfer::Buffer,
    chunk: None,
    cork: false,
};

const BLOCKING_NAMES: Policies = Policies::NONE.with(Open, Sync).with(Stat, Sync);

const BLOCKING_DISK: Policies = BLOCKING_NAMES.with(FileRead, Sync);

/// Sending from memory with a non-blocking socket does not block, so it needs no back end.
const FROM_MEMORY: Policies = Policies::NONE.with(Sendfile, Sync);

/// With the chunk size that was fastest for these.
const LIGHTTPD_AIO: Io = Io {
    transfer: Transfer::ShmSendfile,
    chunk: Some(512 << 10),
    cork: true,
    ..PLAIN
};

impl Preset {
    /// Sets the options of this preset. Later changes to the options override it.
    pub fn apply(&self, options: &mut Options) {
        options.backend = Some(self.backend);
        options.io = self.io;
        // The modelled programs open the file for each request.
        options.cache = super::Cache::OFF;
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Preset, String> {
        policy::named("preset", PRESETS, |preset| preset.name, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_names_of_their_own() {
        for preset in PRESETS {
            assert_eq!(preset.name.parse(), Ok(*preset));
        }
        let error = "lighttpd".parse::<Preset>().unwrap_err();
        assert!(error.contains("ohttpd-all, ohttpd-networkonly"), "{error}");
    }
}
