//! Adds up the files below a directory, many directories at a time: `walk DIRECTORY`.

use laio_rt::fs::{self, FileType};
use laio_rt::sync::Semaphore;
use laio_rt::{JoinHandle, Runtime, spawn};
use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

/// The number of directories read at a time: each has a descriptor open.
const DIRECTORIES_MAX: usize = 64;

#[derive(Default)]
struct Sum {
    files: Cell<u64>,
    bytes: Cell<u64>,
}

fn walk(path: PathBuf, permits: Semaphore, sum: Rc<Sum>) -> JoinHandle<io::Result<()>> {
    spawn(async move {
        let mut below = Vec::new();
        {
            let _permit = permits.acquire().await;
            let mut entries = fs::read_dir(&path).await?;
            while let Some(entry) = entries.next().await? {
                let mut kind = entry.file_type();
                if kind != FileType::Directory {
                    let status = entries.metadata(entry.file_name()).await?;
                    kind = status.file_type();
                    if kind == FileType::Regular {
                        sum.files.set(sum.files.get() + 1);
                        sum.bytes.set(sum.bytes.get() + status.size());
                    }
                }
                if kind == FileType::Directory {
                    below.push(walk(entry.path().to_owned(), permits.clone(), sum.clone()));
                }
            }
            // The descriptor and the permit are released here, before waiting for the subdirectories.
        }
        for directory in below {
            if let Err(error) = directory
                .await
                .expect("a walk neither panics nor is aborted")
            {
                eprintln!("below {}: {error}", path.display());
            }
        }
        Ok(())
    })
}

fn main() -> io::Result<()> {
    let root = std::env::args_os().nth(1).unwrap_or_else(|| ".".into());
    let runtime = Runtime::new(laio::Options::new())?;
    let sum = Rc::new(Sum::default());
    runtime.block_on(async {
        let walk = walk(root.into(), Semaphore::new(DIRECTORIES_MAX), sum.clone());
        walk.await.expect("a walk neither panics nor is aborted")
    })?;
    let counts = runtime.stats().total();
    println!("{} files, {} bytes", sum.files.get(), sum.bytes.get());
    println!(
        "{} calls did not block, {} went to the background",
        counts.inline,
        counts.total() - counts.inline
    );
    Ok(())
}
