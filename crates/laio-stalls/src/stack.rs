//! Where in the program a thread is blocked: the instruction, and return addresses on its stack.
//!
//! `/proc` has the stack pointer and no other register, so the frames cannot be unwound. A word of the
//! stack counts as a return address if it lies behind a call instruction of a mapped file. A finished
//! call can have left one too.

use crate::mappings::Mapping;
use crate::memory::Memory;
use crate::proc_files::BlockedCall;

/// How much of the stack is read.
const DEPTH: usize = 16 << 10;

/// How many addresses in files are kept, and how many in code that the program has made itself.
const MAX_FRAMES: usize = 16;

/// An address in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The address in the process.
    pub address: u64,
    /// The process.
    pub pid: u32,
    /// The file with the code; empty for code that the program has made itself.
    pub module: String,
    /// The address at which the file is mapped.
    pub base: u64,
    /// The function, once it is known.
    pub name: String,
}

/// Reads the addresses, the innermost first.
pub(crate) fn read(pid: u32, call: &BlockedCall, mappings: &[Mapping]) -> Vec<Frame> {
    let Some(memory) = Memory::of(pid) else {
        return Vec::new();
    };
    let mut frames: Vec<Frame> = frame(pid, mappings, call.instruction).into_iter().collect();
    let end = mappings.iter().find(|mapping| mapping.contains(call.stack));
    let room = end.map_or(0, |mapping| (mapping.end - call.stack) as usize);
    let stack = memory.bytes(call.stack & !7, room.min(DEPTH));
    let mut counts = [frames.len(), 0];
    for word in stack.iter().flat_map(|stack| stack.chunks_exact(8)) {
        let address = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        if let Some(frame) = frame(pid, mappings, address)
            && counts[usize::from(frame.module.is_empty())] < MAX_FRAMES
            && follows_call(&memory, address)
        {
            counts[usize::from(frame.module.is_empty())] += 1;
            frames.push(frame);
        }
    }
    frames
}

/// The frame of an address, if it is in code.
fn frame(pid: u32, mappings: &[Mapping], address: u64) -> Option<Frame> {
    let index = mappings.partition_point(|mapping| mapping.end <= address);
    let mapping = mappings
        .get(index)
        .filter(|mapping| mapping.contains(address))?;
    if !mapping.is_executable {
        return None;
    }
    let module = if mapping.is_file() {
        mapping.name.clone()
    } else {
        String::new()
    };
    let is_first = |other: &&Mapping| other.name == mapping.name && other.offset == 0;
    let first = mappings.iter().find(is_first);
    Some(Frame {
        address,
        pid,
        base: first.map_or(mapping.start, |first| first.start),
        module,
        name: String::new(),
    })
}

/// Whether the instruction before this address is a call.
#[cfg(target_arch = "x86_64")]
fn follows_call(memory: &Memory, address: u64) -> bool {
    /// The longest form: `ff /2` with a prefix and a displacement.
    const LONGEST: usize = 7;
    let Some(bytes) = memory.bytes(address.wrapping_sub(LONGEST as u64), LONGEST) else {
        return false;
    };
    if bytes.len() < LONGEST {
        return false;
    }
    // `call rel32`, or `call r/m64`: bits 3 to 5 of the second byte are 2.
    let is_indirect = |at: usize| bytes[at] == 0xff && bytes[at + 1] >> 3 & 7 == 2;
    bytes[2] == 0xe8 || [0, 1, 3, 4, 5].into_iter().any(is_indirect)
}

/// Whether the instruction before this address is a call: `bl`, or `blr`.
#[cfg(not(target_arch = "x86_64"))]
fn follows_call(memory: &Memory, address: u64) -> bool {
    let bytes = memory.bytes(address.wrapping_sub(4), 4);
    let Some(bytes) = bytes.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) else {
        return false;
    };
    let instruction = u32::from_le_bytes(bytes);
    instruction >> 26 == 0b10_0101 || instruction & 0xffff_fc1f == 0xd63f_0000
}
