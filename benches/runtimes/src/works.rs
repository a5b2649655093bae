//! The calls that are measured, by each crate.

use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq)]
pub enum Work {
    Read4,
    Read64,
    Write4,
    Whole,
    Metadata,
    WriteFile,
}

impl Work {
    pub const ALL: [Work; 6] = [
        Work::Read4,
        Work::Read64,
        Work::Write4,
        Work::Whole,
        Work::Metadata,
        Work::WriteFile,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Work::Read4 => "positioned read, 4 KiB",
            Work::Read64 => "positioned read, 64 KiB",
            Work::Write4 => "positioned write, 4 KiB",
            Work::Whole => "`read` of a file of 4 KiB",
            Work::Metadata => "`metadata`",
            Work::WriteFile => "`write` of a file of 4 KiB",
        }
    }

    fn calls(self) -> u32 {
        match self {
            Work::WriteFile => 50,
            _ => 1000,
        }
    }
}

const PAGE: usize = 4096;
/// Bytes of the file of which parts are read and written.
const LARGE: usize = 1 << 20;

pub fn prepare(at: &Path) {
    std::fs::write(at.join("large"), vec![1; LARGE]).expect("written");
    std::fs::write(at.join("small"), vec![2; PAGE]).expect("written");
}

/// Where the next call reads or writes.
fn offset(call: u32, size: usize) -> u64 {
    (call as usize * size % LARGE) as u64
}

/// A function that makes the calls of a work and returns the time of one. The crate has `$open`, `$whole`, `$metadata` and
/// `$write` by name, and positioned calls on its file, which get and return the buffer.
macro_rules! way {
    (
        $name:ident($path:ty),
        open: |$open_at:ident| $open:expr,
        read: |$read_file:ident, $read_buffer:ident, $read_offset:ident, $size:ident| $read:expr,
        write: |$write_file:ident, $write_buffer:ident, $write_offset:ident| $write:expr,
        whole: |$whole_at:ident| $whole:expr,
        metadata: |$metadata_at:ident| $metadata:expr,
        write_file: |$file_at:ident, $contents:ident| $write_whole:expr,
    ) => {
        pub async fn $name(work: Work, at: $path) -> Duration {
            let (large, small) = (at.join("large"), at.join("small"));
            let file = {
                let $open_at = &large;
                $open
            };
            let size = if work == Work::Read64 {
                16 * PAGE
            } else {
                PAGE
            };
            let mut buffer = vec![3; size];
            let mut begin = Instant::now();
            for call in 0..=work.calls() {
                match work {
                    Work::Read4 | Work::Read64 => {
                        let ($read_file, $read_offset, $size) = (&file, offset(call, size), size);
                        let $read_buffer = buffer;
                        buffer = $read;
                        assert_eq!(buffer.len(), size);
                    }
                    Work::Write4 => {
                        let ($write_file, $write_offset) = (&file, offset(call, size));
                        let $write_buffer = buffer;
                        buffer = $write;
                    }
                    Work::Whole => {
                        let $whole_at = &small;
                        assert_eq!($whole.len(), PAGE);
                    }
                    Work::Metadata => {
                        let $metadata_at = &small;
                        assert_eq!($metadata, PAGE as u64);
                    }
                    Work::WriteFile => {
                        let ($file_at, $contents) = (&small, vec![4; PAGE]);
                        $write_whole;
                    }
                }
                if call == 0 {
                    begin = Instant::now();
                }
            }
            begin.elapsed() / work.calls()
        }
    };
}

fn options() -> std::fs::OpenOptions {
    std::fs::File::options().read(true).write(true).clone()
}

way! {
    plain(&Path),
    open: |path| options().open(path).expect("open"),
    read: |file, buffer, offset, size| {
        let mut buffer = buffer;
        let count = std::os::unix::fs::FileExt::read_at(file, &mut buffer, offset).expect("read");
        assert_eq!(count, size);
        buffer
    },
    write: |file, buffer, offset| {
        std::os::unix::fs::FileExt::write_all_at(file, &buffer, offset).expect("written");
        buffer
    },
    whole: |path| std::fs::read(path).expect("read"),
    metadata: |path| std::fs::metadata(path).expect("metadata").len(),
    write_file: |path, contents| std::fs::write(path, contents).expect("written"),
}

way! {
    laio_way(&Path),
    open: |path| laio_tokio::fs::File::from_std(options().open(path).expect("open")),
    read: |file, buffer, offset, size| {
        let mut buffer = buffer;
        buffer.clear();
        let (count, buffer) = file.read_at(buffer, offset).await;
        assert_eq!(count.expect("read"), size);
        buffer
    },
    write: |file, buffer, offset| {
        let (count, buffer) = file.write_at(buffer, offset).await;
        assert_eq!(count.expect("written"), PAGE);
        buffer
    },
    whole: |path| laio_tokio::fs::read(path).await.expect("read"),
    metadata: |path| laio_tokio::fs::metadata(path).await.expect("metadata").len(),
    write_file: |path, contents| laio_tokio::fs::write(path, contents).await.expect("written"),
}

