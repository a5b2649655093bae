//! Where CPython keeps what names its functions and lines.

use crate::memory::Memory;

/// The length and the content of an object `bytes`.
pub(super) const SIZE: u64 = 16;
pub(super) const BYTES: u64 = 32;

/// The length and the state of a text.
pub(super) const TEXT_LENGTH: u64 = 16;
pub(super) const TEXT_STATE: u64 = 32;

/// Offsets in the structures of one version, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    pub(super) interpreters: u64,
    pub(super) interpreter_next: u64,
    pub(super) interpreter_threads: u64,
    pub(super) thread_next: u64,
    pub(super) thread_number: u64,
    pub(super) thread_frame: u64,
    /// Before 3.13 the thread has the address of what has the frame, in this place.
    pub(super) frame_in_thread_frame: Option<u64>,
    pub(super) frame_previous: u64,
    pub(super) frame_code: u64,
    pub(super) frame_instruction: u64,
    pub(super) frame_owner: u64,
    pub(super) code_file: u64,
    pub(super) code_name: u64,
    pub(super) code_lines: u64,
    pub(super) code_first_line: u64,
    pub(super) code_instructions: u64,
    /// The characters of a text that is ASCII, and of another one.
    pub(super) ascii: u64,
    pub(super) compact: u64,
    /// The bit of the state at which the size of a character is.
    pub(super) text_kind: u32,
}

const PYTHON_3_11: Offsets = Offsets {
    interpreters: 40,
    interpreter_next: 0,
    interpreter_threads: 16,
    thread_next: 8,
    thread_number: 160,
    thread_frame: 56,
    frame_in_thread_frame: Some(8),
    frame_previous: 48,
    frame_code: 32,
    frame_instruction: 56,
    frame_owner: 69,
    code_file: 112,
    code_name: 128,
    code_lines: 136,
    code_first_line: 72,
    code_instructions: 184,
    ascii: 48,
    compact: 72,
    text_kind: 2,
};

const PYTHON_3_12: Offsets = Offsets {
    interpreter_threads: 72,
    thread_number: 144,
    frame_in_thread_frame: Some(0),
    frame_previous: 8,
    frame_code: 0,
    frame_owner: 70,
    code_first_line: 68,
    code_instructions: 192,
    ascii: 40,
    compact: 56,
    ..PYTHON_3_11
};

/// The index of each offset in the table of the interpreter, in words.
struct Table {
    thread: usize,
    frame: usize,
    code: usize,
    text_kind: u32,
}

const TABLE_3_13: Table = Table {
    thread: 19,
    frame: 28,
    code: 34,
    text_kind: 2,
};

const TABLE_3_14: Table = Table {
    thread: 22,
    frame: 31,
    code: 39,
    text_kind: 16,
};

impl Offsets {
    /// The offsets of a version, such as `0x030d00f0`. `None` if it is not known here, or has no global lock.
    pub(super) fn of(version: u32, runtime: u64, memory: &Memory) -> Option<Offsets> {
        match version >> 16 {
            0x30b => Some(PYTHON_3_11),
            0x30c => Some(PYTHON_3_12),
            0x30d => Offsets::read(&TABLE_3_13, runtime, memory),
            0x30e => Offsets::read(&TABLE_3_14, runtime, memory),
            _ => None,
        }
    }

    fn read(table: &Table, runtime: u64, memory: &Memory) -> Option<Offsets> {
        /// How many words of the table are used at most.
        const WORDS: usize = 64;
        let bytes = memory.bytes(runtime, WORDS * 8)?;
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let is_free_threaded = *words.get(2)? != 0;
        if !bytes.starts_with(b"xdebugpy") || is_free_threaded {
            return None;
        }
        // Beyond this it is no offset in such a structure.
        let is_sound = |offset: &u64| *offset < 1 << 24;
        let word = |index: usize| words.get(index).copied().filter(is_sound);
        Some(Offsets {
            interpreters: word(5)?,
            interpreter_next: word(8)?,
            interpreter_threads: word(9)?,
            thread_next: word(table.thread + 2)?,
            thread_frame: word(table.thread + 4)?,
            thread_number: word(table.thread + 6)?,
            frame_in_thread_frame: None,
            frame_previous: word(table.frame + 1)?,
            frame_code: word(table.frame + 2)?,
            frame_instruction: word(table.frame + 3)?,
            frame_owner: word(table.frame + 5)?,
            code_file: word(table.code + 1)?,
            code_name: word(table.code + 3)?,
            code_lines: word(table.code + 4)?,
            code_first_line: word(table.code + 5)?,
            code_instructions: word(table.code + 9)?,
            text_kind: table.text_kind,
            ..PYTHON_3_12
        })
    }
}
