//! Compression while sending: chunk by chunk, on the CPU pool, in bounded memory.

pub mod encoder;

use super::generated_body::{GeneratedBody, NextPiece};
use crate::files::contents::Contents;
use crate::files::read::read;
use crate::services::Services;
use encoder::Encoder;
use laio_http::Coding;
use laio_rt::sync::Permit;
use laio_serve_base::options::Limits;
use std::io::{self, Write};

/// A file being compressed. The number is limited, because each holds an [`Encoder`].
pub struct Compressed {
    contents: Contents,
    offset: u64,
    left: u64,
    coding: Coding,
    /// Made with the first chunk, on the CPU pool.
    encoder: Option<Encoder>,
    chunk: Vec<u8>,
    _permit: Permit,
}

impl Compressed {
    /// Bytes of the file compressed at a time.
    const CHUNK: usize = Limits::CHUNK / 2;

    pub fn new(contents: Contents, size: u64, coding: Coding, permit: Permit) -> Compressed {
        Compressed {
            contents,
            offset: 0,
            left: size,
            coding,
            encoder: None,
            chunk: Vec::new(),
            _permit: permit,
        }
    }
}

impl GeneratedBody for Compressed {
    fn next_piece<'a>(
        &'a mut self,
        services: &'a Services,
        out: &'a mut Vec<u8>,
        framed: bool,
    ) -> NextPiece<'a> {
        Box::pin(next_chunk(services, self, out, framed))
    }
}

/// Appends the next compressed chunk to `out`, framed as in HTTP/1.1 (RFC 9112, section 7.1) or
/// bare. Returns whether it was the last.
///
/// # Errors
/// Returns the errors of reading and of the encoder. `UnexpectedEof` if the file has become shorter: the last
/// chunk is then missing, so the client notices the truncation.
async fn next_chunk(
    services: &Services,
    compressed: &mut Compressed,
    out: &mut Vec<u8>,
    framed: bool,
) -> io::Result<bool> {
    let mut chunk = std::mem::take(&mut compressed.chunk);
    chunk.clear();
    let most = compressed.left.min(Compressed::CHUNK as u64) as usize;
    chunk.reserve(most);
    if most > 0 {
        chunk = read(
            &services.contexts,
            &services.limits,
            &compressed.contents,
            chunk,
            most,
            compressed.offset,
        )
        .await?;
    }
    compressed.offset += chunk.len() as u64;
    compressed.left -= chunk.len() as u64;
    let last = compressed.left == 0;
    let follows = if last { Follows::Nothing } else { Follows::Now };
    let (coding, encoder) = (compressed.coding, &mut compressed.encoder);
    let (made, chunk) = encode(services, coding, encoder, chunk, follows).await?;
    compressed.chunk = chunk;
    push_encoded(out, &made, framed)?;
    if last && framed {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    Ok(last)
}

/// When more content follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    Now,
    /// Perhaps after a while, so the client must be able to decode all of the content so far.
    Later,
    Nothing,
}

/// Compresses content on the CPU pool, with an encoder that is made with the first content. Returns the compressed
/// bytes, and the content, whose memory can be used again.
///
/// # Errors
/// Returns the errors of the encoder.
pub async fn encode(
    services: &Services,
    coding: Coding,
    encoder: &mut Option<Encoder>,
    content: Vec<u8>,
    follows: Follows,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let present = encoder.take();
    let job = move || -> io::Result<_> {
        let mut encoder = match present {
            Some(encoder) => encoder,
            None => Encoder::new(coding)?,
        };
        encoder.write_all(&content)?;
        match follows {
            Follows::Nothing => return Ok((encoder.finish()?, None, content)),
            Follows::Later => encoder.flush()?,
            Follows::Now => {}
        }
        Ok((encoder.take_output(), Some(encoder), content))
    };
    let done = services.cpu_pool.run(job).await;
    let (made, next, content) = done.ok_or(io::ErrorKind::Other)??;
    *encoder = next;
    Ok((made, content))
}

/// Appends compressed bytes, as a chunk of HTTP/1.1 or bare.
///
/// # Errors
/// None: the buffer is in memory.
pub fn push_encoded(out: &mut Vec<u8>, made: &[u8], framed: bool) -> io::Result<()> {
    // An empty chunk would end the body.
    if !framed {
        out.extend_from_slice(made);
    } else if !made.is_empty() {
        write!(out, "{:x}\r\n", made.len())?;
        out.extend_from_slice(made);
        out.extend_from_slice(b"\r\n");
    }
    Ok(())
}
