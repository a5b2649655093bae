//! Executes the requests of a trace as operations on files, plainly and through a back end.

use crate::trace::{FILES, Trace};
use laio::ops::Limit;
use laio::{Options, Stats};
use laio_rt::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The requests to execute.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    shared: Arc<Shared>,
    /// Whether a back end opens a file and reads its status as one operation.
    together: bool,
}

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
    pub(crate) fn from_trace(trace: &Trace, set: &Path, read: bool) -> Work {
        let root = set.join(FILES);
        let shared = Shared {
            files: trace
                .files
                .iter()
                .map(|file| root.join(&file.name))
                .collect(),
            requests: trace.requests.iter().map(|request| request.file).collect(),
            read,
            bytes: trace.transferred(),
        };
        Work {
            shared: Arc::new(shared),
            together: false,
        }
    }

    /// Opens files and reads their status as one operation, as a program would that wants both.
    pub(crate) fn together(self) -> Work {
        Work {
            together: true,
            ..self
        }
    }

    /// Returns the sum of all sizes.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.bytes
    }

    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.len()
    }

    fn path(&self, request: usize) -> &Path {
        &self.shared.files[self.shared.requests[request] as usize]
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
            if self.shared.read {
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
        self.through_threads(1, &options, in_flight)
    }

    /// Executes the requests by threads with a context each, and this many requests in flight altogether.
    pub(crate) fn through_threads(
        &self,
        threads: usize,
        options: &Options,
        in_flight: usize,
    ) -> io::Result<Done> {
        let (threads, next) = (threads.min(in_flight), Arc::new(AtomicUsize::new(0)));
        // In threads of their own, because some back ends change their calling thread.
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let (work, options, next) = (self.clone(), options.clone(), next.clone());
                let own = (thread..in_flight).step_by(threads).len();
                std::thread::spawn(move || work.one_thread(options, own, next))
            })
            .collect();
        let done = threads
            .into_iter()
            .map(|thread| thread.join().expect("the thread does not panic"));
        let all = done.collect::<io::Result<Vec<Done>>>()?;
        let one = all.iter().map(|done| done.wall).max();
        Ok(Done {
            bytes: all.iter().map(|done| done.bytes).sum(),
            wall: one.unwrap_or_default(),
            stats: all.into_iter().next().and_then(|done| done.stats),
        })
    }

    fn one_thread(
        self,
        options: Options,
        in_flight: usize,
        next: Arc<AtomicUsize>,
    ) -> io::Result<Done> {
        let runtime = laio_rt::Runtime::new(options)?;
        // The cost of creating a context matters little in a long-running program.
        let begin = Instant::now();
        let bytes = runtime.block_on(async {
            let tasks: Vec<_> = (0..in_flight)
                .map(|_| laio_rt::spawn(self.clone().one_by_one(next.clone())))
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
    }

    /// Executes requests until none is left.
    async fn one_by_one(self, next: Arc<AtomicUsize>) -> io::Result<u64> {
        let (mut bytes, mut buffer) = (0, Vec::new());
        loop {
            let request = next.fetch_add(1, Relaxed);
            if request >= self.requests() {
                return Ok(bytes);
            }
            let (file, size) = self.open_and_stat(self.path(request)).await?;
            if self.shared.read {
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

impl Work {
    async fn open_and_stat(&self, path: &Path) -> io::Result<(File, u64)> {
        if self.together {
            let (file, status) = File::open_with_metadata(path).await?;
            return Ok((file, status.size()));
        }
        let file = File::open(path).await?;
        let size = file.metadata().await?.size();
        Ok((file, size))
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
            let work = Work::from_trace(&trace, &set, read);
            assert_eq!(work.plainly(3).unwrap().bytes, trace.transferred());
            for strategy in Strategy::ALL {
                let Some(options) = strategy.options(10) else {
                    continue;
                };
                let together =
                    work.clone()
                        .together()
                        .through_threads(strategy.threads(), &options, 10);
                if let Ok(done) = together {
                    assert_eq!(done.bytes, trace.transferred(), "{}", strategy.name());
                }
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
