//! Inspects whether the application is blocked in its call, and takes it over if so.
//!
//! A context switch of its thread is a hint only: the thread may have been preempted, or run again.
//! `/proc` shows what it does.

use super::carrier::Carrier;
use super::spare;
use super::state::{self, CALL};
use crate::sys;
use crate::sys::high_fd::HighFd;
use crate::sys::mask::Mask;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::*;

/// A carrier that was in a call, but runnable.
pub(super) struct Preempted<'a> {
    carrier: &'a Carrier,
    word: u64,
}

/// Inspects the carrier that runs the application. Does not return if the application is taken
/// over.
pub(super) fn inspect_current(me: &Carrier) -> Option<Preempted<'_>> {
    let shared = me.shared();
    // SAFETY: carriers live as long as what they share.
    let carrier = unsafe { shared.current.load(SeqCst).as_ref()? };
    let word = carrier.control.state.load(SeqCst);
    if state::state(word) != CALL {
        return None;
    }
    let tail = if shared.uses_records() {
        Some(carrier.gate().evidence()?)
    } else {
        None
    };
    if try_to_take(me, carrier, word) {
        return None;
    }
    if let Some(tail) = tail {
        carrier.gate().close_for(tail);
    }
    Some(Preempted { carrier, word })
}

impl<'a> Preempted<'a> {
    /// Inspects it again, if it is still in the same call.
    pub(super) fn inspect_again(self, me: &Carrier) -> Option<Preempted<'a>> {
        if self.carrier.control.state.load(SeqCst) != self.word {
            return None;
        }
        (!try_to_take(me, self.carrier, self.word)).then_some(self)
    }
}

/// Takes the application over if it is blocked in this call. Returns false if the thread is
/// runnable, and true if the call has returned.
fn try_to_take(me: &Carrier, carrier: &Carrier, word: u64) -> bool {
    let shared = me.shared();
    if !is_blocked(carrier) {
        shared.counts.false_wakeups.fetch_add(1, Relaxed);
        return false;
    }
    // Read before the take-over: afterwards the thread, which then blocks all signals, may return
    // from the call.
    let mask = blocked_signals(carrier);
    if state::take(&carrier.control.state, word) {
        if let Some(mask) = mask {
            shared.note_mask(mask);
        }
        spare::take_over(me, carrier);
    }
    // The call has just returned.
    shared.counts.false_wakeups.fetch_add(1, Relaxed);
    true
}

/// Whether the thread sleeps in the call that the assembly has made, and not, say, in a call of a
/// signal handler that interrupted it. The file contains `running`, or the call's number, its
/// arguments, the stack pointer and the program counter.
fn is_blocked(carrier: &Carrier) -> bool {
    let Some(activity) = &carrier.activity else {
        return false;
    };
    let mut text = [0u8; 256];
    let Some(length) = read(activity, &mut text) else {
        return false;
    };
    last_number(&text, length) == Some(sys::handoff::blocked_at())
}

/// The signals that the thread blocks in its call. `None` if that cannot be known now; the last
/// known mask stays.
fn blocked_signals(carrier: &Carrier) -> Option<Mask> {
    let before = Status::from_carrier(carrier)?;
    if !is_blocked(carrier) {
        return None;
    }
    mask_of_the_sleeper((before, Status::from_carrier(carrier)?))
}

/// A snapshot of `/proc/self/task/TID/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    /// The signals that it blocks, which may have changed since laio last read them.
    mask: Mask,
    /// Its voluntary and involuntary context switches.
    switches: [u64; 2],
}

impl Status {
    fn from_carrier(carrier: &Carrier) -> Option<Status> {
        // Longer texts occur only in processes with very many groups.
        let mut text = [0u8; 4096];
        let length = read(carrier.status.as_ref()?, &mut text)?;
        Status::in_text(text.get(..length)?)
    }

    /// Reads the text of `/proc/PID/task/TID/status`.
    fn in_text(text: &[u8]) -> Option<Status> {
        Some(Status {
            mask: mask_in(text)?,
            switches: [
                count_in(text, b"\nvoluntary_ctxt_switches:\t")?,
                count_in(text, b"\nnonvoluntary_ctxt_switches:\t")?,
            ],
        })
    }
}

