//! Ranges of a file: starting a request.

use crate::completion::to_pointer;
use crate::operations::duration;
use crate::range_results::{Results, laio_ranges};
use crate::requests::Request;
use crate::ret::{IntoC, conclude};
use crate::sized;
use crate::thread::{LOCAL, laio_context, with};
use laio::ranges::{DEPTH, Direct, RangeOptions};
use laio::{Errno, Outcome};
use libc::{c_long, c_void};
use std::ptr::null_mut;

const DIRECT_AUTO: u32 = 0x1;
const DIRECT_ALWAYS: u32 = 0x2;

/// Reads ranges of a file: see `laio.h`.
///
/// # Safety
/// `request` is null or as `laio.h` says, `handle` is null or may be written. The ranges, their buffers and
/// the statistics belong to the operation, if it becomes one, until its completion has been delivered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_read_ranges(
    context: *mut laio_context,
    request: *const laio_ranges,
    handle: *mut *mut c_void,
) -> c_long {
    if !handle.is_null() {
        // SAFETY: by the caller.
        unsafe { handle.write(null_mut()) };
    }
    let outcome = with(context, |context| {
        // SAFETY: by the caller.
        let request = unsafe { read(request)? };
        Ok(context.requests.start(&mut context.engine, request))
    });
    match outcome {
        Ok(outcome) => {
            if let Outcome::Pending(pending) = outcome
                && !handle.is_null()
            {
                // SAFETY: by the caller.
                unsafe { handle.write(to_pointer(pending)) };
            }
            LOCAL.with(|local| conclude(local, outcome))
        }
        // Called from within another call, which owns the last handle.
        Err(Errno::DEADLK) => Err(Errno::DEADLK).into_c(),
        Err(errno) => LOCAL.with(|local| conclude(local, Outcome::Done(Err(errno)))),
    }
}

/// Checks the arguments.
///
/// # Safety
/// As for [`laio_read_ranges`].
unsafe fn read(request: *const laio_ranges) -> Result<Request, Errno> {
    // SAFETY: by the caller.
    let given = unsafe { sized::read(request)? };
    // SAFETY: by the caller.
    let timeout = unsafe { duration(given.timeout)? };
    let direct = match given.flags {
        0 => Direct::Never,
        DIRECT_AUTO => Direct::Auto,
        DIRECT_ALWAYS => Direct::Always,
        _ => return Err(Errno::INVAL),
    };
    if given.fd < 0 {
        return Err(Errno::BADF);
    }
    let results = unsafe {
        // SAFETY: by the caller.
        Results::new(&given)?
    };
    let depth = match given.depth {
        0 => DEPTH,
        depth => depth as usize,
    };
    let options = RangeOptions::new(direct).with_depth(depth);
    let (ranges, memory) = results.wanted()?.into_iter().unzip();
    Ok(Request::new(
        &given, ranges, memory, options, results, timeout,
    ))
}
