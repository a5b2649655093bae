//! Requests for ranges in contexts of all back ends: plain reads return the same bytes.

use super::*;
use crate::ops::OpenFile;
use crate::ranges::Direct;
use crate::testing::Inject;
use crate::{BackendKind, Options};
use laio_testing::random::Random;
use laio_testing::temp::{pattern, scratch};
use std::fs::File;
use std::path::Path;

const BACK_ENDS: [BackendKind; 7] = [
    BackendKind::Lazy,
    BackendKind::Uring,
    BackendKind::Threads,
    BackendKind::Hybrid,
    BackendKind::PosixAio,
    BackendKind::LinuxAio,
    BackendKind::Sync,
];

/// The contexts of this machine, also with short transfers and without inline reads.
fn contexts() -> Vec<Context> {
    let short = Inject {
        short_transfer: 10_000,
        ..Inject::default()
    };
    let block = Inject {
        force_block: true,
        ..Inject::default()
    };
    let all = BACK_ENDS.into_iter().flat_map(|kind| {
        [Inject::default(), short, block].map(|inject| Options::new().backend(kind).inject(inject))
    });
    all.filter_map(|options| Context::new(options).ok())
        .collect()
}

/// Advances a request as a loop does: after each delivery, and not after each completion.
fn finish(
    context: &mut Context,
    request: &mut RangeRequest<OpenFile>,
) -> io::Result<RequestedRanges> {
    loop {
        match request.advance(context) {
            Poll::Ready(read) => return read,
            Poll::Pending => {
                assert!(!request.in_flight().is_empty());
                context.poll(&mut Vec::new(), None)?
            }
        };
    }
}

/// Ranges in and around a file: in any order, overlapping, empty, beyond the end, and on blocks.
fn random_ranges(random: &mut Random, size: usize) -> Vec<Range<u64>> {
    let longest = [10, 5000, 100_000, 3 << 20][random.below(4)];
    let block = [1, 1, 4096][random.below(3)];
    let count = random.below(30);
    let range = |_| {
        let start = (random.below(size + size / 8 + 1) / block * block) as u64;
        start..start + (random.below(longest) / block * block) as u64
    };
    (0..count).map(range).collect()
}

/// Memory of the program, from which ranges get parts.
struct Memory {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

/// What the parts had before the request.
const UNTOUCHED: u8 = 0xee;

impl Memory {
    /// Parts for these ranges, some of which begin on a page.
    fn new(random: &mut Random, ranges: &[Range<u64>]) -> Memory {
        let mut starts = Vec::new();
        let mut end = 0;
        let length = |range: &Range<u64>| (range.end - range.start) as usize;
        let most: usize = ranges.iter().map(|range| length(range) + 8192).sum();
        let bytes = vec![UNTOUCHED; most];
        for range in ranges {
            let address = bytes.as_ptr().addr() + end;
            let start = match random.below(2) {
                0 => end + address.next_multiple_of(4096) - address,
                _ => end + random.below(100),
            };
            starts.push(start);
            end = start + length(range);
        }
        Memory { bytes, starts }
    }

