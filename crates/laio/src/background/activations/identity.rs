//! The identity of a kernel thread: its credentials, filters and namespaces. They belong to the
//! kernel thread, not to the process, and the C library does not know carriers. A change must reach
//! all carriers, or the program would have another identity after its next hand-off.

use super::carrier::Carrier;
use crate::rights;
use crate::sys;
use std::sync::atomic::Ordering::Relaxed;

/// Whether two carriers have the same identity. True if it cannot be determined.
pub(super) fn is_same(one: &Carrier, other: &Carrier) -> bool {
    let [one, other] = [one, other].map(|carrier| carrier.number.load(Relaxed));
    let (had, has) = (credentials(one), credentials(other));
    had.is_none()
        || has.is_none()
        || (had == has
            && share_fs_state(one, other)
            && (!may_change_namespaces(&has) || namespaces(one) == namespaces(other)))
}

/// A thread without CAP_SYS_ADMIN, and with the same credentials as before, cannot have changed its
/// namespaces.
fn may_change_namespaces(credentials: &Option<Vec<String>>) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let mut lines = credentials.iter().flatten();
    let permitted = lines.find_map(|line| line.strip_prefix("CapPrm:"));
    let set = permitted.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_none_or(|set| set & SYS_ADMIN != 0)
}

/// Whether they share root, working directory and umask. True if it cannot be determined: a filter
/// might kill the process for the kcmp call.
fn share_fs_state(one: u32, other: u32) -> bool {
    rights::has_filters() || rights::share_fs_state(one, other).unwrap_or(true)
}

fn credentials(thread: u32) -> Option<Vec<String>> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
    let counts = |line: &&str| rights::is_about_rights(line) || line.starts_with("NStgid:");
    Some(status.lines().filter(counts).map(str::to_owned).collect())
}

/// The namespaces that the thread's own calls use; the others concern children only.
fn namespaces(thread: u32) -> [Option<u64>; 5] {
    ["mnt", "net", "ipc", "uts", "user"].map(|name| {
        let link = format!("/proc/self/task/{thread}/ns/{name}");
        rustix::fs::stat(link).ok().map(|status| status.st_ino)
    })
}

/// Whether the process is dumpable. The kernel clears this when any of its threads changes its
/// credentials, so it reveals changes made other than through laio.
pub(super) fn is_dumpable() -> bool {
    // SAFETY: this command takes no pointers.
    unsafe { sys::raw(libc::SYS_prctl, [libc::PR_GET_DUMPABLE as usize]) == Ok(1) }
}

const CHANGED: &str = "laio: aborting: the credentials, filters or namespaces of this thread were changed other than \
     through laio, while the back end `activations` runs it on several kernel threads. Change \
     them through laio, or before the context is made.";

/// Aborts the process with a message. It cannot continue correctly: the program relies on an
/// identity that it no longer has.
pub(super) fn stop() -> ! {
    eprintln!("{CHANGED}");
    std::process::abort()
}

/// Does the same as [`stop`] on a carrier that does not run the application. No function of the C
/// library may be called there.
pub(super) fn stop_without_library() -> ! {
    let write = |text: &str| {
        let args = [2, text.as_ptr() as usize, text.len()];
        // SAFETY: the text lives through the call.
        let _ = unsafe { sys::raw(libc::SYS_write, args) };
    };
    write(CHANGED);
    write("\n");
    // With the default action, SIGABRT ends the process if this thread does not block it.
    let default = [0u64; 4];
    let abort = libc::SIGABRT as usize;
    let action = (&raw const default) as usize;
    // SAFETY: the pointer is to a `struct sigaction` as the kernel defines it, with all fields zero.
    let _ = unsafe { sys::raw(libc::SYS_rt_sigaction, [abort, action, 0, 8]) };
    sys::mask::unblock(sys::mask::bit(libc::SIGABRT));
    loop {
        // SAFETY: no pointers.
        let _ = unsafe {
            let thread = sys::raw(libc::SYS_gettid, []).unwrap_or(0);
            sys::raw(libc::SYS_tkill, [thread, abort])
        };
    }
}
