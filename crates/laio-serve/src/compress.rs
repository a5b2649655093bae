//! Compression while sending: piece by piece, on the CPU pool, in bounded memory.

use crate::contents::Contents;
use crate::options::Limits;
use crate::worker::Worker;
use flate2::Compression;
use flate2::write::GzEncoder;
use laio_rt::sync::Permit;
use std::io::{self, Write};

/// A file being compressed. The number is limited, because each holds about 300 KiB.
pub(crate) struct Gzip {
    contents: Contents,
    offset: u64,
    left: u64,
    encoder: Option<GzEncoder<Vec<u8>>>,
    piece: Vec<u8>,
    _permit: Permit,
}

impl Gzip {
    /// Level 9 takes three times as long to save one percent.
    const LEVEL: Compression = Compression::new(5);
    /// Bytes of the file compressed at a time.
    const PIECE: usize = Limits::CHUNK / 2;

    pub(crate) fn new(contents: Contents, size: u64, permit: Permit) -> Gzip {
        Gzip {
            contents,
            offset: 0,
            left: size,
            encoder: Some(GzEncoder::new(Vec::new(), Self::LEVEL)),
            piece: Vec::new(),
            _permit: permit,
        }
    }
}

impl Worker {
    /// Appends the next compressed chunk to `out`, framed as in HTTP/1.1 (RFC 9112, section 7.1) or
    /// bare. Returns whether it was the last.
    ///
    /// # Errors
    /// Returns the errors of reading. `UnexpectedEof` if the file has become shorter: the last
    /// chunk is then missing, so the client notices the truncation.
    pub(crate) async fn next_chunk(
        &self,
        gzip: &mut Gzip,
        out: &mut Vec<u8>,
        framed: bool,
    ) -> io::Result<bool> {
        let mut piece = std::mem::take(&mut gzip.piece);
        piece.clear();
        let most = gzip.left.min(Gzip::PIECE as u64) as usize;
        piece.reserve(most);
        if most > 0 {
            piece = self.read(&gzip.contents, piece, most, gzip.offset).await?;
        }
        gzip.offset += piece.len() as u64;
        gzip.left -= piece.len() as u64;
        let last = gzip.left == 0;
        let Some(mut encoder) = gzip.encoder.take() else {
            return Ok(true);
        };
        let job = move || -> io::Result<_> {
            encoder.write_all(&piece)?;
            if last {
                return Ok((encoder.finish()?, None, piece));
            }
            let made = std::mem::take(encoder.get_mut());
            Ok((made, Some(encoder), piece))
        };
        let over = self.cpu_pool.run(job).await;
        let (made, encoder, piece) = over.ok_or(io::ErrorKind::Other)??;
        gzip.encoder = encoder;
        gzip.piece = piece;
        // An empty chunk would end the body.
        if !framed {
            out.extend_from_slice(&made);
        } else if !made.is_empty() {
            write!(out, "{:x}\r\n", made.len())?;
            out.extend_from_slice(&made);
            out.extend_from_slice(b"\r\n");
        }
        if last && framed {
            out.extend_from_slice(b"0\r\n\r\n");
        }
        Ok(last)
    }
}
