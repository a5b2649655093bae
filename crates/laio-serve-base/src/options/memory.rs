//! The budgets of memory that the server holds for its clients.

use super::{Http2, Limits};

/// The named budgets of memory that the server holds for its clients. Each connection has a reserve for each
/// [`Use`](MemoryUse), which it never has to wait for; what it holds beyond its reserves comes from the budget of the
/// process.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

/// What a connection holds memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Requests of HTTP/2 and HTTP/3 in progress: their heads, their tasks, and responses of a few KiB.
    Requests,
    /// Pieces of responses that the client has not yet taken.
    Responses,
    /// The frames of HTTP/2 that wait for the socket.
    Frames,
    /// Responses that are made in memory: listings, lists of properties, answers of auth servers.
    Pages,
}

impl MemoryUse {
    /// All uses.
    pub const ALL: [MemoryUse; 4] = [
        MemoryUse::Requests,
        MemoryUse::Responses,
        MemoryUse::Frames,
        MemoryUse::Pages,
    ];
}

impl Memory {
    /// Bytes that all connections of the process may hold beyond their reserves.
    pub const PROCESS: u64 = 512 << 20;
    /// Bytes that a connection takes from the budget of the process at a time.
    pub const GRAIN: u64 = 64 << 10;
    /// Bytes that a request of HTTP/2 or HTTP/3 counts for, besides its head.
    pub const REQUEST: u64 = 16 << 10;
    /// Bytes of the largest response of HTTP/2 or HTTP/3 that its request counts for. A longer one is sent in pieces.
    pub const SHORT_RESPONSE: usize = 4 << 10;
    /// Bytes of the largest file that such a response has.
    pub const SHORT_BODY: usize = 2 << 10;
    /// Bytes of the largest file that is copied behind its head: that costs no more than a send of two
    /// buffers.
    pub const COPIED_BODY: usize = 8 << 10;
    /// Bytes of the smallest piece of a response, if more is left of it.
    pub const PIECE_MIN: usize = 4 << 10;
    /// Bytes of the first piece of a response of HTTP/3, whose flow-control window is not known.
    pub const PIECE_FIRST: usize = 16 << 10;
    /// Copies of a frame that wait for the socket: gathered, in flight, and encrypted.
    pub const FRAME_COPIES: u64 = 3;

    /// Returns the bytes that a connection may hold without the budget of the process.
    pub const fn reserve(of: MemoryUse, head_bytes: usize) -> u64 {
        match of {
            MemoryUse::Requests => Memory::REQUEST + head_bytes as u64,
            MemoryUse::Responses | MemoryUse::Pages => 16 << 10,
            MemoryUse::Frames => (16 << 10) * Memory::FRAME_COPIES,
        }
    }

    /// Returns the bytes that a connection of HTTP/2 may hold. HTTP/3 has another limit for pieces of responses
    /// ([`Http3::SEND_BUFFER_MAX`](super::Http3::SEND_BUFFER_MAX)).
    pub const fn most(of: MemoryUse) -> u64 {
        match of {
            MemoryUse::Requests => 4 << 20,
            MemoryUse::Responses => 2 << 20,
            MemoryUse::Frames => Http2::WRITE_BUFFER as u64 * Memory::FRAME_COPIES,
            MemoryUse::Pages => 64 << 20,
        }
    }

    /// Returns the sum of the reserves of a connection with the default limits.
    pub fn reserves() -> u64 {
        let head_bytes = Limits::default().head_bytes;
        MemoryUse::ALL
            .map(|of| Memory::reserve(of, head_bytes))
            .iter()
            .sum()
    }

    /// Returns the bytes that a process may hold for this number of connections.
    pub fn bound(connections: u64) -> u64 {
        Memory::PROCESS + connections * Memory::reserves()
    }
}
