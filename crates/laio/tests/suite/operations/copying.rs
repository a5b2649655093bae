//! Typed operations that move bytes inside the kernel, and file positions.

use super::attributes::{errno, run};
use crate::harness::*;
use laio::ops::{Advice, Advise, Load, ReadAt, Reflink, Seek, Splice, Whence};
use laio::{Context, Outcome};
use laio_testing::temp::{drain, fill, make_cold, pattern, pipe, resident_pages, scratch};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

fn file(directory: &Path, name: &str, contents: &[u8]) -> Rc<File> {
    let options = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .clone();
    let mut file = options.open(directory.join(name)).expect("a file");
    file.write_all(contents).expect("contents");
    Rc::new(file)
}

#[test]
fn positions() {
    for_each(|way| {
        let mut context = way.context();
        let place = scratch();
        let file = file(place.path(), "file", &[1; 100]);
        let mut seek = |whence| run(&mut context, Seek::new(file.clone(), whence));
        for (whence, found) in [
            (Whence::Current(0), 100),
            (Whence::Start(10), 10),
            (Whence::Current(-3), 7),
            (Whence::End(-1), 99),
            (Whence::End(1 << 33), (1 << 33) + 100),
            (Whence::Data(50), 50),
            (Whence::Hole(50), 100),
        ] {
            assert_eq!(seek(whence).expect("a position"), found, "{whence:?}");
        }
        for (whence, expected) in [
            (Whence::Current(-101), libc::EINVAL),
            (Whence::Start(u64::MAX), libc::EINVAL),
            (Whence::Data(100), libc::ENXIO),
            (Whence::Hole(101), libc::ENXIO),
        ] {
            assert_eq!(errno(seek(whence)), expected, "{whence:?}");
        }
        let (reader, _writer) = pipe();
        let seek = Seek::new(reader, Whence::Current(0));
        assert_eq!(errno(run(&mut context, seek)), libc::ESPIPE);
    });
}

/// A copy that goes to the ring without an attempt gives the same bytes, end and errors.
#[test]
fn reads_expected_to_block() {
    for_each(|way| {
        let mut context = way.context();
        let place = scratch();
        // Some back ends switch threads for each piece.
        let size = if way.is_short() { 600 } else { 10_000 };
        let contents = pattern(size, 1);
        let file = file(place.path(), "file", &contents);
        let mut read = |offset: u64, buffer: usize, cold: bool| {
            if cold {
                file.sync_all().expect("on the disk");
                let advise = Advise::new(file.clone(), 0, 0, Advice::DontNeed);
                run(&mut context, advise).expect("it may be forgotten");
            }
            let read = ReadAt::new(file.clone(), Vec::with_capacity(buffer), offset);
            run(&mut context, read.expect_block())
        };
        for (offset, buffer) in [
            (0, size),
            (size as u64 / 2, 10),
            (size as u64 - 10, 100),
            (size as u64, 8),
            (1 << 40, 8),
        ] {
            for cold in [false, true] {
                let (result, bytes) = read(offset, buffer, cold);
                let rest = contents.get(offset as usize..).unwrap_or_default();
                assert_eq!(bytes, rest[..rest.len().min(buffer)], "from {offset}");
                assert_eq!(result.expect("bytes"), bytes.len());
            }
        }
        let (result, _) = read(u64::MAX, 8, false);
        assert_eq!(errno(result), libc::EINVAL);
        let mut fails = |file: OwnedFd| {
            let read = ReadAt::new(file, Vec::with_capacity(8), 0).expect_block();
            errno(run(&mut context, read).0)
        };
        let (reader, writer) = pipe();
        rustix::io::write(&writer, b"text").expect("written");
        assert_eq!(
            fails(reader.try_clone().expect("a descriptor")),
            libc::ESPIPE
        );
        assert_eq!(drain(&reader), b"text", "nothing was taken");
        let directory = File::open(place.path()).expect("it is there");
        assert_eq!(fails(directory.into()), libc::EISDIR);
        let to_write = File::options().write(true).open(place.path().join("file"));
        assert_eq!(fails(to_write.expect("it is there").into()), libc::EBADF);
    });
}

