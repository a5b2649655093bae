//! Signal masks. Threads of the engine handle no signal of the program: they inherit a mask that
//! blocks all.

/// Blocks all signals of the calling thread while it lives.
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(crate) fn new() -> SignalsBlocked {
        // SAFETY: pthread_sigmask reads one local set and writes the other.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut old = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            SignalsBlocked(old)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: restores the set that `new` saved.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut());
        }
    }
}

/// The kernel's signal set: bit `n - 1` is signal `n`.
pub(crate) type Mask = u64;

/// The bit of one signal.
pub(crate) const fn bit(signal: i32) -> Mask {
    1 << (signal - 1)
}

/// Sets the calling thread's mask by the system call itself, so that it also covers the C library's
/// own signals. Returns the old mask.
pub(crate) fn set(mask: Mask) -> Mask {
    change(libc::SIG_SETMASK, Some(mask))
}

/// Unblocks signals.
pub(crate) fn unblock(mask: Mask) {
    change(libc::SIG_UNBLOCK, Some(mask));
}

/// The calling thread's mask.
pub(crate) fn get() -> Mask {
    change(libc::SIG_BLOCK, None)
}

fn change(how: i32, mask: Option<Mask>) -> Mask {
    let mut old: Mask = 0;
    let new = mask
        .as_ref()
        .map_or(0, |mask| std::ptr::from_ref(mask) as usize);
    let args = [
        how as usize,
        new,
        (&raw mut old) as usize,
        size_of::<Mask>(),
    ];
    // SAFETY: the kernel reads and writes sets of the given size.
    let _ = unsafe { super::raw(libc::SYS_rt_sigprocmask, args) };
    old
}

/// Like [`SignalsBlocked`], but without the C library, so that its own signals are blocked too.
pub(crate) struct AllBlocked(Mask);

impl AllBlocked {
    pub(crate) fn new() -> AllBlocked {
        AllBlocked(set(Mask::MAX))
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        set(self.0);
    }
}
