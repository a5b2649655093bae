//! Reads many small files that are not in memory, with `tokio::fs::read` and `laio_tokio::fs::read` in turn.
//!
//! `cargo run --release -p laio-tokio --example cold_reads -- DIRECTORY [FILES] [ROUNDS]`, as root,
//! because it empties the page cache before each turn. The directory's file system is what is measured;
//! it must be one of a disk.

#![forbid(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::task::JoinSet;

const BYTES: usize = 4096;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: cold_reads DIRECTORY [FILES] [ROUNDS]";
    let directory = arguments.next().expect(usage);
    let mut number = |default: usize| {
        arguments
            .next()
            .map_or(default, |it| it.parse().expect(usage))
    };
    let (files, rounds) = (number(2000), number(3));
    let directory = Path::new(&directory).join(format!("cold-reads-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let paths: Vec<PathBuf> = (0..files)
        .map(|file| directory.join(file.to_string()))
        .collect();
    for path in &paths {
        std::fs::write(path, vec![b'x'; BYTES])?;
    }
    println!("us of time / us of processor time / threads at the end, for each file");
    for _ in 0..rounds {
        for at_a_time in [1, 64] {
            for is_laio in [false, true] {
                rustix::fs::sync();
                std::fs::write("/proc/sys/vm/drop_caches", "3")?;
                let (time, processor, threads) = turn(is_laio, paths.clone(), at_a_time);
                let name = if is_laio {
                    "laio_tokio::fs"
                } else {
                    "tokio::fs"
                };
                println!(
                    "{name:15} {at_a_time:3} at a time: {time:7.1} / {processor:6.1} / {threads}"
                );
            }
        }
    }
    std::fs::remove_dir_all(&directory)
}

fn turn(is_laio: bool, paths: Vec<PathBuf>, at_a_time: usize) -> (f64, f64, usize) {
    let files = paths.len() as f64;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    let (begin, before) = (Instant::now(), processor_us());
    runtime.block_on(read_all(is_laio, paths, at_a_time));
    let (time, processor) = (begin.elapsed().as_secs_f64() * 1e6, processor_us() - before);
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    (time / files, processor / files, threads)
}

async fn read_all(is_laio: bool, paths: Vec<PathBuf>, at_a_time: usize) {
    let mut reads = JoinSet::new();
    for path in paths {
        if reads.len() == at_a_time {
            reads
                .join_next()
                .await
                .expect("a task")
                .expect("it does not panic");
        }
        reads.spawn(async move {
            let contents = if is_laio {
                laio_tokio::fs::read(path).await
            } else {
                tokio::fs::read(path).await
            };
            assert_eq!(contents.expect("a file").len(), BYTES);
        });
    }
    while let Some(read) = reads.join_next().await {
        read.expect("it does not panic");
    }
}

fn processor_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
