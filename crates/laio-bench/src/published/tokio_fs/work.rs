//! What is measured: each work, in each of the three ways.

use super::files::{BIG, Files, PAGE, RANGE, RANGES, check, filled, range};
use crate::record::Cache;
use laio::measure::Usage;
use laio_tokio::fs as laio_fs;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// The subject with which others are compared.
pub(in crate::published) const STD: &str = "std";
/// The work that is done with cold caches.
pub(in crate::published) const COLD: &str = "pread 64 KiB, scattered";

#[derive(Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The calls of a turn.
    count: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Read(usize),
    WholeFile,
    Metadata,
    Write,
    WriteFile,
    /// Of the cold file.
    Ranges,
}

/// How calls are made. Where `tokio::fs` has no function, by a plain call in `spawn_blocking`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    /// Plainly in the task, which blocks its thread.
    Std,
    Laio,
    Tokio,
}

const fn work(name: &'static str, kind: Kind, count: f64) -> Work {
    Work { name, kind, count }
}

impl Work {
    pub(super) const ALL: &[Work] = &[
        work("pread 4 KiB", Kind::Read(4 << 10), 4000.0),
        work("pread 64 KiB", Kind::Read(64 << 10), 1000.0),
        work("pread 1 MiB", Kind::Read(1 << 20), 50.0),
        work("read a file of 4 KiB", Kind::WholeFile, 1000.0),
        work("metadata", Kind::Metadata, 2000.0),
        work("pwrite 4 KiB", Kind::Write, 1000.0),
        work("write a file of 4 KiB", Kind::WriteFile, 100.0),
        work(COLD, Kind::Ranges, RANGES),
    ];

    pub(super) fn cache(&self) -> Cache {
        match self.kind {
            Kind::Ranges => Cache::Cold,
            _ => Cache::Warm,
        }
    }

    /// Returns the number of calls in a turn.
    pub(super) fn count(&self, scale: f64) -> usize {
        ((self.count * scale) as usize).max(2)
    }

    /// Makes the calls.
    pub(super) async fn run(
        &self,
        way: Way,
        files: &Files,
        count: usize,
        in_flight: usize,
    ) -> io::Result<Spent> {
        match self.kind {
            Kind::Read(size) => read(way, files, count, size).await,
            Kind::WholeFile => whole_file(way, files, count).await,
            Kind::Metadata => metadata(way, files, count).await,
            Kind::Write => write(way, files, count).await,
            Kind::WriteFile => write_file(way, files, count).await,
            Kind::Ranges => ranges(way, files, in_flight).await,
        }
    }
}

/// The time that calls took, and processor time of all threads.
pub(super) struct Spent {
    pub(super) wall: Duration,
    pub(super) processor: Duration,
}

struct Clock(Instant, Usage);

impl Clock {
    fn start() -> Clock {
        Clock(Instant::now(), Usage::of_process())
    }

    fn spent(self) -> Spent {
        Spent {
            wall: self.0.elapsed(),
            processor: Usage::of_process().since(&self.1).processor,
        }
    }
}

/// Repeats a body, and returns what it took. The first repetition, which starts threads, does not count.
macro_rules! timed {
    ($count:expr, $index:ident => $body:block) => {{
        let mut clock = Clock::start();
        for $index in 0..=$count {
            $body
            if $index == 0 {
                clock = Clock::start();
            }
        }
        Ok(clock.spent())
    }};
}

async fn read(way: Way, files: &Files, count: usize, size: usize) -> io::Result<Spent> {
    let offset = move |index: usize| (index * size % BIG) as u64;
    let file = File::open(&files.big)?;
    match way {
        Way::Std => {
            let mut buffer = vec![0; size];
            timed!(count, index => {
                file.read_exact_at(&mut buffer, offset(index))?;
                check(&buffer, size, offset(index))?;
            })
        }
        Way::Laio => {
            let file = laio_fs::File::from_std(file);
            let mut buffer = Vec::with_capacity(size);
            timed!(count, index => {
                buffer.clear();
                let (result, full) = file.read_at(buffer, offset(index)).await;
                result?;
                buffer = full;
                check(&buffer, size, offset(index))?;
            })
        }
        Way::Tokio => {
            let (file, mut buffer) = (Arc::new(file), vec![0; size]);
            timed!(count, index => {
                let file = file.clone();
                let read = spawn_blocking(move || {
                    file.read_exact_at(&mut buffer, offset(index))?;
                    io::Result::Ok(buffer)
                });
                buffer = read.await??;
                check(&buffer, size, offset(index))?;
            })
        }
    }
}

async fn whole_file(way: Way, files: &Files, count: usize) -> io::Result<Spent> {
    let name = |index: usize| &files.small[index % files.small.len()];
    match way {
        Way::Std => timed!(count, index => { check(&std::fs::read(name(index))?, PAGE, 0)?; }),
        Way::Laio => {
            timed!(count, index => { check(&laio_fs::read(name(index)).await?, PAGE, 0)?; })
        }
        Way::Tokio => {
            timed!(count, index => { check(&tokio::fs::read(name(index)).await?, PAGE, 0)?; })
        }
    }
}