    fn addresses(&mut self) -> Vec<NonNull<u8>> {
        let first = self.bytes.as_mut_ptr();
        // SAFETY: the starts are within the bytes.
        let at = |&start| unsafe { NonNull::new_unchecked(first.add(start)) };
        self.starts.iter().map(at).collect()
    }
}

/// One request, into memory of the program or not.
fn check(random: &mut Random, context: &mut Context, name: &Path, text: &[u8], what: &str) {
    let ranges = random_ranges(random, text.len());
    let direct = [Direct::Never, Direct::Auto, Direct::Always][random.below(3)];
    let depth = [1, 3, 64][random.below(3)];
    let file = OpenFile::from(File::open(name).unwrap());
    let options = RangeOptions::new(direct).with_depth(depth);
    let mut memory = Memory::new(random, &ranges);
    let mut request = RangeRequest::new(file, ranges.clone(), options);
    let is_lent = random.below(2) == 0;
    if is_lent {
        // SAFETY: nothing else uses the memory until the request is over.
        request = unsafe { request.into_memory(memory.addresses()) };
    }
    let read = finish(context, &mut request).unwrap();
    let what = format!("{what}: {direct:?}, depth {depth}, lent {is_lent}");
    assert_eq!(read.bytes.len(), ranges.len());
    for (index, (range, bytes)) in ranges.iter().zip(read.bytes).enumerate() {
        let within = |at: u64| (at as usize).min(text.len());
        let expected = &text[within(range.start)..within(range.end)];
        let bytes = bytes.unwrap();
        assert!(
            bytes[..] == *expected,
            "{what}: {range:?}, {:?}",
            read.stats
        );
        if is_lent {
            let start = memory.starts[index];
            let length = bytes.len();
            drop(bytes);
            let end = start + (range.end - range.start) as usize;
            assert!(memory.bytes[start..start + length] == *expected, "{what}");
            let next = memory.starts.get(index + 1).copied();
            let after = &memory.bytes[end..next.unwrap_or(memory.bytes.len())];
            assert!(after.iter().all(|&byte| byte == UNTOUCHED), "{what}");
        }
    }
    // A short direct read is repeated.
    let repeats = context.inject.short_transfer > 0;
    assert!(
        repeats || read.stats.repeated == 0,
        "{what}: {:?}",
        read.stats
    );
}

#[test]
fn random_ranges_are_as_plain_reads() {
    let mut random = Random::for_test();
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let parents = [std::env::temp_dir(), beside, "/dev/shm".into()];
    let places = parents.iter().map(tempfile::tempdir_in);
    let places: Vec<_> = places.filter_map(Result::ok).collect();
    let texts = [0, 1, 4095, 4096, 4097, 3_000_001].map(|size| pattern(size, 3));
    for place in &places {
        for text in &texts {
            std::fs::write(place.path().join(text.len().to_string()), text).unwrap();
        }
    }
    for mut context in contexts() {
        for place in &places {
            for text in texts.iter().cycle().take(12) {
                let name = place.path().join(text.len().to_string());
                let what = format!("{:?} {name:?}, seed {}", context.kind, random.seed());
                check(&mut random, &mut context, &name, text, &what);
            }
        }
    }
}

/// A descriptor for direct reads serves later requests, and is not opened again.
#[test]
fn a_descriptor_for_direct_reads_is_kept() {
    let directory = scratch();
    let name = directory.path().join("file");
    std::fs::write(&name, pattern(100_000, 1)).unwrap();
    let file = OpenFile::from(File::open(&name).unwrap());
    let mut context = Context::new(Options::new()).unwrap();
    let mut device = None;
    for _ in 0..3 {
        let before = device
            .as_ref()
            .map(|device: &DeviceFile<OpenFile>| device.file.identity());
        let mut request = RangeRequest::new(file.clone(), vec![0..5000, 1..2], Direct::Always);
        request = request.with_device(device);
        let read = finish(&mut context, &mut request).unwrap();
        device = request.device();
        if !read.stats.reason.is_direct() {
            return laio_testing::skip("direct-io", read.stats.reason.to_string());
        }
        let identity = device.as_ref().unwrap().file.identity();
        assert!(before.is_none_or(|before| before == identity));
    }
}

#[test]
fn a_range_has_its_error() {
    let directory = scratch();
    let name = directory.path().join("file");
    let file = OpenFile::from(File::create(&name).unwrap());
    let mut context = Context::new(Options::new()).unwrap();
    let mut request = RangeRequest::new(
        file.clone(),
        vec![0..5, 9..9, 1 << 40..(1 << 40) + 5],
        Direct::Auto,
    );
    let read = finish(&mut context, &mut request).unwrap();
    let errors = read.bytes.iter().map(|bytes| bytes.as_ref().err().copied());
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [Some(Errno::BADF), None, Some(Errno::BADF)]
    );
    let backwards = Range { start: 5, end: 4 };
    let mut request = RangeRequest::new(file, [backwards].to_vec(), Direct::Auto);
    let error = finish(&mut context, &mut request).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    // As large as a number: there is no memory for it.
    let file = OpenFile::from(File::open("/proc/self/comm").unwrap());
    let mut request = RangeRequest::new(file, vec![0..u64::MAX, 0..4], Direct::Never);
    let read = finish(&mut context, &mut request).unwrap();
    let errors = read.bytes.iter().map(|bytes| bytes.as_ref().err().copied());
    assert_eq!(errors.collect::<Vec<_>>(), [Some(Errno::NOMEM), None]);
}

