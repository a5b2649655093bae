//! Reads random ranges of a file for some seconds, on one thread: for `benches/ranges.sh`.
//!
//! `range_reads FILE BYTES DEPTH SECONDS never|auto|always`. Prints reads per second, and µs of processor time for
//! each read.

use laio_rt::fs::{Direct, File, RangeOptions};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Ranges of one request.
const REQUEST: u64 = 2048;

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
    let options = RangeOptions::new(direct).with_depth(depth as usize);
    let runtime = laio_rt::Runtime::new(laio::Options::new())?;
    runtime.block_on(async {
        let file = File::open(name).await?;
        let size = file.metadata().await?.size();
        let (start, mut reads) = (Instant::now(), 0);
        let mut seed = 1;
        let before = processor_time();
        while start.elapsed() < Duration::from_secs(seconds) {
            let ranges = ranges(&mut seed, size, bytes);
            let (read, _) = file.read_ranges(&ranges, options).await?;
            reads += read.len();
        }
        let used = processor_time() - before;
        let each = used.as_secs_f64() * 1e6 / reads as f64;
        let rate = reads as f64 / start.elapsed().as_secs_f64();
        println!("{rate:.0} {each:.2}");
        file.close().await
    })
}

/// Random ranges that are too far from each other to be joined.
fn ranges(seed: &mut u64, size: u64, bytes: u64) -> Vec<Range<u64>> {
    let place = bytes + laio::ranges::GAP + 4096;
    let mut next = || {
        // SplitMix64.
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % (size / place) * place
    };
    (0..REQUEST)
        .map(|_| next())
        .map(|at| at..at + bytes)
        .collect()
}

/// The processor time of this process, with what the kernel did for it.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