async fn metadata(way: Way, files: &Files, count: usize) -> io::Result<Spent> {
    let name = |index: usize| &files.small[index % files.small.len()];
    let is_page = |status: std::fs::Metadata| {
        if status.len() == PAGE as u64 {
            Ok(())
        } else {
            Err(io::Error::other("it returned another size"))
        }
    };
    match way {
        Way::Std => timed!(count, index => { is_page(std::fs::metadata(name(index))?)?; }),
        Way::Laio => timed!(count, index => { is_page(laio_fs::metadata(name(index)).await?)?; }),
        Way::Tokio => {
            timed!(count, index => { is_page(tokio::fs::metadata(name(index)).await?)?; })
        }
    }
}

async fn write(way: Way, files: &Files, count: usize) -> io::Result<Spent> {
    let offset = |index: usize| (index * PAGE % BIG) as u64;
    // The bytes of the file, so that reads find what they expect.
    let page = |index: usize| {
        let start = offset(index) as usize;
        start..start + PAGE
    };
    let contents = filled(BIG);
    let file = File::options().write(true).open(&files.big)?;
    let mut buffer = vec![0; PAGE];
    match way {
        Way::Std => timed!(count, index => {
            buffer.copy_from_slice(&contents[page(index)]);
            file.write_all_at(&buffer, offset(index))?;
        }),
        Way::Laio => {
            let file = laio_fs::File::from_std(file);
            timed!(count, index => {
                buffer.copy_from_slice(&contents[page(index)]);
                let (result, written) = file.write_at(buffer, offset(index)).await;
                buffer = written;
                if result? != PAGE {
                    return Err(io::ErrorKind::WriteZero.into());
                }
            })
        }
        Way::Tokio => {
            let file = Arc::new(file);
            timed!(count, index => {
                buffer.copy_from_slice(&contents[page(index)]);
                let file = file.clone();
                let write = spawn_blocking(move || {
                    file.write_all_at(&buffer, offset(index))?;
                    io::Result::Ok(buffer)
                });
                buffer = write.await??;
            })
        }
    }
}

async fn write_file(way: Way, files: &Files, count: usize) -> io::Result<Spent> {
    let (name, contents) = (&files.small[0], filled(PAGE));
    match way {
        Way::Std => timed!(count, index => { std::fs::write(name, &contents)?; }),
        Way::Laio => timed!(count, index => { laio_fs::write(name, &contents).await?; }),
        Way::Tokio => timed!(count, index => { tokio::fs::write(name, &contents).await?; }),
    }
}

/// Reads ranges of the cold file, as many at a time; `std` one after the other.
async fn ranges(way: Way, files: &Files, in_flight: usize) -> io::Result<Spent> {
    let all = files.scattered();
    // Starts the threads.
    let cached: Vec<_> = (0..in_flight)
        .map(|index| range(index % (BIG / RANGE)))
        .collect();
    let big = Arc::new(File::open(&files.big)?);
    let file = Arc::new(File::open(&files.cold)?);
    match way {
        Way::Std => {
            let (clock, mut buffer) = (Clock::start(), vec![0; RANGE]);
            for range in &all {
                file.read_exact_at(&mut buffer, range.start)?;
                check(&buffer, RANGE, range.start)?;
            }
            Ok(clock.spent())
        }
        Way::Laio => {
            let of = |file: Arc<File>| file.try_clone().map(laio_fs::File::from_std);
            let (big, file) = (of(big)?, of(file)?);
            big.read_ranges(&cached).await?;
            let clock = Clock::start();
            for some in all.chunks(in_flight) {
                for (range, bytes) in some.iter().zip(file.read_ranges(some).await?) {
                    check(&bytes, RANGE, range.start)?;
                }
            }
            Ok(clock.spent())
        }
        Way::Tokio => {
            in_pool(&big, &cached).await?;
            let clock = Clock::start();
            for some in all.chunks(in_flight) {
                in_pool(&file, some).await?;
            }
            Ok(clock.spent())
        }
    }
}

async fn in_pool(file: &Arc<File>, ranges: &[Range<u64>]) -> io::Result<()> {
    let start = |range: &Range<u64>| {
        let (file, offset) = (file.clone(), range.start);
        spawn_blocking(move || {
            let mut buffer = vec![0; RANGE];
            file.read_exact_at(&mut buffer, offset)?;
            io::Result::Ok(buffer)
        })
    };
    let reads: Vec<_> = ranges.iter().map(start).collect();
    for (range, read) in ranges.iter().zip(reads) {
        check(&read.await??, RANGE, range.start)?;
    }
    Ok(())
}
