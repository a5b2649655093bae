//! Reads many ranges of a file in one request, as a reader of columnar files does: for `benches/ranges.sh`.
//!
//! `column_chunks FILE RANGES BYTES never|auto|always`. Prints ms, and ms of processor time.

use laio_tokio::fs::{Direct, File};
use std::io::{Error, ErrorKind, Result};
use std::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let usage = || Error::new(ErrorKind::InvalidInput, "see the first lines of the source");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, count, bytes, direct] = &arguments[..] else {
        return Err(usage());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|_| usage());
    let (count, bytes) = (number(count)?, number(bytes)?);
    let direct = match direct.as_str() {
        "never" => Direct::Never,
        "auto" => Direct::Auto,
        "always" => Direct::Always,
        _ => return Err(usage()),
    };
    let (start, before) = (Instant::now(), processor_ms());
    let file = File::open(name).await?;
    let size = file.metadata().await?.len();
    let ranges = (0..count).map(|number| {
        let at = (size - bytes) / count * number;
        at..at + bytes
    });
    let ranges: Vec<_> = ranges.collect();
    let read = file.read_ranges_with(&ranges, direct).await?;
    // As the mapping, the program looks at every page.
    let pages = read
        .bytes
        .iter()
        .flat_map(|bytes| bytes.iter().step_by(4096));
    let sum: u64 = pages.map(|&byte| u64::from(byte)).sum();
    let took = start.elapsed().as_secs_f64() * 1e3;
    println!("{took:.1} {:.1} {sum}", processor_ms() - before);
    Ok(())
}

fn processor_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
