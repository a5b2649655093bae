//! Rule 9: many threads, each with its contexts.

use super::support::pipe;
use crate::harness::{
    Arg, LIMIT, Way, all_ways, at_mut, call, collect, cstring, for_each, own, pending, plain,
    zeroed,
};
use laio::{BackendKind, Context, Errno, Handle, Outcome};
use laio_testing::Random;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Operations of one context, with their expected results.
struct Mixed {
    context: Context,
    pipes: Vec<(OwnedFd, OwnedFd)>,
    buffers: Vec<[u8; 64]>,
    directory: tempfile::TempDir,
}

impl Mixed {
    fn new(way: &Way) -> Mixed {
        Mixed {
            context: way.context(),
            pipes: (0..8).map(|_| pipe()).collect(),
            buffers: vec![[0; 64]; 8],
            directory: laio_testing::temp::scratch(),
        }
    }

    /// Starts reads that block, makes calls that do not, then writes what the reads wait for; cancels some.
    fn round(&mut self, random: &mut Random, round: usize) {
        let background = self.context.info().backend() != BackendKind::Sync;
        let mut reads: HashMap<Handle, usize> = HashMap::new();
        if background {
            for (index, (reader, _)) in self.pipes.iter().enumerate() {
                let args = [reader.arg(), at_mut(&mut self.buffers[index]), 64];
                reads.insert(pending(&mut self.context, libc::SYS_read, args), index);
            }
        }
        let mut ended = Vec::new();
        self.files(round, &mut ended);
        let mut cancelled = Vec::new();
        for (&read, &index) in &reads {
            if random.chance(1, 4) {
                cancelled.push(read);
                assert_eq!(self.context.cancel(read), Ok(()));
            } else {
                let args = [self.pipes[index].1.arg(), c"0123456789".arg(), index + 1];
                assert_eq!(plain(libc::SYS_write, args), Ok(index + 1));
            }
        }
        ended.extend(collect(&mut self.context, reads.len()));
        for one in ended {
            let index = reads[&one.handle];
            if cancelled.contains(&one.handle) {
                assert_eq!(one.result, Err(Errno::CANCELED));
                continue;
            }
            assert_eq!(one.result, Ok(index + 1));
            assert_eq!(
                &self.buffers[index][..index + 1],
                &b"0123456789"[..index + 1]
            );
        }
        assert_eq!(self.context.pending(), 0);
    }

    /// Makes, writes, reads and removes a file while the reads are in flight.
    fn files(&mut self, round: usize, ended: &mut Vec<laio::Completion>) {
        let name = cstring(self.directory.path().join(format!("file{round}")));
        let here = libc::AT_FDCWD.arg();
        let create = libc::O_CREAT | libc::O_RDWR | libc::O_CLOEXEC;
        let args = [here, name.arg(), create.arg(), 0o600];
        let file = own(self.among_others(libc::SYS_openat, args, ended));
        let text = c"contents".arg();
        let written = self.among_others(libc::SYS_pwrite64, [file.arg(), text, 8, 0], ended);
        assert_eq!(written, Ok(8));
        let mut buffer = [0u8; 16];
        let args = [file.arg(), at_mut(&mut buffer), 16, 0];
        assert_eq!(self.among_others(libc::SYS_pread64, args, ended), Ok(8));
        assert_eq!(&buffer[..8], b"contents");
        let mut stat: libc::stat = zeroed();
        let args = [here, name.arg(), at_mut(&mut stat), 0];
        assert_eq!(self.among_others(libc::SYS_newfstatat, args, ended), Ok(0));
        assert_eq!(stat.st_size, 8);
        let args = [here, name.arg(), 0];
        assert_eq!(self.among_others(libc::SYS_unlinkat, args, ended), Ok(0));
    }

    /// The result of a call while others are in flight.
    fn among_others<const N: usize>(
        &mut self,
        number: libc::c_long,
        args: [usize; N],
        ended: &mut Vec<laio::Completion>,
    ) -> Result<usize, Errno> {
        let handle = match crate::harness::start(&mut self.context, number, args) {
            Outcome::Done(result) => return result,
            Outcome::Pending(handle) => handle,
        };
        loop {
            assert_ne!(self.context.poll(ended, Some(LIMIT)), Ok(0), "nothing ends");
            if let Some(at) = ended.iter().position(|one| one.handle == handle) {
                return ended.remove(at).result;
            }
        }
    }
}

fn natural_ways() -> Vec<Way> {
    all_ways()
        .into_iter()
        .filter(|way| way.mode == crate::harness::Mode::Natural)
        // Fails next to contexts with a ring, because a ring serves one kernel thread.
        .filter(|way| way.backend != BackendKind::Activations)
        .collect()
}

#[test]
fn many_threads_with_a_context_of_each_back_end() {
    let _watched = crate::harness::watch("8 threads");
    let seed = Random::for_test().seed();
    println!("seed {seed}");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                let mut random = Random::new(seed + thread);
                let mut all: Vec<Mixed> = natural_ways().iter().map(Mixed::new).collect();
                for round in 0..6 {
                    for mixed in &mut all {
                        mixed.round(&mut random, round);
                    }
                }
            });
        }
    });
}

#[test]
fn a_notifier_outlives_its_context() {
    for_each(|way| {
        let mut context = way.context();
        let notifier = context.notifier();
        let clone = notifier.clone();
        let ringing = std::thread::spawn(move || clone.notify());
        assert_eq!(context.poll(&mut Vec::new(), Some(LIMIT)), Ok(0));
        ringing.join().expect("a thread");
        drop(context);
        notifier.notify();
        std::thread::spawn(move || notifier.notify())
            .join()
            .expect("a thread");
        let mut buffer = [0u8; 1];
        let null = std::fs::File::open("/dev/null").expect("the null device");
        let mut next = way.context();
        let args = [null.arg(), at_mut(&mut buffer), 1];
        assert_eq!(call(&mut next, libc::SYS_read, args), Ok(0));
    });
}

/// A ring serves one kernel thread, and carriers are several: a context of the second kind fails or works without a
/// ring.
#[test]
fn carriers_and_rings_exclude_each_other_on_a_thread() {
    let activations = Way::natural(BackendKind::Activations);
    let carried = match Context::new(activations.options()) {
        Ok(carried) => carried,
        Err(errno) => return laio_testing::skip("activations", format!("no context: {errno}")),
    };
    let uring = Context::new(Way::natural(BackendKind::Uring).options());
    assert_eq!(uring.err(), Some(Errno::BUSY));
    let lazy = Way::natural(BackendKind::Lazy).context();
    assert!(!lazy.info().has_ring());
    drop(carried);
    let lazy = Way::natural(BackendKind::Lazy).context();
    if lazy.info().has_ring() {
        let refused = Context::new(activations.options());
        assert_eq!(refused.err(), Some(Errno::BUSY));
    }
    drop(lazy);
    assert!(Context::new(activations.options()).is_ok());
}
