//! Files in asynchronous Rust programs: the time of a call as a multiple of the same call made plainly.
//!
//! `cargo run --release -- DIRECTORY [SECONDS]`; the directory's file system is what is measured. All data is cached.
//! In each round every crate has a turn with a runtime of its own, on a thread of its own; the first call of a turn does
//! not count. With `taskset -c 0` all threads share a processor.

mod works;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use works::{Work, async_fs_way, compio_way, laio_way, plain, tokio_uring_way, tokio_way};

/// A crate, and how its runtime runs a turn, which returns the time of one call.
type Way = (&'static str, fn(Work, PathBuf) -> Duration);

const WAYS: [Way; 7] = [
    ("std", |work, at| {
        futures_lite::future::block_on(plain(work, &at))
    }),
    ("laio-tokio", |work, at| {
        on_tokio(false, laio_way(work, &at))
    }),
    ("tokio::fs", |work, at| {
        on_tokio(false, tokio_way(work, &at))
    }),
    ("tokio::fs, io_uring", |work, at| {
        on_tokio(true, tokio_way(work, &at))
    }),
    ("tokio-uring", |work, at| {
        tokio_uring::start(tokio_uring_way(work, at))
    }),
    ("compio", |work, at| {
        let runtime = compio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(compio_way(work, at))
    }),
    ("async-fs", |work, at| {
        futures_lite::future::block_on(async_fs_way(work, &at))
    }),
];

fn on_tokio(uring: bool, body: impl Future<Output = Duration>) -> Duration {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if uring {
        builder.enable_io_uring();
    }
    builder.build().expect("a runtime").block_on(body)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments
        .next()
        .expect("usage: runtimes DIRECTORY [SECONDS]");
    let seconds = arguments
        .next()
        .map_or(60, |seconds| seconds.parse().expect("seconds"));
    let directory = Path::new(&directory).join(format!("runtimes-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a directory");
    works::prepare(&directory);
    let names: Vec<_> = WAYS.iter().map(|(name, _)| *name).collect();
    println!("| call | {}, µs | {} |", names[0], names[1..].join(" | "));
    println!("| --- |{}", " ---: |".repeat(WAYS.len()));
    let each = Duration::from_secs(seconds) / Work::ALL.len() as u32;
    for work in Work::ALL {
        let begin = Instant::now();
        let mut rounds: Vec<Vec<f64>> = Vec::new();
        while begin.elapsed() < each || rounds.len() < 3 {
            let turn = |(_, way): &Way| {
                let (way, at) = (*way, directory.clone());
                let spent = std::thread::spawn(move || way(work, at)).join();
                spent.expect("a turn").as_secs_f64() * 1e6
            };
            rounds.push(WAYS.iter().map(turn).collect());
        }
        let cells = (0..WAYS.len()).map(|index| {
            let ratio = |round: &Vec<f64>| {
                if index == 0 {
                    round[0]
                } else {
                    round[index] / round[0]
                }
            };
            format!("{:.2}", median(rounds.iter().map(ratio).collect()))
        });
        println!(
            "| {} | {} |",
            work.name(),
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
    std::fs::remove_dir_all(&directory).expect("removed");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
