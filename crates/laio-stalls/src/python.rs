//! The functions and lines in which a thread of a Python program is, from the frames of its interpreter.
//!
//! CPython 3.13 and newer has a table of offsets for such readers at the start of `_PyRuntime`. The offsets
//! of 3.11 and 3.12 are listed here; they are the same in all releases of a version. The thread is blocked
//! while its frames are read, so that they do not change.

mod lines;
mod offsets;

use crate::mappings::Mapping;
use crate::memory::Memory;
use crate::processes::MAX_PROCESSES;
use crate::stack::Frame;
use object::read::ReadCache;
use object::{Object, ObjectSymbol};
use offsets::Offsets;
use std::collections::HashMap;
use std::fs::File;

/// How many functions of Python are named for a wait.
const MAX_FUNCTIONS: usize = 16;

/// How many frames are looked at for them: some are of the interpreter itself.
const MAX_FRAMES: usize = 64;

/// How many interpreters of a process, and how many threads of each, are looked at.
const MAX_INTERPRETERS: usize = 16;
const MAX_THREADS: usize = 4096;

/// The longest name of a file or a function that is read, in characters.
const MAX_TEXT: usize = 1024;

/// The largest table of lines that is read, in bytes.
const MAX_TABLE: usize = 1 << 20;

/// The Python interpreters of the watched processes.
#[derive(Debug, Default)]
pub(crate) struct Interpreters(HashMap<u32, Interpreter>);

/// Where the state of an interpreter is.
#[derive(Debug)]
struct Interpreter {
    /// The program or the library that has it.
    module: String,
    runtime: u64,
    offsets: Offsets,
}

impl Interpreters {
    /// The functions of Python in which a thread is, below the functions by which the interpreter was left.
    /// What the stack seems to contain, if the thread runs no Python that is known.
    pub(crate) fn stack(
        &mut self,
        (pid, tid): (u32, u32),
        mappings: &[Mapping],
        native: Vec<Frame>,
    ) -> Vec<Frame> {
        let names = self.names(pid, tid, mappings);
        let Some((module, names)) = names.filter(|(_, names)| !names.is_empty()) else {
            return native;
        };
        let frame = |name| Frame {
            address: 0,
            pid,
            module: String::new(),
            base: 0,
            name,
        };
        let outside = native
            .into_iter()
            .take_while(|frame| frame.module != module);
        outside.chain(names.into_iter().map(frame)).collect()
    }

    /// Forgets a process that has ended or executed another program.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    fn names(&mut self, pid: u32, tid: u32, mappings: &[Mapping]) -> Option<(String, Vec<String>)> {
        let memory = Memory::of(pid)?;
        if !self.0.contains_key(&pid) {
            let found = Interpreter::find(pid, &memory, mappings)?;
            if self.0.len() >= MAX_PROCESSES {
                self.0.clear();
            }
            self.0.insert(pid, found);
        }
        let interpreter = self.0.get(&pid)?;
        let names = interpreter.functions(&memory, inner_number(pid, tid)?);
        Some((interpreter.module.clone(), names.unwrap_or_default()))
    }
}

impl Interpreter {
    fn find(pid: u32, memory: &Memory, mappings: &[Mapping]) -> Option<Interpreter> {
        let is_python = |mapping: &&Mapping| {
            let name = mapping.name.rsplit('/').next();
            mapping.is_file()
                && mapping.offset == 0
                && name.is_some_and(|name| name.contains("python"))
        };
        mappings.iter().filter(is_python).find_map(|mapping| {
            let (runtime, version) = symbols(pid, mapping)?;
            let version = u32::try_from(memory.word(version)?).ok()?;
            Some(Interpreter {
                module: mapping.name.clone(),
                runtime,
                offsets: Offsets::of(version, runtime, memory)?,
            })
        })
    }

