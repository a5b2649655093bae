//! A range of a file as a stream of pieces.

use futures_util::Stream;
use futures_util::stream::try_unfold;
use laio::ops::Limit;
use laio_tokio::fs::File;
use std::io;
use std::ops::Range;

/// Bytes of the largest piece: a range that is not larger is returned as it was read.
const PIECE: u64 = 2 * 1024 * 1024;

/// Reads a range of a file, piece by piece: the next one when the last one was taken. The end of the file
/// before the end of the range is an error.
pub(crate) fn read_pieces(
    file: File,
    range: Range<u64>,
) -> impl Stream<Item = io::Result<Vec<u8>>> + Send {
    try_unfold((file, range), |(file, mut range)| async move {
        if range.is_empty() {
            return Ok(None);
        }
        let most = (range.end - range.start).min(PIECE) as usize;
        let buffer = Limit::new(Vec::with_capacity(most), most);
        let (count, buffer) = file.read_at(buffer, range.start).await;
        match count? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                range.start += count as u64;
                Ok(Some((buffer.into_inner(), (file, range))))
            }
        }
    })
}
