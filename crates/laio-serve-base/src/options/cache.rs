//! The file cache of a worker.

use super::declare::options;
use std::time::Duration;

options! {
    /// The file cache of a worker: the contents of small files, the descriptors of larger ones. inotify
    /// events invalidate a changed file before it is served again.
    #[command(next_help_heading = "Cache")]
    pub struct Cache {
        /// Files that a worker caches, in memory or open.
        ///
        /// Files that were not requested recently are evicted. 0 turns the cache off.
        #[arg(long = "cache-files", value_name = "N")]
        pub files: usize = 4096,
        /// Bytes of the largest file cached in memory; larger ones are kept open.
        #[arg(long = "cache-file-bytes", value_name = "BYTES")]
        pub file_bytes: usize = 64 * 1024,
        /// Bytes of files that a worker caches in memory.
        #[arg(long = "cache-bytes", value_name = "BYTES")]
        pub bytes: usize = 32 * 1024 * 1024,
        /// Files that a worker keeps open, at most an eighth of the descriptors that the process may
        /// have.
        #[arg(long = "cache-descriptors", value_name = "N")]
        pub descriptors: usize = 256,
    }
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
