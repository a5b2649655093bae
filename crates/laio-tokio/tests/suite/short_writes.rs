//! A write of which only a part fits: the rest is written, or the true error comes.

use crate::support::{directory, each_runtime};
use laio_testing::fault_fs::{Fault, FaultFs, Kind};
use laio_testing::forbid::{self, Forbid};
use laio_testing::process::ignore_signal;
use laio_testing::temp::pattern;
use laio_testing::{child, or_skip, test_name};
use laio_tokio::fs;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{self, SeekFrom};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

const LIMIT: Duration = Duration::from_secs(120);
/// The largest size of a file.
const FITS: usize = 50_000;

#[test]
fn a_file_that_may_not_grow_says_so() {
    child::check(LIMIT, test_name!(), "ring", errors_are_true);
    let forbid = Forbid::io_uring(libc::EPERM);
    forbid::child(test_name!(), &forbid, errors_are_true);
}

fn errors_are_true() {
    ignore_signal(libc::SIGXFSZ);
    for runtime in each_runtime() {
        runtime.block_on(async {
            let (_kept, at) = directory();
            for size in [FITS + 1, 60_000, 200_000, 3_000_000] {
                for end in ["flush", "shutdown", "write", "sync_all", "seek", "set_len"] {
                    one_file(&at.join("file"), size, end).await;
                }
            }
        });
    }
}

/// Writes too much, and asks by each of the calls that may report it. `flush` comes last: another call keeps
/// the error of the write for it.
async fn one_file(name: &Path, size: usize, end: &str) {
    let mut file = fs::File::create(name).await.unwrap();
    let limit = getrlimit(Resource::Fsize);
    let mut small = limit;
    small.current = Some(FITS as u64);
    setrlimit(Resource::Fsize, small).unwrap();
    let mut seen = vec![file.write_all(&pattern(size, 4)).await];
    if seen[0].is_ok() {
        seen.push(match end {
            "flush" => file.flush().await,
            "shutdown" => file.shutdown().await,
            "write" => file.write_all(b"more").await,
            "sync_all" => file.sync_all().await,
            "seek" => file.seek(SeekFrom::Start(0)).await.map(drop),
            _ => file.set_len(FITS as u64).await,
        });
        seen.push(file.flush().await);
    }
    setrlimit(Resource::Fsize, limit).unwrap();
    let errors: Vec<_> = seen
        .iter()
        .filter_map(|result| result.as_ref().err())
        .collect();
    let is_true = |error: &&io::Error| error.raw_os_error() == Some(libc::EFBIG);
    let all_true = !errors.is_empty() && errors.iter().all(is_true);
    assert!(all_true, "{size} bytes, {end}: {seen:?}");
    let found = std::fs::read(name).unwrap();
    assert!(found == pattern(size, 4)[..FITS], "{} bytes", found.len());
}

/// Writes that stop short without an error go on.
#[test]
fn the_rest_of_a_short_write_is_written() {
    let Some(mounted) = or_skip(FaultFs::mount()) else {
        return;
    };
    mounted.add_file("file", b"");
    mounted.set(Kind::Write, Fault::Short(1000));
    for runtime in each_runtime() {
        runtime.block_on(async {
            let text = pattern(300_000, 5);
            let mut options = fs::OpenOptions::new();
            options.write(true).truncate(true);
            let mut file = options.open(mounted.join("file")).await.unwrap();
            file.write_all(&text).await.unwrap();
            file.flush().await.unwrap();
            assert!(mounted.contents("file").unwrap() == text);
        });
    }
}
