//! Compares a library with plain system calls: runs random programs twice, and compares the results.
//!
//! A [`Program`] is a list of [`Step`]s: mostly one system call each, with valid and invalid arguments. It
//! runs in a [`World`]: an empty directory, a pipe, two pairs of sockets, some slots for descriptors. A
//! [`Kernel`] makes the calls: [`Plain`] makes plain system calls; the one under test makes them through the
//! library and waits for the result. Both runs must give the same [`Trace`] and leave the same [`State`].
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
//! Calls that would block forever when made plainly are skipped. Two steps always block: for
//! [`Step::ReadFed`] and [`Step::WriteDrained`] another thread ends the wait.

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

/// Makes system calls.
pub trait Kernel {
    /// Makes a call, and returns the value of the result register: an error is a negative errno. Returns when
    /// the call has ended.
    ///
    /// # Safety
    ///
    /// As for the system call itself: the memory to which the words point must exist until it returns.
    unsafe fn call(&mut self, number: c_long, words: [usize; 6]) -> isize;
}

/// Makes plain system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Kernel for Plain {
    unsafe fn call(&mut self, number: c_long, words: [usize; 6]) -> isize {
        let [a, b, c, d, e, f] = words;
        // SAFETY: the caller upholds the contract of the call.
        let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        match result {
            -1 => -(std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize),
            value => value as isize,
        }
    }
}

/// Two runs of one program that differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The program.
    pub program: Program,
    /// The trace and final state of the plain calls.
    pub plain: (Trace, State),
    /// The trace and final state of the calls under test.
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

/// Runs a program with plain calls and with those under test, each in a new world.
///
/// # Errors
///
/// The difference, if there is one.
///
/// # Panics
///
/// If no world can be created.
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

/// Runs a program in a new world, and returns its trace and final state.
///
/// # Panics
///
/// If no world can be created.
pub fn observe(program: &Program, kernel: &mut dyn Kernel) -> (Trace, State) {
    let directory = scratch();
    let mut world = World::new(directory.path()).expect("a world");
    let trace = world.run(program, kernel);
    let state = world.state();
    (trace, state)
}

/// Compares `programs` random programs of `steps` steps; reduces and prints the first that differs.
///
/// # Panics
///
/// If a program differs.
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

/// Removes steps from a program as long as it still fails.
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
