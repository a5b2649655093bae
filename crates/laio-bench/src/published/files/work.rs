//! Executes the requests of a trace as operations on files, plainly and through a back end.

use crate::trace::{FILES, Trace};
use laio::ops::Limit;
use laio::{Options, Stats};
use laio_rt::fs::File;
use std::cell::Cell;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The requests to execute.
#[derive(Clone, Debug)]
pub(crate) struct Work(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    files: Vec<PathBuf>,
    /// Indices of files.
    requests: Vec<u32>,
    read: bool,
    bytes: u64,
}

/// The result of an execution.
#[derive(Debug)]
pub(crate) struct Done {
    /// The size of all requested files in bytes.
    pub(crate) bytes: u64,
    pub(crate) wall: Duration,
    /// The counters of the back end.
    pub(crate) stats: Option<Stats>,
}

impl Work {
    pub(crate) fn of(trace: &Trace, set: &Path, read: bool) -> Work {
        let root = set.join(FILES);
        Work(Arc::new(Shared {
            files: trace
                .files
                .iter()
                .map(|file| root.join(&file.name))
                .collect(),
            requests: trace.requests.iter().map(|request| request.file).collect(),
            read,
            bytes: trace.transferred(),
        }))
    }

    /// Returns the sum of all sizes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes
    }

    pub(crate) fn requests(&self) -> usize {
        self.0.requests.len()
    }

    fn path(&self, request: usize) -> &Path {
        &self.0.files[self.0.requests[request] as usize]
    }

    /// Executes the requests by this many threads, each with an equal part.
    pub(crate) fn plainly(&self, threads: usize) -> io::Result<Done> {
        let begin = Instant::now();
        let bytes = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|first| scope.spawn(move || self.every_nth(first, threads)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("threads do not panic"))
                .sum::<io::Result<u64>>()
        })?;
        Ok(Done {
            bytes,
            wall: begin.elapsed(),
            stats: None,
        })
    }

    fn every_nth(&self, first: usize, threads: usize) -> io::Result<u64> {
        let (mut bytes, mut buffer) = (0, Vec::new());
        for request in (first..self.requests()).step_by(threads) {
            let file = std::fs::File::open(self.path(request))?;
            let size = file.metadata()?.len();
            if self.0.read {
                if buffer.len() < size as usize {
                    buffer.resize(size as usize, 0);
                }
                file.read_exact_at(&mut buffer[..size as usize], 0)?;
            }
            bytes += size;
        }
        Ok(bytes)
    }

    /// Executes the requests by one thread with a back end and this many requests in flight.
    pub(crate) fn through(&self, options: Options, in_flight: usize) -> io::Result<Done> {
        let work = self.clone();
        // In a thread of its own, because some back ends change their calling thread.
        let thread = std::thread::spawn(move || {
            let runtime = laio_rt::Runtime::new(options)?;
            // The cost of creating a context matters little in a long-running program.
            let begin = Instant::now();
            let bytes = runtime.block_on(async {
                let next = Rc::new(Cell::new(0));
                let tasks: Vec<_> = (0..in_flight)
                    .map(|_| laio_rt::spawn(work.clone().one_by_one(next.clone())))
                    .collect();
                let mut bytes = 0;
                for task in tasks {
                    bytes += task.await.expect("tasks do not panic")?;
                }
                Ok::<u64, io::Error>(bytes)
            })?;
            Ok(Done {
                bytes,
                wall: begin.elapsed(),
                stats: Some(runtime.stats()),
            })
        });
        thread.join().expect("the thread does not panic")
    }

    /// Executes requests until none is left.
    async fn one_by_one(self, next: Rc<Cell<usize>>) -> io::Result<u64> {
        let (mut bytes, mut buffer) = (0, Vec::new());
        loop {
            let request = next.get();
            if request >= self.requests() {
                return Ok(bytes);
            }
            next.set(request + 1);
            let file = File::open(self.path(request)).await?;
            let size = file.metadata().await?.size();
            if self.0.read {
                buffer.clear();
                buffer.reserve(size as usize);
                let (count, limit) = file.read_at(Limit::new(buffer, size as usize), 0).await;
                buffer = limit.into_inner();
                if count? as u64 != size {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            bytes += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stop;
    use crate::strategy::Strategy;
    use crate::trace::{Preset, make};

    #[test]
    fn every_way_does_all_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let set = scratch.path().join("set");
        let trace = Preset::Rice.trace(3, 0.001);
        make(&trace, &set, true, &Stop::new(), &mut |_| {}).unwrap();
        for read in [false, true] {
            let work = Work::of(&trace, &set, read);
            assert_eq!(work.plainly(3).unwrap().bytes, trace.transferred());
            for strategy in Strategy::ALL {
                let Some(options) = strategy.options(10) else {
                    continue;
                };
                match work.through(options, 10) {
                    Ok(done) => {
                        assert_eq!(done.bytes, trace.transferred(), "{}", strategy.name());
                        let stats = done.stats.expect("there is a context");
                        assert!(stats.total().total() > 2 * work.requests() as u64);
                    }
                    // This test does not require every back end.
                    Err(error) => assert_ne!(strategy.name(), "lazy", "{error}"),
                }
            }
        }
    }
}
