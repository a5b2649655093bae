//! Is it the same as the plain system calls? Random programs, run twice and compared.
//!
//! A [`Program`] is a list of [`Step`]s: mostly one system call each, with good and bad arguments. It
//! runs in a [`World`]: an empty directory, a pipe, two pairs of sockets, some slots for descriptors.
//! The calls are made by a [`Kernel`]: [`Plain`] makes them as they are; the one under test makes them
//! in its own way and waits for the result. Both runs must give the same [`Trace`] and leave the same
//! [`State`].
//!
//! ```
//! use laio_testing::{Random, oracle};
//! use std::ffi::c_long;
//!
//! /// Makes all calls on another thread.
//! struct Elsewhere;
//!
//! impl oracle::Kernel for Elsewhere {
//!     unsafe fn call(&mut self, number: c_long, words: [usize; 6]) -> isize {
//!         let plain = move || unsafe { oracle::Plain.call(number, words) };
//!         std::thread::spawn(plain).join().unwrap()
//!     }
//! }
//!
//! let mut random = Random::for_test();
//! oracle::check(&mut random, 3, 50, &mut Elsewhere);
//! ```
//!
//! Calls that would wait for ever in a plain world are skipped. Two steps wait for certain:
//! [`Step::ReadFed`] and [`Step::WriteDrained`] have another thread that ends the waiting.

mod arena;
mod generate;
mod lower;
mod step;
mod trace;
mod world;

use std::ffi::c_long;
use std::fmt;

use crate::Random;
use crate::temp::scratch;

pub use step::{At, Buffer, Data, Fd, Name, Program, SLOTS, Step, Via};
pub use trace::{Bytes, Entry, Event, OpenFile, Outcome, State, Trace};
pub use world::World;

/// Something that makes system calls.
pub trait Kernel {
    /// Makes a call and returns what the kernel leaves in the result register: an error is a negative
    /// errno. It returns when the call has ended.
    ///
    /// # Safety
    ///
    /// As of the system call itself: what the words point to must be there until it returns.
    unsafe fn call(&mut self, number: c_long, words: [usize; 6]) -> isize;
}

/// The system calls as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Kernel for Plain {
    unsafe fn call(&mut self, number: c_long, words: [usize; 6]) -> isize {
        let [a, b, c, d, e, f] = words;
        // SAFETY: the caller has promised what the call needs.
        let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        match result {
            -1 => -(std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize),
            value => value as isize,
        }
    }
}

/// Two runs of one program that are not the same.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The program.
    pub program: Program,
    /// What the plain calls did, and what they left.
    pub plain: (Trace, State),
    /// The same of the calls under test.
    pub tested: (Trace, State),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.plain.0.events.iter().zip(&self.tested.0.events);
        match events
            .enumerate()
            .find(|(_, (plain, tested))| plain != tested)
        {
            Some((index, (plain, tested))) => {
                for event in &self.plain.0.events[..index] {
                    writeln!(f, "  same: {:?}\n     -> {:?}", event.step, event.outcome)?;
                }
                writeln!(f, "differs: {:?}", plain.step)?;
                writeln!(f, "  plain: {:?} {:?}", plain.outcome, plain.meanwhile)?;
                writeln!(f, " tested: {:?} {:?}", tested.outcome, tested.meanwhile)
            }
            None => {
                for event in &self.plain.0.events {
                    writeln!(f, "  same: {:?}\n     -> {:?}", event.step, event.outcome)?;
                }
                writeln!(f, "differs: what is left")?;
                writeln!(f, "  plain: {:#?}", self.plain.1)?;
                writeln!(f, " tested: {:#?}", self.tested.1)
            }
        }
    }
}

/// Runs a program with the plain calls and with those under test, each in a fresh world.
///
/// # Errors
///
/// The difference, where there is one.
///
/// # Panics
///
/// When no world can be made.
pub fn compare(program: &Program, kernel: &mut dyn Kernel) -> Result<(), Box<Difference>> {
    let (plain, tested) = (observe(program, &mut Plain), observe(program, kernel));
    if plain == tested {
        return Ok(());
    }
    Err(Box::new(Difference {
        program: program.clone(),
        plain,
        tested,
    }))
}

/// Runs a program in a fresh world and says what it did and what it left.
///
/// # Panics
///
/// When no world can be made.
pub fn observe(program: &Program, kernel: &mut dyn Kernel) -> (Trace, State) {
    let directory = scratch();
    let mut world = World::new(directory.path()).expect("a world");
    let trace = world.run(program, kernel);
    let state = world.state();
    (trace, state)
}

/// Compares so many random programs of so many steps; the first that differs is made smaller and
/// printed.
///
/// # Panics
///
/// When a program differs.
pub fn check(random: &mut Random, programs: usize, steps: usize, kernel: &mut dyn Kernel) {
    for index in 0..programs {
        let program = Program::random(random, steps);
        let Err(mut found) = compare(&program, kernel) else {
            continue;
        };
        minimise(&program, |smaller| match compare(smaller, kernel) {
            Ok(()) => false,
            Err(difference) => {
                found = difference;
                true
            }
        });
        panic!("program {index} of {programs} differs; made smaller:\n{found}");
    }
}

/// Leaves steps out of a program as long as it still fails.
pub fn minimise(program: &Program, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let mut program = program.clone();
    let mut size = program.steps.len().div_ceil(2);
    while size > 0 {
        let mut start = 0;
        while start < program.steps.len() {
            let mut smaller = program.clone();
            let end = (start + size).min(smaller.steps.len());
            smaller.steps.drain(start..end);
            if fails(&smaller) {
                program = smaller;
            } else {
                start += size;
            }
        }
        size /= 2;
    }
    program
}

#[cfg(test)]
mod tests;
