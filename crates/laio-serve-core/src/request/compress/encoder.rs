//! One encoder for the codings in which files are compressed while they are sent.

use brotli::CompressorWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use laio_http::Coding;
use std::io::{self, Write};

/// An encoder that collects its output in memory.
pub enum Encoder {
    /// Holds about 350 KiB.
    Gzip(GzEncoder<Vec<u8>>),
    /// Holds up to 3.5 MiB with the window of `Encoder::BROTLI_WINDOW_LOG`.
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    /// Holds up to 4 MiB with the window of `Encoder::ZSTD_WINDOW_LOG`.
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    // docs/serve/responses.md has the measurements by which the levels were chosen.
    /// Level 9 takes three times as long to save two percent.
    const GZIP_LEVEL: Compression = Compression::new(5);
    const BROTLI_QUALITY: u32 = 4;
    /// The window of brotli is 256 KiB.
    const BROTLI_WINDOW_LOG: u32 = 18;
    /// Bytes of compressed data that brotli holds before it passes them on.
    const BROTLI_BUFFER: usize = 16 << 10;
    /// Level 9 needs 11 MiB.
    const ZSTD_LEVEL: i32 = 6;
    /// The window of zstd is 512 KiB; a client need not accept more than 8 MiB (RFC 9659).
    const ZSTD_WINDOW_LOG: u32 = 19;

    /// # Errors
    /// Returns the error of zstd if it gets no memory.
    pub fn new(coding: Coding) -> io::Result<Encoder> {
        Ok(match coding {
            Coding::Brotli => Encoder::Brotli(Box::new(CompressorWriter::new(
                Vec::new(),
                Self::BROTLI_BUFFER,
                Self::BROTLI_QUALITY,
                Self::BROTLI_WINDOW_LOG,
            ))),
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), Self::ZSTD_LEVEL)?;
                encoder.window_log(Self::ZSTD_WINDOW_LOG)?;
                Encoder::Zstd(encoder)
            }
            Coding::Gzip | Coding::Identity => {
                Encoder::Gzip(GzEncoder::new(Vec::new(), Self::GZIP_LEVEL))
            }
        })
    }

    /// # Errors
    /// Returns the errors of the encoder.
    pub fn write_all(&mut self, plain: &[u8]) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.write_all(plain),
            Encoder::Brotli(encoder) => encoder.write_all(plain),
            Encoder::Zstd(encoder) => encoder.write_all(plain),
        }
    }

    /// Lets the client decode what was written so far, when it gets the compressed data so far.
    ///
    /// # Errors
    /// Returns the errors of the encoder.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Brotli(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }

    /// Returns the compressed data so far, and forgets it.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Encoder::Gzip(encoder) => encoder.get_mut(),
            Encoder::Brotli(encoder) => encoder.get_mut(),
            Encoder::Zstd(encoder) => encoder.get_mut(),
        })
    }

    /// Returns the rest of the compressed data.
    ///
    /// # Errors
    /// Returns the errors of the encoder.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Brotli(encoder) => Ok(encoder.into_inner()),
            Encoder::Zstd(encoder) => encoder.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn decode(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match coding {
            Coding::Zstd => zstd::stream::copy_decode(bytes, &mut plain).unwrap(),
            Coding::Brotli => {
                let mut decoder = brotli::Decompressor::new(bytes, 4096);
                decoder.read_to_end(&mut plain).map(drop).unwrap();
            }
            _ => {
                let mut decoder = flate2::read::GzDecoder::new(bytes);
                decoder.read_to_end(&mut plain).map(drop).unwrap();
            }
        }
        plain
    }

    #[test]
    fn what_is_encoded_in_chunks_decodes_to_the_same() {
        let line = |n: u32| format!("{n}: {}\n", n.wrapping_mul(2_654_435_761));
        let plain: Vec<u8> = (0..40_000).map(line).collect::<String>().into_bytes();
        for coding in [Coding::Zstd, Coding::Brotli, Coding::Gzip] {
            let mut encoder = Encoder::new(coding).unwrap();
            let mut encoded = Vec::new();
            for chunk in plain.chunks(32 << 10) {
                encoder.write_all(chunk).unwrap();
                encoded.append(&mut encoder.take_output());
            }
            encoded.append(&mut encoder.finish().unwrap());
            assert!(encoded.len() < plain.len(), "{coding:?}");
            assert!(decode(coding, &encoded) == plain, "{coding:?}");
        }
    }
}