/// A load brings exactly what it counts into the page cache.
#[test]
fn loads() {
    let attempts = !laio_testing::lacks("nowait");
    for_each(|way| {
        let mut context = way.context();
        let place = scratch();
        let size = if way.is_short() { 5_000 } else { 300_000 };
        let file = file(place.path(), "file", &pattern(size, 1));
        for (offset, length, expected) in [
            (0, size, size),
            (0, 2 * size, size),
            (4096, 100, 100),
            (size as u64 - 10, 100, 10),
            (size as u64, 8, 0),
            (1 << 40, 8, 0),
            (0, 0, 0),
        ] {
            for cold in [true, false] {
                // On a file system in memory the pages are there.
                let _ = cold.then(|| make_cold(&file));
                let load = Load::new(file.clone(), offset, length);
                let loaded = run(&mut context, load).expect("bytes");
                assert_eq!(loaded, expected, "{length} from {offset}");
                let pages = loaded.div_ceil(4096);
                assert!(resident_pages(&file) >= pages, "{length} from {offset}");
            }
            if !attempts {
                continue;
            }
            let load = Load::new(file.clone(), offset, length).without_waiting();
            match run(&mut context, load) {
                Ok(loaded) => assert_eq!(loaded, expected, "{length} from {offset}"),
                // A file system without such reads, or a kernel that has dropped the pages.
                Err(error) => assert!(
                    [libc::EOPNOTSUPP, libc::EAGAIN]
                        .map(Some)
                        .contains(&error.raw_os_error()),
                    "{error}, {length} from {offset}"
                ),
            }
        }
        let load = Load::new(file, u64::MAX, 8);
        assert_eq!(errno(run(&mut context, load)), libc::EINVAL);
        let (reader, _writer) = pipe();
        let load = Load::new(reader, 0, 8);
        assert_eq!(errno(run(&mut context, load)), libc::ESPIPE);
        let directory = File::open(place.path()).expect("it is there");
        let load = Load::new(directory, 0, 8);
        assert_eq!(errno(run(&mut context, load)), libc::EISDIR);
    });
}

#[test]
fn holes() {
    for_each(|way| {
        let mut context = way.context();
        let place = scratch();
        let file = file(place.path(), "file", &[]);
        file.set_len(4 << 20).expect("written");
        file.write_all_at(&[1; 4096], 1 << 20).expect("written");
        let mut seek = |whence| run(&mut context, Seek::new(file.clone(), whence)).expect("there");
        if seek(Whence::Hole(0)) != 0 {
            return laio_testing::skip("holes", "the file system does not keep holes");
        }
        assert_eq!(seek(Whence::Data(0)), 1 << 20);
        assert_eq!(seek(Whence::Hole(1 << 20)), (1 << 20) + 4096);
    });
}

#[test]
fn advice_takes_effect() {
    for_each(|way| {
        let mut context = way.context();
        let place = scratch();
        let file = file(place.path(), "file", &pattern(100_000, 1));
        for advice in [
            Advice::Sequential,
            Advice::Random,
            Advice::WillNeed,
            Advice::DontNeed,
            Advice::NoReuse,
            Advice::Normal,
        ] {
            for (offset, length) in [(0, 0), (4096, 8192), (0, 5 << 32), (1 << 40, 1)] {
                let advise = Advise::new(file.clone(), offset, length, advice);
                run(&mut context, advise).expect("the advice succeeds");
            }
        }
        let (reader, _writer) = pipe();
        let advise = Advise::new(reader, 0, 0, Advice::WillNeed);
        assert_eq!(errno(run(&mut context, advise)), libc::ESPIPE);
    });
}

#[test]
fn between_files_and_pipes() {
    for_each(|way| {
        let mut context = way.context();
        let place = scratch();
        let contents = pattern(10_000, 2);
        let from = file(place.path(), "from", &contents);
        let to = file(place.path(), "to", &[]);
        let (reader, writer) = pipe();
        let (reader, writer) = (Rc::new(reader), Rc::new(writer));
        let mut done = 0;
        loop {
            let splice = Splice::new(from.clone(), writer.clone(), 4000).from_offset(done);
            let count = run(&mut context, splice).expect("moved");
            if count == 0 {
                break;
            }
            let mut left = count;
            while left > 0 {
                let splice = Splice::new(reader.clone(), to.clone(), left).to_offset(done);
                let moved = run(&mut context, splice).expect("moved");
                (left, done) = (left - moved, done + moved as u64);
            }
        }
        assert_eq!(done, 10_000);
        let copied = std::fs::read(place.path().join("to")).expect("there");
        assert!(copied == contents);

        // At the position of the file.
        let seek = Seek::new(from.clone(), Whence::Start(9_990));
        run(&mut context, seek).expect("a position");
        let splice = Splice::new(from.clone(), writer.clone(), 4000);
        assert_eq!(run(&mut context, splice).expect("moved"), 10);
        assert_eq!(drain(&reader), contents[9_990..]);

        let splice = Splice::new(from.clone(), to.clone(), 10);
        assert_eq!(errno(run(&mut context, splice)), libc::EINVAL);
        let splice = Splice::new(reader.clone(), to, 10).from_offset(0);
        assert_eq!(errno(run(&mut context, splice)), libc::ESPIPE);
        let none = Splice::new(reader, writer, 1).flags(libc::SPLICE_F_NONBLOCK);
        assert!([libc::EAGAIN, libc::EINVAL].contains(&errno(run(&mut context, none))));
    });
}