way! {
    tokio_way(&Path),
    open: |path| std::sync::Arc::new(options().open(path).expect("open")),
    // `tokio::fs` has no positioned calls.
    read: |file, buffer, offset, size| {
        let (file, mut buffer) = (file.clone(), buffer);
        let read = tokio::task::spawn_blocking(move || {
            let count = std::os::unix::fs::FileExt::read_at(&*file, &mut buffer, offset);
            (count, buffer)
        });
        let (count, buffer) = read.await.expect("a thread");
        assert_eq!(count.expect("read"), size);
        buffer
    },
    write: |file, buffer, offset| {
        let (file, buffer) = (file.clone(), buffer);
        let write = tokio::task::spawn_blocking(move || {
            std::os::unix::fs::FileExt::write_all_at(&*file, &buffer, offset).expect("written");
            buffer
        });
        write.await.expect("a thread")
    },
    whole: |path| tokio::fs::read(path).await.expect("read"),
    metadata: |path| tokio::fs::metadata(path).await.expect("metadata").len(),
    write_file: |path, contents| tokio::fs::write(path, contents).await.expect("written"),
}

way! {
    async_fs_way(&Path),
    open: |path| std::sync::Arc::new(options().open(path).expect("open")),
    // `async-fs` has no positioned calls; it is made of `blocking`.
    read: |file, buffer, offset, size| {
        let (file, mut buffer) = (file.clone(), buffer);
        let (count, buffer) = blocking::unblock(move || {
            let count = std::os::unix::fs::FileExt::read_at(&*file, &mut buffer, offset);
            (count, buffer)
        })
        .await;
        assert_eq!(count.expect("read"), size);
        buffer
    },
    write: |file, buffer, offset| {
        let (file, buffer) = (file.clone(), buffer);
        blocking::unblock(move || {
            std::os::unix::fs::FileExt::write_all_at(&*file, &buffer, offset).expect("written");
            buffer
        })
        .await
    },
    whole: |path| async_fs::read(path).await.expect("read"),
    metadata: |path| async_fs::metadata(path).await.expect("metadata").len(),
    write_file: |path, contents| async_fs::write(path, contents).await.expect("written"),
}

way! {
    tokio_uring_way(std::path::PathBuf),
    open: |path| tokio_uring::fs::File::from_std(options().open(path).expect("open")),
    read: |file, buffer, offset, size| {
        let (count, buffer) = file.read_at(buffer, offset).await;
        assert_eq!(count.expect("read"), size);
        buffer
    },
    write: |file, buffer, offset| {
        let (result, buffer) = file.write_all_at(buffer, offset).await;
        result.expect("written");
        buffer
    },
    // There is no `read` of a whole file: it is opened, its size read, and it is read and closed.
    whole: |path| {
        let file = tokio_uring::fs::File::open(path).await.expect("open");
        let size = file.statx().await.expect("statx").stx_size;
        let (count, buffer) = file.read_at(Vec::with_capacity(size as usize), 0).await;
        assert_eq!(count.expect("read") as u64, size);
        file.close().await.expect("closed");
        buffer
    },
    metadata: |path| tokio_uring::fs::statx(path).await.expect("metadata").stx_size,
    write_file: |path, contents| {
        let file = tokio_uring::fs::File::create(path).await.expect("created");
        file.write_all_at(contents, 0).await.0.expect("written");
        file.close().await.expect("closed");
    },
}

way! {
    compio_way(std::path::PathBuf),
    open: |path| {
        let options = compio::fs::OpenOptions::new().read(true).write(true).clone();
        options.open(path).await.expect("open")
    },
    read: |file, buffer, offset, size| {
        use compio::io::AsyncReadAt;
        let compio::buf::BufResult(count, buffer) = file.read_at(buffer, offset).await;
        assert_eq!(count.expect("read"), size);
        buffer
    },
    write: |file, buffer, offset| {
        use compio::io::AsyncWriteAtExt;
        let mut file = file;
        let compio::buf::BufResult(result, buffer) = file.write_all_at(buffer, offset).await;
        result.expect("written");
        buffer
    },
    whole: |path| compio::fs::read(path).await.expect("read"),
    metadata: |path| compio::fs::metadata(path).await.expect("metadata").len(),
    write_file: |path, contents| compio::fs::write(path, contents).await.0.expect("written"),
}
