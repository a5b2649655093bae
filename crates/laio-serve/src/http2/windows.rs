//! Updates of the windows of streams whose answers are sent, as they pass on their way to the `h2` crate.
//!
//! The crate ignores an update of a stream on which it has nothing more to send, also one that no window can hold
//! (RFC 9113, section 6.9.1). The scanner reads the heads of frames, and the increments, and nothing else.

use std::collections::HashMap;

/// The bytes of a frame's head, and of the increment behind that of a `WINDOW_UPDATE`.
const HEAD: usize = 9;
const UPDATE: usize = HEAD + 4;
const WINDOW_UPDATE: u8 = 8;
/// The most that a window can hold.
const WINDOW_MAX: u64 = (1 << 31) - 1;
/// What a client sends before its first frame.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// Follows the frames of one connection.
pub(super) struct Windows {
    /// Bytes that belong to no frame head that is of interest.
    skip: usize,
    /// The beginning of a frame.
    frame: [u8; UPDATE],
    filled: usize,
    /// What was added to the windows of streams since their answers were sent.
    sent: HashMap<u32, u64>,
    /// Streams whose windows hold too much.
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

    /// The answer on a stream is sent: its window only grows from now on. There are no more of them than
    /// [`Http2::streams`](crate::Http2::streams), each until [`Windows::forget`].
    pub(super) fn watch(&mut self, stream: u32) {
        self.sent.insert(stream, 0);
    }

    pub(super) fn forget(&mut self, stream: u32) {
        self.sent.remove(&stream);
    }

    /// The streams whose windows were found to hold too much since the last call.
    pub(super) fn take_overflown(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.overflown)
    }

    /// Goes through the bytes that come next; how they are split makes no difference.
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

    /// Bytes of the frame at hand that are looked at.
    fn wanted(&self) -> usize {
        if self.is_update() { UPDATE } else { HEAD }
    }

    /// Bytes behind the head of the frame at hand.
    fn length(&self) -> usize {
        let [high, middle, low, ..] = self.frame.map(usize::from);
        high << 16 | middle << 8 | low
    }

    fn take_frame(&mut self) {
        self.skip = HEAD + self.length() - self.filled;
        if self.is_update() {
            // The highest bit of either number has no meaning.
            let word = |at: usize| {
                let bytes = [0, 1, 2, 3].map(|place| self.frame[at + place]);
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
        // Bytes that would be an update if they were a frame.
        let body = update(1, u32::MAX).into_iter().cycle().take(length);
        [&head[..], &stream.to_be_bytes()]
            .concat()
            .into_iter()
            .chain(body)
            .collect()
    }

    fn overflown(bytes: &[u8], piece: usize) -> Vec<u32> {
        let mut windows = Windows::new();
        [1, 3].into_iter().for_each(|stream| windows.watch(stream));
        windows.pass(&[b'x'; PREFACE]);
        bytes.chunks(piece).for_each(|piece| windows.pass(piece));
        windows.take_overflown()
    }

    #[test]
    fn too_much_is_found_however_the_bytes_come() {
        let most = WINDOW_MAX as u32;
        let cases = [
            (vec![update(1, most), update(1, 1)], vec![1]),
            (vec![update(1, most), update(3, most)], vec![]),
            (
                vec![update(3, most), data(3, 300), update(3, most)],
                vec![3],
            ),
            (
                vec![update(1 | 1 << 31, most | 1 << 31), update(1, 1)],
                vec![1],
            ),
            (
                vec![update(5, most), update(5, most), update(0, most)],
                vec![],
            ),
            (vec![data(1, 0), data(1, 13), data(1, 700)], vec![]),
        ];
        for (frames, expected) in cases {
            let bytes = frames.concat();
            for piece in 1..=bytes.len() {
                assert_eq!(overflown(&bytes, piece), expected, "{bytes:?} by {piece}");
            }
        }
    }

    #[test]
    fn what_came_before_the_answer_does_not_count() {
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
