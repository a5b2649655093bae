//! The file cache of a worker.

use std::time::Duration;

/// The file cache of a worker: the contents of small files, the descriptors of larger ones. inotify
/// events invalidate a changed file before it is served again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Files. 0 turns the cache off.
    pub files: usize,
    /// Bytes of the largest file that is cached in memory; larger ones are kept open.
    pub file_bytes: usize,
    /// Bytes of files in memory.
    pub bytes: usize,
    /// Larger files kept open, at most an eighth of the descriptors that the process may have.
    pub descriptors: usize,
}

impl Cache {
    /// No cache: each request opens its file.
    pub const OFF: Cache = Cache {
        files: 0,
        file_bytes: 0,
        bytes: 0,
        descriptors: 0,
    };
    /// Watched directories. Beyond this number the whole cache is dropped and starts again.
    pub const DIRECTORIES: usize = 4096;
    /// Minimum time between two such drops. Meanwhile files in further directories are not cached.
    pub const CLEAR_INTERVAL: Duration = Duration::from_secs(10);
    /// How long a file stays cached before it is opened again, even without an inotify event:
    /// stores to mapped memory and writes by Linux AIO cause none. While one request reopens the
    /// file, others may use the cached one, at most for the same time again.
    pub const MAX_AGE: Duration = Duration::from_secs(1);
    /// Names remembered after one request. A file is cached when it is requested again soon.
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
