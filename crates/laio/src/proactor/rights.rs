//! Who makes a call for the calling thread: a driver with the same rights, or a thread that the
//! calling thread starts.
//!
//! The thread that starts a driver passes its rights on to it, and callers compare theirs with these
//! at every hand-over ([`crate::background`]). What cannot be compared:
//!
//! - Seccomp filters: the kernel shows how many there are, not which. A thread only ever adds filters,
//!   so a driver that the calling thread itself has started has the same ones if the number is the
//!   same. Threads with filters therefore have a driver of their own.
//! - Landlock domains and namespaces: a thread started for the call inherits them, unless it is known
//!   that the calling thread has entered no domain.

use super::driver::Driver;
use super::generation::Generation;
use super::local::Local;
use crate::operations::Link;
use crate::rights::{
    ReportedRights, by_name, depends_on_rights, has_filters, needs_own_thread,
    shares_fs_state_with, thread_id,
};
use crate::table::{self, Row};
use crate::{Call, Errno, Options, Rights};
use std::sync::Arc;

/// Who makes a call.
pub(super) enum Maker {
    Driver(Arc<Driver>),
    /// A thread started for the call.
    OneShot,
}

/// Returns who makes a call of the calling thread.
///
/// # Errors
/// Those of starting a driver.
pub(super) fn maker(
    generation: &Generation,
    options: &Options,
    local: &mut Local,
    row: &Row,
    call: &Call,
    links: &[Link; 2],
) -> Result<Maker, Errno> {
    let shared = |filtered| generation.driver(links, options, filtered).cloned();
    match options.whose_rights() {
        Rights::Thread => {}
        // A driver with a ring serves no thread with filters, which may have come for all threads since
        // it was started.
        Rights::Process => return shared(has_filters()).map(Maker::Driver),
        Rights::Settled => return shared(false).map(Maker::Driver),
    }
    let shared = || shared(false);
    if !depends_on_rights(row) && !has_filters() {
        let driver = shared()?;
        if !driver.filtered && shares_descriptors(&driver) {
            return Ok(Maker::Driver(driver));
        }
    }
    let Some(reported) = ReportedRights::of_this_thread() else {
        return Ok(Maker::OneShot);
    };
    if needs_own_thread(&reported, row, call) {
        return Ok(Maker::OneShot);
    }
    let fits = |driver: &Driver, own: bool| {
        driver.rights.as_ref() == Some(&reported)
            && (own || (driver.without_domain && !reported.is_filtered()))
            && has_same_state(driver, &reported, row)
    };
    let driver = shared()?;
    if fits(&driver, false) {
        return Ok(Maker::Driver(driver));
    }
    if let Some(own) = local.own_driver()
        && fits(own, true)
    {
        return Ok(Maker::Driver(own.clone()));
    }
    if reported.is_filtered() && by_name(row) {
        // Root and working directory cannot be compared.
        return Ok(Maker::OneShot);
    }
    Ok(Maker::Driver(local.start_own_driver(generation, options)?))
}

/// Returns which thread runs a function of the calling thread: one that may open a file by name for it.
///
/// # Errors
/// Those of starting a driver.
pub(super) fn maker_of_function(
    generation: &Generation,
    options: &Options,
    local: &mut Local,
) -> Result<Maker, Errno> {
    let open = Call::new(libc::SYS_openat, []);
    let row = table::row(open.number);
    maker(generation, options, local, row, &open, &[Link::UNUSED; 2])
}

/// Whether the thread shares its root, working directory, umask and descriptors with the driver, as
/// far as the call needs them.
fn has_same_state(driver: &Driver, reported: &ReportedRights, row: &Row) -> bool {
    if reported.is_filtered() {
        // A filter might kill the process for asking. The driver's own thread has the same state
        // unless it has called `unshare` since; calls by name do not rely on that.
        return !by_name(row);
    }
    let same_names = !by_name(row) || shares_fs_state_with(driver.thread) == Ok(true);
    same_names && shares_descriptors(driver)
}

/// Whether the thread shares its table of descriptors with the driver. Where the kernel does not
/// answer, it is assumed: only `unshare(CLONE_FILES)` would change it.
fn shares_descriptors(driver: &Driver) -> bool {
    const KCMP_FILES: usize = 2;
    // SAFETY: kcmp takes no pointers for this question.
    let same = unsafe {
        let args = [
            thread_id() as usize,
            driver.thread as usize,
            KCMP_FILES,
            0,
            0,
        ];
        crate::sys::raw(libc::SYS_kcmp, args)
    };
    !matches!(same, Ok(order) if order != 0)
}
