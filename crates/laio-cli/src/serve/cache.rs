//! The arguments for the file cache of `laio serve`.

use laio_serve::Cache;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Cache")]
pub(super) struct CacheArguments {
    /// Open and read the file for each request
    #[arg(long)]
    no_cache: bool,
    /// Files that a worker caches, in memory or open
    #[arg(long, value_name = "N", default_value_t = Cache::default().files)]
    cache_files: usize,
    /// Bytes of the largest file cached in memory; larger ones are kept open
    #[arg(long, value_name = "BYTES", default_value_t = Cache::default().file_bytes)]
    cache_file_bytes: usize,
    /// Bytes of files that a worker caches in memory
    #[arg(long, value_name = "BYTES", default_value_t = Cache::default().bytes)]
    cache_bytes: usize,
    /// Files that a worker keeps open, at most an eighth of the descriptors that the process may
    /// have
    #[arg(long, value_name = "N", default_value_t = Cache::default().descriptors)]
    cache_descriptors: usize,
}

impl CacheArguments {
    pub(super) fn cache(&self) -> Cache {
        if self.no_cache {
            return Cache::OFF;
        }
        Cache {
            files: self.cache_files,
            file_bytes: self.cache_file_bytes,
            bytes: self.cache_bytes,
            descriptors: self.cache_descriptors,
        }
    }
}
