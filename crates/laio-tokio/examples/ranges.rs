//! Reads ranges of a file, as a reader of columnar files does:
//! `cargo run -p laio-tokio --example ranges -- FILE never|auto|always 0..100 4096..8192`.

use laio_tokio::fs::{self, Direct};
use std::io;
use std::ops::Range;

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "usage: ranges FILE never|auto|always FROM..TO...",
        )
    };
    let name = arguments.next().ok_or_else(usage)?;
    let direct = match arguments.next().as_deref() {
        Some("never") => Direct::Never,
        Some("auto") => Direct::Auto,
        Some("always") => Direct::Always,
        _ => return Err(usage()),
    };
    let ranges: Option<Vec<Range<u64>>> = arguments.map(|text| range(&text)).collect();
    let ranges = ranges.ok_or_else(usage)?;

    let file = fs::File::open(&name).await?;
    println!("{name}: {} bytes", file.metadata().await?.len());
    let read = file.read_ranges_with(&ranges, direct).await?;
    for (range, bytes) in ranges.iter().zip(read.bytes) {
        println!(
            "{range:?}: {} bytes, the first is {:?}",
            bytes.len(),
            bytes.first()
        );
    }
    println!("{}; {:?}", read.stats.reason, read.stats);
    for metric in laio_tokio::proactor()?.stats().metrics() {
        let kind = if metric.is_gauge { "gauge" } else { "counter" };
        println!(
            "# TYPE {} {kind}\n{} {}",
            metric.name, metric.name, metric.value
        );
    }
    Ok(())
}

fn range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}
