//! The filter of the program, its descriptor in this process, and one call after the other.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};

/// Calls whose second argument is a path.
const WITH_PATH: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_readlinkat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_faccessat2,
];

/// Puts the program that a command starts under a filter whose descriptor goes through `handover`.
pub(crate) fn filter_in_child(command: &mut Command, numbers: &[i32], handover: Arc<Handover>) {
    let program = program(numbers);
    // SAFETY: the closure runs in the child between fork and exec. It allocates nothing and takes no lock: the
    // program is complete, and the hand-over is memory that both processes share.
    unsafe { command.pre_exec(move || handover.offer(&program)) };
}

/// Returns the filter: these calls notify the listener, all others go on.
fn program(numbers: &[i32]) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let number = mem::offset_of!(libc::seccomp_data, nr) as u32;
    let mut program = vec![statement(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        number,
    )];
    for (index, &call) in numbers.iter().enumerate() {
        program.push(libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: u8::try_from(numbers.len() - index).expect("fewer than 255 kinds"),
            jf: 0,
            k: call as u32,
        });
    }
    program.push(statement(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_ALLOW,
    ));
    program.push(statement(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_USER_NOTIF,
    ));
    program
}

/// Memory that the child of a fork shares with its parent, with which the listener goes to the parent: the child
/// may make none of the filtered calls before the parent has it.
#[derive(Debug)]
pub(crate) struct Handover {
    memory: NonNull<Words>,
}

#[derive(Debug)]
struct Words {
    /// The process, stored before `listener`.
    process: AtomicI32,
    /// The number of the listener in the child, or -1.
    listener: AtomicI32,
    /// Set by the parent when it has the listener.
    taken: AtomicBool,
    /// Set by the parent when the program was not started.
    given_up: AtomicBool,
}

// SAFETY: the memory stays mapped until the last owner drops it, and contains atomics only.
unsafe impl Send for Handover {}
// SAFETY: as above.
unsafe impl Sync for Handover {}

impl Handover {
    pub(crate) fn new() -> io::Result<Handover> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                size_of::<Words>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )?
        };
        let memory = NonNull::new(memory.cast::<Words>()).expect("a mapping has an address");
        let words = Words {
            process: AtomicI32::new(0),
            listener: AtomicI32::new(-1),
            taken: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        };
        // SAFETY: the mapping has the size, and the alignment of a page.
        unsafe { memory.write(words) };
        Ok(Handover { memory })
    }

    fn words(&self) -> &Words {
        // SAFETY: `new` has initialised the memory, which is mapped as long as `self` is there.
        unsafe { self.memory.as_ref() }
    }

    /// In the child: installs the filter, and waits until the parent has the listener.
    fn offer(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        let words = self.words();
        words
            .process
            .store(std::process::id() as i32, Ordering::Relaxed);
        let listener = install(program)?;
        words.listener.store(listener, Ordering::Release);
        while !words.taken.load(Ordering::Acquire) {
            // Not a call of any kind.
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// In the parent: waits for the listener; `None` after [`give_up`](Handover::give_up).
    pub(crate) fn take(&self) -> Option<Listener> {
        let words = self.words();
        let number = loop {
            match words.listener.load(Ordering::Acquire) {
                -1 if words.given_up.load(Ordering::Relaxed) => return None,
                -1 => thread::sleep(Duration::from_micros(100)),
                number => break number,
            }
        };
        let process = Pid::from_raw(words.process.load(Ordering::Relaxed))?;
        let pidfd = pidfd_open(process, PidfdFlags::empty()).expect("a child that waits");
        let listener = pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty());
        words.taken.store(true, Ordering::Release);
        Some(Listener(listener.expect("a descriptor of a child")))
    }

    pub(crate) fn give_up(&self) {
        self.words().given_up.store(true, Ordering::Relaxed);
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        // SAFETY: this mapping, of which no reference is left.
        let unmapped =
            unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), size_of::<Words>()) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Installs the filter on the calling thread, and returns the number of its listener.
fn install(program: &[libc::sock_filter]) -> io::Result<c_int> {
    let fprog = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // Signals do not interrupt a call that the listener has received (Linux 5.19).
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let install = || {
        // SAFETY: the program is valid for the call, and the kernel copies it.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const fprog,
            ) as c_int
        }
    };
    let mut listener = install();
    if listener < 0 {
        // Only a process without privileges needs this, and it changes what execve does.
        // SAFETY: the call takes no pointers.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        listener = install();
    }
    match listener {
        -1 => Err(io::Error::last_os_error()),
        listener => Ok(listener),
    }
}

