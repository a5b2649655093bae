//! Reads random ranges of a file for some seconds, on one thread: for `benches/ranges.sh`.
//!
//! `range_reads FILE BYTES DEPTH SECONDS never|auto|always`. Prints reads per second, and µs of processor
//! time for each read.

use laio_rt::fs::{Direct, File, RangeOptions};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Tasks, which share the depth: while one waits for the last reads of a request, the other has some in
/// flight.
const TASKS: u64 = 2;

fn main() -> Result<()> {
    let usage = || Error::new(ErrorKind::InvalidInput, "see the first lines of the source");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, bytes, depth, seconds, direct] = &arguments[..] else {
        return Err(usage());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|_| usage());
    let (bytes, depth, seconds) = (number(bytes)?, number(depth)?, number(seconds)?);
    let direct = match direct.as_str() {
        "never" => Direct::Never,
        "auto" => Direct::Auto,
        "always" => Direct::Always,
        _ => return Err(usage()),
    };
    // The memory of two requests of each task is used again and again, as a program with buffers of its own
    // does it.
    laio::ranges::set_pool_limit(usize::MAX);
    let work = Work {
        name: name.into(),
        bytes,
        depth: depth.div_ceil(TASKS),
        until: Instant::now() + Duration::from_secs(seconds),
        direct,
    };
    let runtime = laio_rt::Runtime::new(laio::Options::new())?;
    let (start, before) = (Instant::now(), processor_time());
    let reads = runtime.block_on(async {
        let tasks = (0..TASKS).map(|seed| laio_rt::spawn(read(work.clone(), seed)));
        let mut reads = 0;
        for task in tasks.collect::<Vec<_>>() {
            reads += task.await.map_err(|_| ErrorKind::Other)??;
        }
        Ok::<u64, Error>(reads)
    })?;
    let each = (processor_time() - before).as_secs_f64() * 1e6 / reads as f64;
    let rate = reads as f64 / start.elapsed().as_secs_f64();
    println!("{rate:.0} {each:.2}");
    Ok(())
}

/// What a task does.
#[derive(Clone)]
struct Work {
    name: PathBuf,
    bytes: u64,
    depth: u64,
    until: Instant,
    direct: Direct,
}

/// Reads ranges until the time is over. Returns their number.
async fn read(work: Work, mut seed: u64) -> Result<u64> {
    let options = RangeOptions::new(work.direct).with_depth(work.depth as usize);
    let file = File::open(&work.name).await?;
    let size = file.metadata().await?.size();
    let mut reads = 0;
    while Instant::now() < work.until {
        // Each request fills the depth many times, without more memory than a program would hold.
        let count = ((64 << 20) / work.bytes).clamp(work.depth, work.depth * 64);
        let ranges = ranges(&mut seed, size, work.bytes, count);
        let (read, _) = file.read_ranges(&ranges, options).await?;
        reads += read.len() as u64;
    }
    file.close().await?;
    Ok(reads)
}

/// Random ranges that are too far from each other to be joined.
fn ranges(seed: &mut u64, size: u64, bytes: u64, count: u64) -> Vec<Range<u64>> {
    let place = bytes + laio::ranges::GAP + 4096;
    let mut next = || {
        // SplitMix64.
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % (size / place) * place
    };
    (0..count)
        .map(|_| next())
        .map(|at| at..at + bytes)
        .collect()
}

/// The processor time of this process, with what the kernel did for it.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
