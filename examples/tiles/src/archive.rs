//! Makes an archive to test with: the same bytes for the same arguments.

use pmtiles::{Compression, PmTilesWriter, PmtResult, TileCoord, TileId, TileType};
use std::fs::File;
use std::path::Path;

/// Writes an archive with all tiles of a zoom level. They have `mean / 4` to `mean * 7 / 4` bytes, which do
/// not compress.
pub fn write(path: &Path, zoom: u8, mean: usize) -> PmtResult<()> {
    let mut archive = PmTilesWriter::new(TileType::Png)
        .tile_compression(Compression::None)
        .create(File::create(path)?)?;
    let mut random = Random(u64::from(zoom) + 1);
    let side = 1u32 << zoom;
    let mut places = Vec::new();
    for x in 0..side {
        for y in 0..side {
            places.push(TileCoord::new(zoom, x, y)?);
        }
    }
    // In the order in which the archive lists them, so that near tiles are near in the file.
    places.sort_unstable_by_key(|place| TileId::from(*place));
    let mut bytes = Vec::new();
    for place in places {
        let length = mean / 4 + random.next() as usize % (mean * 3 / 2);
        bytes.clear();
        while bytes.len() < length {
            bytes.extend_from_slice(&random.next().to_le_bytes());
        }
        archive.add_tile(place, &bytes)?;
    }
    archive.finalize()
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
