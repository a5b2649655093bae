//! Running a program with both crates on both kinds of runtime.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What a program has seen.
pub(crate) type Seen = Vec<String>;

/// Runs a future on a runtime of each kind.
pub(crate) fn on_each_runtime<F: Future<Output = ()> + Send + 'static>(
    mut body: impl FnMut() -> F,
) {
    let [current, several] = each_runtime();
    current.block_on(body());
    several.block_on(async { tokio::spawn(body()).await.unwrap() });
}

/// The threads of tokio's pool: as many as a busy machine lets it have do not fit in a sandbox with few.
const BLOCKING_THREADS: usize = 8;

/// A runtime of each kind.
pub(crate) fn each_runtime() -> [tokio::runtime::Runtime; 2] {
    let current = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build();
    let several = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build();
    let runtimes = [current.unwrap(), several.unwrap()];
    if std::env::var_os(WITH_RING).is_some() {
        for runtime in &runtimes {
            // Where io_uring is forbidden, the runtime has no ring.
            let _ = runtime.block_on(async { laio_tokio::ring::start() });
        }
    }
    runtimes
}

/// The variable that gives each runtime a ring.
pub(crate) const WITH_RING: &str = "LAIO_TEST_WITH_RING";

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Writes a result so that both crates must give the same.
pub(crate) fn show<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?} {:?}", error.kind(), error.raw_os_error()),
    }
}

/// A directory of its own for each run.
pub(crate) fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = laio_testing::temp::scratch();
    let path = directory.path().to_owned();
    (directory, path)
}

/// Runs a program, an async function of the directory and of what it has seen, with `tokio::fs` and with
/// `laio_tokio::fs`, on each kind of runtime, and asserts that it sees the same.
macro_rules! same {
    (|$at:ident, $seen:ident| $program:block) => {{
        async fn with_tokio() -> crate::support::Seen {
            #[allow(unused_imports)]
            use tokio::fs;
            #[allow(unused_mut)]
            let mut $seen = crate::support::Seen::new();
            let (_kept, $at) = crate::support::directory();
            $program
            $seen
        }
        async fn with_laio() -> crate::support::Seen {
            #[allow(unused_imports)]
            use laio_tokio::fs;
            #[allow(unused_mut)]
            let mut $seen = crate::support::Seen::new();
            let (_kept, $at) = crate::support::directory();
            $program
            $seen
        }
        crate::support::on_each_runtime(|| async {
            let (expected, found) = (with_tokio().await, with_laio().await);
            assert!(!expected.is_empty());
            for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
                assert_eq!(expected, found, "at step {number}");
            }
            assert_eq!(expected.len(), found.len());
        });
    }};
}

pub(crate) use same;