/// The mask of a thread that slept in its call between two snapshots. `None` if it has run
/// meanwhile: a handler that interrupts the call blocks signals that the program does not.
fn mask_of_the_sleeper((before, after): (Status, Status)) -> Option<Mask> {
    (before == after).then_some(before.mask)
}

/// Parses the decimal number after a name.
fn count_in(text: &[u8], name: &[u8]) -> Option<u64> {
    let begin = text.windows(name.len()).position(|part| part == name)? + name.len();
    let digits = text[begin..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    // A number truncated by the end of the buffer is not valid.
    let end = begin + digits.clone().count();
    (text.get(end) == Some(&b'\n')).then_some(())?;
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn read(file: &HighFd, text: &mut [u8]) -> Option<usize> {
    let args = [
        file.as_raw_fd() as usize,
        text.as_mut_ptr() as usize,
        text.len(),
        0,
    ];
    // SAFETY: the buffer has the length that is said.
    unsafe { sys::raw(libc::SYS_pread64, args) }.ok()
}

/// Parses the mask in the text of `/proc/PID/status`: sixteen hexadecimal digits.
fn mask_in(text: &[u8]) -> Option<Mask> {
    const NAME: &[u8] = b"\nSigBlk:\t";
    let begin = text.windows(NAME.len()).position(|part| part == NAME)? + NAME.len();
    let mut mask: Mask = 0;
    for digit in text.get(begin..begin + 16)? {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        mask = mask << 4 | Mask::from(value);
    }
    Some(mask)
}

/// Parses the hexadecimal number at the end of a line.
fn last_number(text: &[u8; 256], length: usize) -> Option<usize> {
    let (mut value, mut shift) = (0usize, 0u32);
    for &byte in text.iter().take(length).rev() {
        let digit = match byte {
            b'\n' => continue,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'x' => return Some(value),
            _ => return None,
        };
        value |= usize::from(digit).checked_shl(shift)?;
        shift += 4;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(line: &str) -> Option<usize> {
        let mut text = [0; 256];
        text[..line.len()].copy_from_slice(line.as_bytes());
        last_number(&text, line.len())
    }

    #[test]
    fn a_thread_that_ran_between_two_looks_is_known_by_its_switches() {
        let at = |mask: &str, switches: [u64; 2]| {
            let text = format!(
                "Name:\tx\nSigBlk:\t{mask}\nCpus_allowed:\t3\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t{}\n",
                switches[0], switches[1]
            );
            Status::in_text(text.as_bytes()).expect("all lines are there")
        };
        let asleep = at("0000000000000001", [12, 3]);
        assert_eq!(mask_of_the_sleeper((asleep, asleep)), Some(1));
        let in_handler = at("0000000000000201", [12, 3]);
        for switches in [[13, 3], [12, 4]] {
            let again = at("0000000000000001", switches);
            assert_eq!(mask_of_the_sleeper((in_handler, again)), None);
            assert_eq!(mask_of_the_sleeper((asleep, again)), None);
        }
        assert_eq!(
            Status::in_text(b"\nSigBlk:\t0000000000000001\nvoluntary_ctxt_switches:\t12"),
            None
        );
    }

    #[test]
    fn the_mask_is_found() {
        let text =
            b"SigPnd:\t0000000000000000\nSigBlk:\t8000000000004001\nSigIgn:\t0000000000000000\n";
        assert_eq!(mask_in(text), Some(1 << 63 | 1 << 14 | 1));
        assert_eq!(mask_in(&text[..40]), None);
        assert_eq!(mask_in(b""), None);
    }

    #[test]
    fn only_a_blocked_thread_has_a_program_counter() {
        assert_eq!(
            number("0 0x3 0x7ffc 0x1 0x0 0x0 0x0 0x7ffd12345678 0x7f00deadbeef\n"),
            Some(0x7f00_dead_beef)
        );
        assert_eq!(number("running\n"), None);
        assert_eq!(number(""), None);
        assert_eq!(number("-1 0x7ffd12345678 0x10\n"), Some(0x10));
    }
}
