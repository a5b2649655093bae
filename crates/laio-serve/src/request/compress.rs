//! Compression while sending: chunk by chunk, on the CPU pool, in bounded memory.

use crate::files::contents::Contents;
use crate::files::read::read;
use crate::options::Limits;
use crate::services::Services;
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
    chunk: Vec<u8>,
    _permit: Permit,
}

impl Gzip {
    /// Level 9 takes three times as long to save one percent.
    const LEVEL: Compression = Compression::new(5);
    /// Bytes of the file compressed at a time.
    const CHUNK: usize = Limits::CHUNK / 2;

    pub(crate) fn new(contents: Contents, size: u64, permit: Permit) -> Gzip {
        Gzip {
            contents,
            offset: 0,
            left: size,
            encoder: Some(GzEncoder::new(Vec::new(), Self::LEVEL)),
            chunk: Vec::new(),
            _permit: permit,
        }
    }
}

/// Appends the next compressed chunk to `out`, framed as in HTTP/1.1 (RFC 9112, section 7.1) or
/// bare. Returns whether it was the last.
///
/// # Errors
/// Returns the errors of reading. `UnexpectedEof` if the file has become shorter: the last
/// chunk is then missing, so the client notices the truncation.
pub(crate) async fn next_chunk(
    services: &Services,
    gzip: &mut Gzip,
    out: &mut Vec<u8>,
    framed: bool,
) -> io::Result<bool> {
    let mut chunk = std::mem::take(&mut gzip.chunk);
    chunk.clear();
    let most = gzip.left.min(Gzip::CHUNK as u64) as usize;
    chunk.reserve(most);
    if most > 0 {
        chunk = read(
            &services.contexts,
            &services.limits,
            &gzip.contents,
            chunk,
            most,
            gzip.offset,
        )
        .await?;
    }
    gzip.offset += chunk.len() as u64;
    gzip.left -= chunk.len() as u64;
    let last = gzip.left == 0;
    let Some(mut encoder) = gzip.encoder.take() else {
        return Ok(true);
    };
    let job = move || -> io::Result<_> {
        encoder.write_all(&chunk)?;
        if last {
            return Ok((encoder.finish()?, None, chunk));
        }
        let made = std::mem::take(encoder.get_mut());
        Ok((made, Some(encoder), chunk))
    };
    let over = services.cpu_pool.run(job).await;
    let (made, encoder, chunk) = over.ok_or(io::ErrorKind::Other)??;
    gzip.encoder = encoder;
    gzip.chunk = chunk;
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
