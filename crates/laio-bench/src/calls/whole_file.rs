//! Reading a whole file by its name, with the futures of `laio-rt` and with `std`.

use laio::Errno;
use laio::measure::{Subject, Via};
use laio_rt::Runtime;
use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `laio_rt::fs::read` in a runtime; as the plain call, and without a runtime, `std::fs::read`.
pub(super) struct WholeFile {
    path: PathBuf,
    runtime: Option<Runtime>,
}

impl WholeFile {
    pub(super) fn new(path: &Path, runtime: Option<Runtime>) -> WholeFile {
        WholeFile {
            path: path.to_owned(),
            runtime,
        }
    }
}

impl Subject for WholeFile {
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        let path = &self.path;
        let time = match (via, &self.runtime) {
            (Via::Plain, _) | (_, None) => timed_plainly(path, count)?,
            (_, Some(runtime)) => runtime.block_on(async {
                let start = Instant::now();
                for _ in 0..count {
                    black_box(laio_rt::fs::read(path).await?);
                }
                io::Result::Ok(start.elapsed())
            })?,
        };
        Ok(time.as_nanos() as u64)
    }
}

fn timed_plainly(path: &Path, count: usize) -> io::Result<std::time::Duration> {
    let start = Instant::now();
    for _ in 0..count {
        black_box(std::fs::read(path)?);
    }
    Ok(start.elapsed())
}