/// The listener of a filter.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    GoOn,
    Fail(c_int),
    Kill,
}

/// A call that waits for its answer.
pub(crate) struct Asked(libc::seccomp_notif);

impl Listener {
    /// Installs a filter on the calling thread. Another thread must answer its calls.
    pub(crate) fn install(numbers: &[c_int]) -> io::Result<Listener> {
        let listener = install(&program(numbers))?;
        // SAFETY: the kernel has just made the descriptor, which nothing else owns.
        Ok(Listener(unsafe { OwnedFd::from_raw_fd(listener) }))
    }

    /// Waits for the next call; `None` when all processes with the filter have ended.
    pub(crate) fn next(&self) -> Option<Asked> {
        loop {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            let ready = fds[0].revents();
            if ready.contains(PollFlags::IN) {
                // SAFETY: zeros are a valid value, which the kernel demands.
                let mut asked: libc::seccomp_notif = unsafe { mem::zeroed() };
                if self.ioctl(libc::SECCOMP_IOCTL_NOTIF_RECV, (&raw mut asked).cast()) {
                    return Some(Asked(asked));
                }
                // The thread was killed meanwhile.
            } else if ready.intersects(PollFlags::HUP | PollFlags::ERR) {
                return None;
            }
        }
    }

    /// Answers a call. Its thread may have been killed meanwhile, which is no error.
    pub(crate) fn answer(&self, asked: &Asked, answer: Answer) {
        // SAFETY: zeros are a valid value.
        let mut response: libc::seccomp_notif_resp = unsafe { mem::zeroed() };
        response.id = asked.0.id;
        match answer {
            Answer::GoOn => response.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            Answer::Fail(errno) => response.error = -errno,
            Answer::Kill => {
                if let Some(process) = asked.process() {
                    // It fails only if another signal has ended the process.
                    let _ = kill_process(process, Signal::KILL);
                }
                return;
            }
        }
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_SEND, (&raw mut response).cast());
    }

    fn ioctl(&self, request: libc::Ioctl, argument: *mut libc::c_void) -> bool {
        // SAFETY: the callers pass the struct that the request takes.
        let result = unsafe { libc::ioctl(self.0.as_fd().as_raw_fd(), request, argument) };
        result == 0
    }
}

impl Asked {
    pub(crate) fn number(&self) -> c_int {
        self.0.data.nr
    }

    /// Whether the kernel never fails this call: a read or write of an eventfd or a similar descriptor of the engine,
    /// or the wakeup of a futex.
    pub(crate) fn is_internal(&self) -> bool {
        let operation = self.0.data.args[1] as c_int & libc::FUTEX_CMD_MASK;
        match libc::c_long::from(self.number()) {
            libc::SYS_read | libc::SYS_write => self
                .file()
                .is_some_and(|file| file.starts_with("anon_inode:")),
            libc::SYS_futex => operation == libc::FUTEX_WAKE,
            _ => false,
        }
    }

    /// Returns the arguments, and the file and path that they name, for messages.
    pub(crate) fn describe(&self) -> String {
        let arguments = &self.0.data.args;
        let file = self.file().unwrap_or_default();
        let path = if WITH_PATH.contains(&libc::c_long::from(self.number())) {
            self.path(arguments[1])
        } else {
            String::new()
        };
        let [a, b, c, d, ..] = *arguments;
        format!(
            "({a:#x}, {b:#x}, {c:#x}, {d:#x}) of thread {}: {file} {path}",
            self.0.pid
        )
    }

    fn process(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.0.pid).ok()?)
    }

    /// Returns the file of the descriptor that the first argument is.
    fn file(&self) -> Option<String> {
        let descriptor = self.0.data.args[0] as c_int;
        let link = std::fs::read_link(format!("/proc/{}/fd/{descriptor}", self.0.pid)).ok()?;
        Some(link.as_os_str().as_bytes().escape_ascii().to_string())
    }

    /// Returns the path at this address of the program.
    fn path(&self, address: u64) -> String {
        let mut bytes = [0; 256];
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.0.pid));
        let length = memory
            .and_then(|memory| memory.read_at(&mut bytes, address))
            .unwrap_or(0);
        let path = bytes[..length]
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        path.escape_ascii().to_string()
    }
}
