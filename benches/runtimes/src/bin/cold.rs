//! Reads of 64 KiB that are not in memory, 64 in flight, at random places of a file: time, processor time
//! and context switches.
//!
//! `cargo run --release --bin cold -- DIRECTORY [ROUNDS]`, as root, because it empties the page cache
//! before each turn. The directory's file system is what is measured; it must be one of a disk. Each turn
//! is a process of its own.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Instant;

const USAGE: &str = "usage: cold DIRECTORY [ROUNDS]";
const SIZE: usize = 64 << 10;
const TASKS: u64 = 64;
const READS: u64 = 8000;
/// Of the file.
const BYTES: u64 = 2 << 30;

/// A way to read, and the function that does so.
type Way = (&'static str, fn(PathBuf));

const WAYS: [Way; 5] = [
    ("64 threads", threads),
    ("tokio, `spawn_blocking`", spawn_blocking),
    ("compio", compio),
    ("laio-tokio", |path| laio_tokio(path, false)),
    ("laio-tokio, a ring", |path| laio_tokio(path, true)),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [turn, way, path] if turn == "--turn" => take_turn(way.parse().expect(USAGE), path),
        [directory] => compare(Path::new(directory), 5),
        [directory, rounds] => compare(Path::new(directory), rounds.parse().expect(USAGE)),
        _ => panic!("{USAGE}"),
    }
}

fn compare(directory: &Path, rounds: usize) {
    let path = directory.join(format!("cold-{}", std::process::id()));
    fill(&path);
    let mut results = WAYS.map(|_| Vec::new());
    for _ in 0..rounds {
        for (way, results) in results.iter_mut().enumerate() {
            rustix::fs::sync();
            std::fs::write("/proc/sys/vm/drop_caches", "3").expect("root empties the page cache");
            let turn = std::process::Command::new(std::env::current_exe().expect("this program"))
                .args(["--turn", &way.to_string()])
                .arg(&path)
                .output()
                .expect("a turn");
            assert!(
                turn.status.success(),
                "{}",
                String::from_utf8_lossy(&turn.stderr)
            );
            let line = String::from_utf8(turn.stdout).expect("numbers");
            let numbers = line
                .split_whitespace()
                .map(|number| number.parse().expect("a number"));
            results.push(numbers.collect::<Vec<f64>>());
        }
    }
    std::fs::remove_file(&path).expect("removed");
    println!("| | µs a read | µs of processor time | context switches of all {READS} reads |");
    println!("| --- | ---: | ---: | ---: |");
    for ((name, _), results) in WAYS.iter().zip(results) {
        let column = |at: usize| median(results.iter().map(|turn| turn[at]).collect());
        println!(
            "| {name} | {:.1} | {:.1} | {:.0} |",
            column(0),
            column(1),
            column(2)
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Writes what no file system compresses or stores as a hole.
fn fill(path: &Path) {
    let file = std::fs::File::create(path).expect("a file");
    let mut state = 1_u64;
    for block in 0..BYTES >> 20 {
        let words = (0..1 << 17).flat_map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_ne_bytes()
        });
        let bytes: Vec<u8> = words.collect();
        file.write_all_at(&bytes, block << 20).expect("written");
    }
    file.sync_all().expect("on the disk");
}

fn take_turn(way: usize, path: &str) {
    let begin = Instant::now();
    WAYS[way].1(PathBuf::from(path));
    let each = |us: f64| us / READS as f64;
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used = used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3;
    println!(
        "{} {} {}",
        each(begin.elapsed().as_secs_f64() * 1e6),
        each(used),
        switches()
    );
}

/// The context switches of all threads that have not ended.
fn switches() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc");
    let status = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let of = |status: String| {
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        let counts = counts.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok());
        counts.sum::<u64>()
    };
    status.map(of).sum()
}

/// Where the reads of a task begin.
fn places(task: u64) -> impl Iterator<Item = u64> {
    (0..READS / TASKS).map(move |read| {
        let place = (task * READS / TASKS + read).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        place % (BYTES / SIZE as u64) * SIZE as u64
    })
}

fn threads(path: PathBuf) {
    let file = Arc::new(std::fs::File::open(path).expect("open"));
    let at_end = Arc::new(Barrier::new(TASKS as usize + 1));
    for task in 0..TASKS {
        let (file, at_end) = (file.clone(), at_end.clone());
        std::thread::spawn(move || {
            for place in places(task) {
                let mut buffer = vec![0; SIZE];
                file.read_exact_at(&mut buffer, place).expect("read");
            }
            at_end.wait();
            // Its switches are still counted.
            loop {
                std::thread::park();
            }
        });
    }
    at_end.wait();
}

fn on_tokio<F: Future<Output = ()> + Send + 'static>(body: impl Fn(u64) -> F, has_ring: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        if has_ring {
            laio_tokio::ring::start().expect("a ring");
        }
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(body(task))).collect();
        for task in tasks {
            task.await.expect("a task");
        }
    });
    // Its threads are still counted.
    std::mem::forget(runtime);
}

fn spawn_blocking(path: PathBuf) {
    let file = Arc::new(std::fs::File::open(path).expect("open"));
    let body = |task| {
        let file = file.clone();
        async move {
            for place in places(task) {
                let file = file.clone();
                let read = move || file.read_exact_at(&mut vec![0; SIZE], place);
                tokio::task::spawn_blocking(read)
                    .await
                    .expect("a call")
                    .expect("read");
            }
        }
    };
    on_tokio(body, false);
}

fn laio_tokio(path: PathBuf, has_ring: bool) {
    let file = std::fs::File::open(path).expect("open");
    let file = Arc::new(laio_tokio::fs::File::from_std(file));
    let body = |task| {
        let file = file.clone();
        async move {
            for place in places(task) {
                let (count, _) = file.read_at(Vec::with_capacity(SIZE), place).await;
                assert_eq!(count.expect("read"), SIZE);
            }
        }
    };
    on_tokio(body, has_ring);
}

fn compio(path: PathBuf) {
    use ::compio::io::AsyncReadAt;
    let runtime = ::compio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let file = ::compio::fs::File::open(path).await.expect("open");
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let file = file.clone();
                ::compio::runtime::spawn(async move {
                    for place in places(task) {
                        let read = file.read_at(Vec::with_capacity(SIZE), place).await;
                        assert_eq!(read.0.expect("read"), SIZE);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task");
        }
    });
}
