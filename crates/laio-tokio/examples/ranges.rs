//! Reads ranges of a file, as a reader of columnar files does:
//! `cargo run -p laio-tokio --example ranges -- FILE 0..100 4096..8192`.

use laio_tokio::fs;
use std::io;
use std::ops::Range;

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "usage: ranges FILE FROM..TO...",
        )
    };
    let name = arguments.next().ok_or_else(usage)?;
    let ranges: Option<Vec<Range<u64>>> = arguments.map(|text| range(&text)).collect();
    let ranges = ranges.ok_or_else(usage)?;

    let file = fs::File::open(&name).await?;
    println!("{name}: {} bytes", file.metadata().await?.len());
    for (range, bytes) in ranges.iter().zip(file.read_ranges(&ranges).await?) {
        println!(
            "{range:?}: {} bytes, the first is {:?}",
            bytes.len(),
            bytes.first()
        );
    }
    println!("{:?}", laio_tokio::proactor()?.stats());
    Ok(())
}

fn range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}
