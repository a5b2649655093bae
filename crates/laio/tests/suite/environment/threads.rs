//! Rule 9: calls that act on the calling thread; and many threads, each with its contexts.

use super::support::{pipe, result_of};
use crate::harness::{
    Arg, LIMIT, Way, all_ways, at, at_mut, call, collect, cstring, for_each,
    for_each_pending_backend, has_no_reader, own, pending, plain, zeroed,
};
use laio::{BackendKind, Call, Context, Errno, Handle, Outcome};
use laio_testing::Random;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Makes a call that may not go to the background.
#[track_caller]
fn inline<const N: usize>(
    context: &mut Context,
    number: libc::c_long,
    args: [usize; N],
) -> Result<usize, Errno> {
    // SAFETY: as for `start`: the call is over when this returns.
    match unsafe { context.call(Call::new(number, args)) } {
        Outcome::Done(result) => result,
        Outcome::Pending(_) => panic!("a call that acts on the thread went to the background"),
    }
}

#[test]
fn calls_that_act_on_the_thread_run_on_it() {
    for_each(|way| {
        let mut context = way.context();
        // SAFETY: gettid takes no arguments.
        let thread = unsafe { libc::gettid() } as usize;
        assert_eq!(inline(&mut context, libc::SYS_gettid, []), Ok(thread));
        let mask = 1u64 << (libc::SIGUSR2 - 1);
        let (mut before, mut now) = (0u64, 0u64);
        let args = [libc::SIG_BLOCK.arg(), at(&mask), at_mut(&mut before), 8];
        assert_eq!(inline(&mut context, libc::SYS_rt_sigprocmask, args), Ok(0));
        let args = [libc::SIG_SETMASK.arg(), at(&before), at_mut(&mut now), 8];
        assert_eq!(plain(libc::SYS_rt_sigprocmask, args), Ok(0));
        assert_eq!(now, before | mask);
        let args = [libc::PR_SET_NAME.arg(), c"named-by-laio".arg(), 0, 0, 0];
        assert_eq!(inline(&mut context, libc::SYS_prctl, args), Ok(0));
        let name = std::fs::read_to_string("/proc/thread-self/comm").expect("a name");
        assert_eq!(name, "named-by-laio\n");
        let mut time: libc::timespec = zeroed();
        let args = [libc::CLOCK_THREAD_CPUTIME_ID.arg(), at_mut(&mut time)];
        assert_eq!(inline(&mut context, libc::SYS_clock_gettime, args), Ok(0));
        let counts = context.stats().call(libc::SYS_gettid);
        assert_eq!((counts.inline, counts.total()), (1, 1));
    });
}

#[test]
fn calls_that_cannot_work_are_refused() {
    let refused = [
        (libc::SYS_clone, Errno::NOSYS),
        (libc::SYS_clone3, Errno::NOSYS),
        (libc::SYS_rt_sigreturn, Errno::NOSYS),
        (libc::SYS_restart_syscall, Errno::NOSYS),
        (libc::SYS_rt_sigsuspend, Errno::OPNOTSUPP),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_fork, Errno::NOSYS),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_vfork, Errno::NOSYS),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_pause, Errno::OPNOTSUPP),
    ];
    for_each(|way| {
        let mut context = way.context();
        for (number, errno) in refused {
            assert_eq!(
                inline(&mut context, number, []),
                Err(errno),
                "call {number}"
            );
        }
    });
}

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
fn several_contexts_on_one_thread() {
    let _watched = crate::harness::watch("all back ends at once");
    let pipes: Vec<_> = natural_ways().iter().map(|_| pipe()).collect();
    let mut buffers = vec![[0u8; 8]; pipes.len()];
    let mut contexts = Vec::new();
    for (index, way) in natural_ways().iter().enumerate() {
        if way.goes_to_background() {
            let mut context = way.context();
            let args = [pipes[index].0.arg(), at_mut(&mut buffers[index]), 8];
            let read = pending(&mut context, libc::SYS_read, args);
            contexts.push((index, context, read));
        }
    }
    for (index, context, read) in contexts.iter_mut().rev() {
        assert_eq!(
            plain(libc::SYS_write, [pipes[*index].1.arg(), c"text".arg(), 4]),
            Ok(4)
        );
        assert_eq!(result_of(context, *read), Ok(4));
        assert_eq!(&buffers[*index][..4], b"text");
    }
}

/// The end of a thread drops its context, which cancels its operations and waits for them.
#[test]
fn a_thread_ends_with_operations_in_flight() {
    for_each_pending_backend(|way| {
        let way = *way;
        let (reader, writer) = pipe();
        let directory = laio_testing::temp::scratch();
        let fifo = cstring(directory.path().join("fifo"));
        // SAFETY: the name is a string.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        let (read_end, fifo_name) = (reader.arg(), fifo.clone());
        let thread = std::thread::spawn(move || {
            // The buffers of a dropped context are free afterwards.
            let mut buffers = [[0u8; 8]; 2];
            let mut context = way.context();
            for buffer in &mut buffers {
                pending(&mut context, libc::SYS_read, [read_end, at_mut(buffer), 8]);
            }
            let flags = libc::O_RDONLY | libc::O_CLOEXEC;
            let args = [libc::AT_FDCWD.arg(), fifo_name.arg(), flags.arg()];
            pending(&mut context, libc::SYS_openat, args);
            assert_eq!(context.pending(), 3);
            drop(context);
            buffers
        });
        assert_eq!(thread.join().expect("the thread"), [[0; 8]; 2]);
        // No read takes these bytes.
        assert_eq!(
            plain(libc::SYS_write, [writer.arg(), c"text".arg(), 4]),
            Ok(4)
        );
        assert_eq!(laio_testing::temp::drain(&reader), b"text");
        assert!(
            has_no_reader(libc::AT_FDCWD.arg(), &fifo),
            "the cancelled open has left a reader"
        );
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
