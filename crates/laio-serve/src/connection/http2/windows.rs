//! Detects overflows of the flow-control windows of streams whose responses are sent.
//!
//! The `h2` crate ignores window updates of streams on which it has nothing more to send, even
//! those that overflow the window (RFC 9113, section 6.9.1). The scanner reads frame heads and
//! window increments on their way to the crate.

use std::collections::HashMap;

/// The length of a frame head, and of a `WINDOW_UPDATE` frame.
const HEAD: usize = 9;
const UPDATE: usize = HEAD + 4;
const WINDOW_UPDATE: u8 = 8;
/// The maximum size of a window.
const WINDOW_MAX: u64 = (1 << 31) - 1;
/// The length of the connection preface.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// Scans the frames of one connection.
pub(super) struct Windows {
    /// Bytes to skip up to the next frame head.
    skip: usize,
    /// The first bytes of the current frame.
    frame: [u8; UPDATE],
    filled: usize,
    /// The sum of increments of each stream since its response was sent.
    sent: HashMap<u32, u64>,
    /// Streams whose window has overflowed.
    overflown: Vec<u32>,
}

impl Windows {
    pub(super) fn new() -> Windows {
        Windows {
            skip: PREFACE,
            frame: [0; UPDATE],
            filled: 0,
            sent: HashMap::new(),
            overflown: Vec::new(),
        }
    }

    /// Starts watching a stream whose response is sent, so that its window can only grow. At most
    /// [`Http2::streams`](crate::Http2::streams) streams are watched, each until
    /// [`Windows::forget`].
    pub(super) fn watch(&mut self, stream: u32) {
        self.sent.insert(stream, 0);
    }

    pub(super) fn forget(&mut self, stream: u32) {
        self.sent.remove(&stream);
    }

    /// Removes and returns the streams whose windows have overflowed.
    pub(super) fn take_overflown(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.overflown)
    }

    /// Scans the next received bytes, split in any way.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let count = (self.wanted() - self.filled).min(bytes.len());
            self.frame[self.filled..][..count].copy_from_slice(&bytes[..count]);
            self.filled += count;
            bytes = &bytes[count..];
            if self.filled == self.wanted() {
                self.take_frame();
            }
        }
    }

    fn is_update(&self) -> bool {
        self.filled >= HEAD && self.frame[3] == WINDOW_UPDATE && self.length() == UPDATE - HEAD
    }

    /// Returns the number of bytes needed of the current frame.
    fn wanted(&self) -> usize {
        if self.is_update() { UPDATE } else { HEAD }
    }

    /// Returns the payload length of the current frame.
    fn length(&self) -> usize {
        let [high, middle, low, ..] = self.frame.map(usize::from);
        high << 16 | middle << 8 | low
    }

    fn take_frame(&mut self) {
        self.skip = HEAD + self.length() - self.filled;
        if self.is_update() {
            // The highest bit of both numbers is reserved.
            let word = |at: usize| {
                let bytes = [0, 1, 2, 3].map(|index| self.frame[at + index]);
                u32::from_be_bytes(bytes) & (u32::MAX >> 1)
            };
            let (stream, increment) = (word(5), word(HEAD));
            self.add(stream, increment.into());
        }
        self.filled = 0;
    }

    fn add(&mut self, stream: u32, increment: u64) {
        let Some(sum) = self.sent.get_mut(&stream) else {
            return;
        };
        *sum += increment;
        if *sum > WINDOW_MAX {
            self.sent.remove(&stream);
            self.overflown.push(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(stream: u32, increment: u32) -> Vec<u8> {
        let head = [0, 0, 4, WINDOW_UPDATE, 0];
        [&head[..], &stream.to_be_bytes(), &increment.to_be_bytes()].concat()
    }

    fn data(stream: u32, length: usize) -> Vec<u8> {
        let head = [0, (length >> 8) as u8, length as u8, 0, 0];
        // The payload looks like updates, which the scanner must skip.
        let body = update(1, u32::MAX).into_iter().cycle().take(length);
        [&head[..], &stream.to_be_bytes()]
            .concat()
            .into_iter()
            .chain(body)
            .collect()
    }

    fn overflown(bytes: &[u8], length: usize) -> Vec<u32> {
        let mut windows = Windows::new();
        [1, 3].into_iter().for_each(|stream| windows.watch(stream));
        windows.pass(&[b'x'; PREFACE]);
        bytes.chunks(length).for_each(|chunk| windows.pass(chunk));
        windows.take_overflown()
    }

    #[test]
    fn overflows_are_found_however_the_bytes_are_split() {
        let most = WINDOW_MAX as u32;
        #[rustfmt::skip]
        let cases = [
            (vec![update(1, most), update(1, 1)], vec![1]),
            (vec![update(1, most), update(3, most)], vec![]),
            (vec![update(3, most), data(3, 300), update(3, most)], vec![3]),
            (vec![update(1 | 1 << 31, most | 1 << 31), update(1, 1)], vec![1]),
            (vec![update(5, most), update(5, most), update(0, most)], vec![]),
            (vec![data(1, 0), data(1, 13), data(1, 700)], vec![]),
        ];
        for (frames, expected) in cases {
            let bytes = frames.concat();
            for length in 1..=bytes.len() {
                assert_eq!(overflown(&bytes, length), expected, "{bytes:?} by {length}");
            }
        }
    }

    #[test]
    fn updates_before_the_answer_do_not_count() {
        let mut windows = Windows::new();
        windows.pass(&[b'x'; PREFACE]);
        windows.pass(&update(1, WINDOW_MAX as u32));
        windows.watch(1);
        windows.pass(&update(1, WINDOW_MAX as u32));
        assert!(windows.take_overflown().is_empty());
        windows.forget(1);
        windows.pass(&update(1, 1));
        assert!(windows.take_overflown().is_empty());
    }
}
