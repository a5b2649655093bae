//! What a worker keeps of files that are asked for often.

use std::time::Duration;

/// What a worker keeps of files that are asked for often. What is kept is known to be what is on the disk: the
/// kernel tells of each change before it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Files. 0 turns the cache off.
    pub files: usize,
    /// Bytes of the largest file that is kept in memory; larger ones are kept open.
    pub file_bytes: usize,
    /// Bytes of files in memory.
    pub bytes: usize,
    /// Larger files that are kept open: no more than an eighth of the descriptors that the process may have.
    pub descriptors: usize,
}

impl Cache {
    /// Nothing is kept: each request opens its file.
    pub const OFF: Cache = Cache {
        files: 0,
        file_bytes: 0,
        bytes: 0,
        descriptors: 0,
    };
    /// Directories that are watched. When there are more, all is forgotten, and begins anew.
    pub const DIRECTORIES: usize = 4096;
    /// How soon after that it may happen again; meanwhile files in further directories are not kept.
    pub const FORGETS: Duration = Duration::from_secs(10);
    /// How long a file is kept before it is opened anew, whatever was heard: not all changes are told. Stores to
    /// mapped memory are not, nor is what the kernel's own AIO writes. While it is opened anew, as long again at
    /// most.
    pub const KEEPS: Duration = Duration::from_secs(1);
    /// Names remembered that were asked for once: a file is kept when it is asked for again soon.
    pub const NAMES: usize = 8192;
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            files: 4096,
            file_bytes: 64 * 1024,
            bytes: 32 * 1024 * 1024,
            descriptors: 256,
        }
    }
}
