//! The conditions under which the application may change its kernel thread.

use crate::Errno;
use crate::sys::handoff;

/// Bit of `AT_HWCAP2`: programs may set the thread pointer themselves (Linux 5.9).
const FSGSBASE: u64 = 1 << 1;
const ARCH_SHSTK_STATUS: usize = 0x5005;

/// # Errors
/// `ENOSYS` on another architecture; `EOPNOTSUPP` where the kernel or processor does not let
/// programs set the thread pointer, or uses a shadow stack. Whether `/proc` shows the threads (it
/// exists, and the process is dumpable) is checked when the first is inspected.
pub(super) fn check() -> Result<(), Errno> {
    if !handoff::AVAILABLE {
        return Err(Errno::NOSYS);
    }
    // SAFETY: getauxval takes no pointers.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    if capabilities & FSGSBASE == 0 || has_shadow_stack() {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}

/// Whether the thread has a shadow stack, which belongs to the kernel thread.
fn has_shadow_stack() -> bool {
    let mut features = 0u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel writes one word; a kernel that does not know the command writes none.
    let _ = unsafe {
        let place = (&raw mut features) as usize;
        crate::sys::raw(libc::SYS_arch_prctl, [ARCH_SHSTK_STATUS, place])
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (&mut features, ARCH_SHSTK_STATUS);
    features & 1 != 0
}
