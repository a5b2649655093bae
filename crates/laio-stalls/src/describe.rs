//! Finds the file, the peer or the child for which a call waits, as the blocked thread names it.

use crate::calls;
use crate::memory::Memory;
use crate::proc_files::BlockedCall;
use crate::sockets;
use std::path::Path;

/// `AT_FDCWD`, as the low half of an argument.
const WORKING_DIRECTORY: u32 = -100_i32 as u32;

/// How many descriptors of a `poll` are named.
const POLLED: u64 = 4;

/// Returns the subject of a call, or an empty text for a call without.
pub(crate) fn subject(pid: u32, call: &BlockedCall) -> String {
    let Some(row) = calls::row(call) else {
        return String::new();
    };
    let argument = |index: u8| call.arguments[usize::from(index)];
    match row.name {
        "connect" => return connected(pid, call),
        "wait4" => return child(argument(0)),
        "waitid" if argument(0) == 1 => return child(argument(1)),
        "poll" | "ppoll" => return polled(pid, argument(0), argument(1)),
        "futex" | "futex_wait" => return format!("at {:#x}", argument(0)),
        _ => {}
    }
    if let Some(name) = row.file {
        let directory = name.directory.map(|index| argument(index) as u32);
        let path = Memory::of(pid).and_then(|memory| memory.text(argument(name.path)));
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            return in_directory(pid, directory, path);
        }
    }
    let first = row.descriptors[0].map(|descriptor| argument(descriptor.arg) as u32);
    first.map_or_else(String::new, |number| file(pid, number))
}

/// The name of an open file.
fn file(pid: u32, number: u32) -> String {
    let Ok(target) = std::fs::read_link(format!("/proc/{pid}/fd/{number}")) else {
        return format!("descriptor {number}");
    };
    let target = target.to_string_lossy().into_owned();
    // The numbers of pipes and sockets differ each time.
    match target.split_once(":[") {
        Some(("socket", inode)) => {
            sockets::peer(pid, inode.trim_end_matches(']')).unwrap_or_else(|| "a socket".to_owned())
        }
        Some(("pipe", _)) => "a pipe".to_owned(),
        _ => target,
    }
}

fn in_directory(pid: u32, directory: Option<u32>, path: String) -> String {
    if path.starts_with('/') {
        return path;
    }
    let base = match directory {
        None | Some(WORKING_DIRECTORY) => format!("/proc/{pid}/cwd"),
        Some(number) => format!("/proc/{pid}/fd/{number}"),
    };
    match std::fs::read_link(base) {
        Ok(base) => Path::new(&base).join(path).to_string_lossy().into_owned(),
        Err(_) => path,
    }
}

fn connected(pid: u32, call: &BlockedCall) -> String {
    let address = Memory::of(pid).and_then(|memory| {
        let length = call.arguments[2].min(128) as usize;
        sockets::address(&memory.bytes(call.arguments[1], length)?)
    });
    address.unwrap_or_else(|| file(pid, call.arguments[0] as u32))
}

fn child(pid: u64) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    match name {
        Ok(name) => format!("child {}", name.trim_end()),
        Err(_) => "any child".to_owned(),
    }
}

fn polled(pid: u32, array: u64, count: u64) -> String {
    /// `struct pollfd`.
    const ENTRY: usize = 8;
    let length = count.min(POLLED) as usize * ENTRY;
    let entries = Memory::of(pid).and_then(|memory| memory.bytes(array, length));
    let numbers = entries
        .iter()
        .flat_map(|entries| entries.chunks_exact(ENTRY));
    let numbers = numbers.map(|entry| i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
    let names: Vec<String> = numbers
        .filter_map(|number| u32::try_from(number).ok())
        .map(|number| file(pid, number))
        .collect();
    names.join(", ")
}
