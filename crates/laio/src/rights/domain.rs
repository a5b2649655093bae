//! Landlock domains, which the kernel does not report.

use super::reported::ReportedRights;
use crate::sys;

/// Whether the calling thread is known to be in the Landlock domain with which the process began, if in
/// any. False if it has entered another one, or if that cannot be found out.
///
/// A thread in a domain may not look into a process outside of it. The parent of this process is outside
/// of each domain that a thread of this process has entered, and a thread never leaves one. So a thread
/// that may look into the parent has entered none, and neither had any thread when this one started it.
pub(crate) fn is_first(reported: &ReportedRights) -> bool {
    // A filter might kill the process for asking.
    !reported.is_filtered() && may_look_into_parent()
}

fn may_look_into_parent() -> bool {
    let (mut list, mut size) = (0usize, 0usize);
    // SAFETY: getppid takes no pointers.
    let parent = || unsafe { sys::raw(libc::SYS_getppid, []) };
    // 0: it is outside of the PID namespace.
    let Ok(before @ 1..) = parent() else {
        return false;
    };
    let args = [before, (&raw mut list) as usize, (&raw mut size) as usize];
    // SAFETY: the kernel writes a number to each of the two; they are not used.
    let looked = unsafe { sys::raw(libc::SYS_get_robust_list, args) };
    // Its number has not passed to another process meanwhile.
    looked.is_ok() && parent() == Ok(before)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn who_enters_a_domain_shows() {
        if !crate::rights::has_landlock() {
            return;
        }
        let seen = std::thread::spawn(|| {
            let before = may_look_into_parent();
            rustix::thread::set_no_new_privs(true).expect("needs no privilege");
            let files = [1u64 << 3];
            let args = [files.as_ptr() as usize, 8, 0];
            // SAFETY: the kernel reads the attributes.
            let rules = unsafe { sys::raw(libc::SYS_landlock_create_ruleset, args) };
            let rules = rules.expect("a set of rules");
            // SAFETY: takes no pointers.
            let entered = unsafe { sys::raw(libc::SYS_landlock_restrict_self, [rules, 0]) };
            entered.expect("no_new_privs is set");
            (before, may_look_into_parent())
        });
        let (_, after) = seen.join().expect("no panic");
        assert!(!after);
    }
}