/// A request that is stopped, at each point: each range has all of its bytes, or the error.
#[test]
fn a_stopped_request_ends() {
    let directory = scratch();
    let name = directory.path().join("file");
    let text = pattern(3_000_000, 2);
    std::fs::write(&name, &text).unwrap();
    let ranges: Vec<_> = (0..40)
        .map(|at| at * 70_000..at * 70_000 + 40_000)
        .collect();
    for mut context in contexts() {
        for point in [0, 1, 2, 3, 5, 10, 20] {
            let file = OpenFile::from(File::open(&name).unwrap());
            let options = RangeOptions::new(Direct::Always).with_depth(4);
            let mut request = RangeRequest::new(file, ranges.clone(), options);
            let mut read = request.advance(&mut context);
            let mut rounds = 0;
            while read.is_pending() {
                if rounds == point {
                    request.stop(&mut context, Errno::TIME);
                }
                rounds += 1;
                context.poll(&mut Vec::new(), None).unwrap();
                read = request.advance(&mut context);
            }
            let Poll::Ready(read) = read else {
                unreachable!()
            };
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(Errno::TIME.raw()));
                    continue;
                }
            };
            for (range, bytes) in ranges.iter().zip(read.bytes) {
                match bytes {
                    Ok(bytes) => {
                        assert!(bytes[..] == text[range.start as usize..range.end as usize])
                    }
                    Err(errno) => assert_eq!(errno, Errno::TIME),
                }
            }
            // Nothing is left behind.
            assert_eq!(context.pending(), 0);
        }
    }
}

/// What is dropped is cancelled, and its memory lives until that is over.
#[test]
fn a_dropped_request_is_abandoned() {
    let directory = scratch();
    let name = directory.path().join("file");
    std::fs::write(&name, pattern(3_000_000, 2)).unwrap();
    for mut context in contexts() {
        let file = OpenFile::from(File::open(&name).unwrap());
        let mut request = RangeRequest::new(file, vec![0..3_000_000, 1..2], Direct::Always);
        let mut started = Vec::new();
        for _ in 0..3 {
            if request.advance(&mut context).is_ready() {
                break;
            }
            started.extend(request.started());
            context.poll(&mut Vec::new(), None).unwrap();
        }
        drop(request);
        while context.pending() > 0 {
            context.poll(&mut Vec::new(), None).unwrap();
        }
        assert!(
            started
                .iter()
                .all(|&handle| context.cancel(handle) == Err(Errno::NOENT))
        );
    }
}

/// While the file is cut and grows again, each byte that is read is one that it had.
#[test]
fn a_file_that_is_truncated_meanwhile() {
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    let directory = scratch();
    let name = directory.path().join("file");
    let text = vec![7u8; 1 << 20];
    std::fs::write(&name, &text).unwrap();
    let writer = File::options().write(true).open(&name).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = is_over.clone();
    let cutter = std::thread::spawn(move || {
        let mut random = Random::for_test();
        while !ends.load(SeqCst) {
            writer.set_len(random.below(1 << 20) as u64).unwrap();
            writer.write_all_at(&text, 0).unwrap();
        }
    });
    let mut random = Random::for_test();
    let ranges = [0..1000, 40_960..700_416, (1 << 20) - 1000..2 << 20];
    let mut context = Context::new(Options::new()).unwrap();
    for direct in [Direct::Never, Direct::Auto, Direct::Always].repeat(10) {
        let file = OpenFile::from(File::open(&name).unwrap());
        let mut memory = Memory::new(&mut random, &ranges);
        let request = RangeRequest::new(file, ranges.to_vec(), direct);
        // SAFETY: nothing else uses the memory until the request is over.
        let mut request = unsafe { request.into_memory(memory.addresses()) };
        let read = finish(&mut context, &mut request).unwrap();
        let lengths: Vec<_> = read.bytes.into_iter().map(|it| it.unwrap().len()).collect();
        for ((start, length), range) in memory.starts.iter().zip(lengths).zip(&ranges) {
            assert!(length as u64 <= range.end - range.start);
            // A hole, while the file grows, is zeros.
            let bytes = &memory.bytes[*start..start + length];
            assert!(bytes.iter().all(|&byte| byte == 7 || byte == 0));
        }
    }
    is_over.store(true, SeqCst);
    cutter.join().unwrap();
}