    /// The functions in which the thread is, the innermost first.
    fn functions(&self, memory: &Memory, tid: u64) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut frame = self.innermost_frame(memory, tid)?;
        for _ in 0..MAX_FRAMES {
            if frame == 0 || names.len() == MAX_FUNCTIONS {
                break;
            }
            names.extend(self.function(memory, frame));
            frame = memory.word(frame + self.offsets.frame_previous)?;
        }
        Some(names)
    }

    fn innermost_frame(&self, memory: &Memory, tid: u64) -> Option<u64> {
        let offsets = &self.offsets;
        let mut interpreter = memory.word(self.runtime + offsets.interpreters)?;
        for _ in 0..MAX_INTERPRETERS {
            if interpreter == 0 {
                break;
            }
            let mut thread = memory.word(interpreter + offsets.interpreter_threads)?;
            for _ in 0..MAX_THREADS {
                if thread == 0 {
                    break;
                }
                if memory.word(thread + offsets.thread_number)? == tid {
                    let place = thread + offsets.thread_frame;
                    return match offsets.frame_in_thread_frame {
                        Some(inner) => memory.word(memory.word(place)? + inner),
                        None => memory.word(place),
                    };
                }
                thread = memory.word(thread + offsets.thread_next)?;
            }
            interpreter = memory.word(interpreter + offsets.interpreter_next)?;
        }
        None
    }

    /// The function of a frame, with its file and line. `None` for a frame of the interpreter itself.
    fn function(&self, memory: &Memory, frame: u64) -> Option<String> {
        /// The least `enum _frameowner` that is no function's.
        const INTERPRETER: u8 = 3;
        let offsets = &self.offsets;
        if *memory.bytes(frame + offsets.frame_owner, 1)?.first()? >= INTERPRETER {
            return None;
        }
        // The low bits of a reference are flags.
        let code = memory.word(frame + offsets.frame_code)? & !7;
        let name = self.text(memory, memory.word(code + offsets.code_name)?)?;
        let file = self.text(memory, memory.word(code + offsets.code_file)?)?;
        let start = code + offsets.code_instructions;
        let place = memory
            .word(frame + offsets.frame_instruction)?
            .checked_sub(start)?;
        let first = memory.number(code + offsets.code_first_line)?;
        let table = memory.word(code + offsets.code_lines)?;
        let size = (memory.word(table + offsets::SIZE)? as usize).min(MAX_TABLE);
        let table = memory.bytes(table + offsets::BYTES, size)?;
        let file = crate::symbols::end_of(&file);
        Some(match lines::line(&table, first, place / 2) {
            Some(line) => format!("{name} ({file}:{line})"),
            None => format!("{name} ({file})"),
        })
    }

    /// A text of Python.
    fn text(&self, memory: &Memory, text: u64) -> Option<String> {
        let length = (memory.word(text + offsets::TEXT_LENGTH)? as usize).min(MAX_TEXT);
        let state = memory.number(text + offsets::TEXT_STATE)? >> self.offsets.text_kind;
        let (kind, is_compact, is_ascii) = (state & 7, state >> 3 & 1 == 1, state >> 4 & 1 == 1);
        if !is_compact {
            return None;
        }
        let place = text
            + if is_ascii {
                self.offsets.ascii
            } else {
                self.offsets.compact
            };
        let bytes = memory.bytes(place, length * kind as usize)?;
        let character = |bytes: &[u8]| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            char::from_u32(u32::from_le_bytes(word)).unwrap_or('?')
        };
        matches!(kind, 1 | 2 | 4)
            .then(|| bytes.chunks_exact(kind as usize).map(character).collect())
    }
}

/// The addresses of the interpreter's state and of its version, which are exported since 3.11.
fn symbols(pid: u32, mapping: &Mapping) -> Option<(u64, u64)> {
    let inside = format!("/proc/{pid}/root{}", mapping.name);
    let cache = ReadCache::new(File::open(inside).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let is_fixed = file.kind() == object::ObjectKind::Executable;
    let base = if is_fixed { 0 } else { mapping.start };
    let address = |name: &str| {
        let symbol = file
            .dynamic_symbols()
            .find(|symbol| symbol.name() == Ok(name))?;
        Some(base + symbol.address())
    };
    Some((address("_PyRuntime")?, address("Py_Version")?))
}

/// The number that the thread has for its own process, in whose namespace it can be another one.
fn inner_number(pid: u32, tid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    match line {
        Some(numbers) => numbers.split_ascii_whitespace().last()?.parse().ok(),
        None => Some(u64::from(tid)),
    }
}
