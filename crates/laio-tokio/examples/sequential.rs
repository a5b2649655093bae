//! Reads a large file in order, in three ways that take turns: through the page cache with `tokio::fs`, and
//! past it with `DirectReader` and with `dd`.
//! `cargo run --release -p laio-tokio --example sequential -- FILE [ROUNDS]`
//!
//! Before each reading the file is removed from the page cache. Prints MB/s and the processor time for each
//! GB.

use laio_tokio::fs::{Direct, DirectReader, File};
use rustix::fs::Advice;
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt};

const BUFFER: usize = 64 * 1024;

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments
        .next()
        .ok_or_else(|| io::Error::other("usage: sequential FILE [ROUNDS]"))?;
    let rounds = arguments.next().map_or(Ok(3), |text| text.parse());
    let rounds: u32 = rounds.map_err(io::Error::other)?;
    for _ in 0..rounds {
        forget(&name)?;
        let began = Began::now()?;
        let count = read_all(tokio::fs::File::open(&name).await?).await?;
        began.print("tokio::fs", count)?;

        forget(&name)?;
        let began = Began::now()?;
        let mut reader = DirectReader::new(File::open(&name).await?, Direct::Always);
        let count = read_all(&mut reader).await?;
        began.print("DirectReader", count)?;
        println!("    {}", reader.stats().reason);

        for block in ["bs=16k", "bs=128k", "bs=1M"] {
            forget(&name)?;
            let began = Began::now()?;
            let from = format!("if={name}");
            let mut dd = Command::new("dd");
            dd.args([&from, "of=/dev/null", "iflag=direct", block]);
            if dd.stderr(Stdio::null()).status()?.success() {
                began.print(&format!("dd iflag=direct {block}"), count)?;
            } else {
                println!("dd iflag=direct {block}: it cannot read this file directly");
            }
        }
    }
    Ok(())
}

/// Writes the dirty pages of the file, and removes its pages from the cache.
fn forget(name: &str) -> io::Result<()> {
    let file = std::fs::File::open(name)?;
    file.sync_all()?;
    Ok(rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?)
}

async fn read_all(mut file: impl AsyncRead + Unpin) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        let count = file.read(&mut buffer).await?;
        if count == 0 {
            return Ok(total);
        }
        total += count as u64;
    }
}

struct Began {
    at: Instant,
    processor: Duration,
}

impl Began {
    fn now() -> io::Result<Began> {
        Ok(Began {
            at: Instant::now(),
            processor: processor_time()?,
        })
    }

    fn print(&self, what: &str, count: u64) -> io::Result<()> {
        let seconds = self.at.elapsed().as_secs_f64();
        let processor = processor_time()?.saturating_sub(self.processor);
        let (megabytes, gigabytes) = (count as f64 / 1e6, count as f64 / 1e9);
        println!(
            "{what}: {:.0} MB/s, {:.2} s of processor time for each GB",
            megabytes / seconds,
            processor.as_secs_f64() / gigabytes
        );
        Ok(())
    }
}

/// The processor time of this process and of the children that it has waited for.
fn processor_time() -> io::Result<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    // utime, stime, cutime and cstime, in hundredths of a second.
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}