#[test]
fn a_splice_waits_for_the_pipe() {
    for_each_pending(|way| {
        let mut context = way.context();
        let place = scratch();
        let contents = pattern(100, 3);
        let to = file(place.path(), "to", &[]);
        let (reader, writer) = pipe();
        let splice = Splice::new(reader, to, 1000).to_offset(0);
        let Outcome::Pending(ticket) = context.submit(splice) else {
            panic!("there is nothing yet");
        };
        rustix::io::write(&writer, &contents).expect("written");
        wait_for(&mut context, ticket.handle());
        let moved = context.take(ticket).expect("delivered");
        assert_eq!(moved.expect("moved"), 100);
        assert_eq!(
            std::fs::read(place.path().join("to")).expect("there"),
            contents
        );

        let (reader, writer) = pipe();
        let full = fill(&writer);
        let from = file(place.path(), "from", &contents);
        let splice = Splice::new(from, writer, 1000).from_offset(0);
        let Outcome::Pending(ticket) = context.submit(splice) else {
            panic!("the pipe is full");
        };
        let mut drained = drain(&reader);
        wait_for(&mut context, ticket.handle());
        let moved = context.take(ticket).expect("delivered");
        assert_eq!(moved.expect("moved"), 100);
        drained.extend(drain(&reader));
        assert!(drained[full..] == contents);
    });
}

/// Whether a directory is on a file system whose files can share blocks.
fn shares_blocks(context: &mut Context, place: &Path) -> bool {
    let (from, to) = (file(place, "a", &[1]), file(place, "b", &[]));
    match run(context, Reflink::new(from, to)) {
        Ok(()) => true,
        Err(error) => {
            let errno = error.raw_os_error().expect("an errno");
            assert!([libc::EOPNOTSUPP, libc::ENOTTY].contains(&errno), "{error}");
            laio_testing::skip(
                "reflink",
                "files do not share blocks here (LAIO_TEST_DIR chooses where)",
            );
            false
        }
    }
}

#[test]
fn files_share_their_blocks() {
    for_each(|way| {
        let mut context = way.context();
        let place = scratch();
        if !shares_blocks(&mut context, place.path()) {
            return;
        }
        let contents = pattern(1_000_000, 4);
        let from = file(place.path(), "from", &contents);
        let to = file(place.path(), "to", &[]);
        run(&mut context, Reflink::new(from.clone(), to.clone())).expect("shared");
        let read = || std::fs::read(place.path().join("to")).expect("there");
        assert!(read() == contents);
        let range = Reflink::range(from.clone(), 0, 65_536, to.clone(), 131_072);
        run(&mut context, range).expect("shared");
        assert!(read()[131_072..196_608] == contents[..65_536]);
        // Copies to the end of the file, which is not the end of a block.
        let range = Reflink::range(from.clone(), 917_504, 0, to.clone(), 1_048_576);
        run(&mut context, range).expect("shared");
        assert!(read()[1_048_576..] == contents[917_504..]);
        let range = Reflink::range(from.clone(), 1, 2, to.clone(), 3);
        assert_eq!(errno(run(&mut context, range)), libc::EINVAL);
        let (reader, _writer) = pipe();
        let refused = errno(run(&mut context, Reflink::new(reader, to.clone())));
        assert!([libc::EINVAL, libc::EXDEV].contains(&refused));
        to.write_all_at(b"changed", 0).expect("written");
        let still = std::fs::read(place.path().join("from")).expect("there");
        assert!(still == contents);
    });
}

/// Sharing blocks may wait for seconds until the source is on the disk, or the journal has free space.
#[test]
fn sharing_blocks_does_not_block_the_caller() {
    for_each_pending(|way| {
        let mut context = way.context();
        let place = scratch();
        let (from, to) = (
            file(place.path(), "from", &[1]),
            file(place.path(), "to", &[]),
        );
        for range in [false, true] {
            let reflink = if range {
                Reflink::range(from.clone(), 0, 0, to.clone(), 0)
            } else {
                Reflink::new(from.clone(), to.clone())
            };
            let Outcome::Pending(ticket) = context.submit(reflink) else {
                panic!("the caller made the call itself");
            };
            wait_for(&mut context, ticket.handle());
            let _ = context.take(ticket).expect("delivered");
        }
        // Other ioctl commands are plain where instant calls are plain.
        let mut count = 0i32;
        let owned: OwnedFd = pipe().0;
        let args = [owned.arg(), libc::FIONREAD as usize, at_mut(&mut count)];
        assert_eq!(call(&mut context, libc::SYS_ioctl, args), Ok(0));
    });
}
