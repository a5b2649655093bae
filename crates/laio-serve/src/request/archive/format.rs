//! The bytes of a zip file that is written in one pass (APPNOTE.TXT 6.3).
//!
//! Checksums and lengths follow the data of each file. Readers that read in one pass too find the end of the data only
//! if it is deflated, so files that are not compressed are deflated into stored blocks (RFC 1951, section 3.2.4).

use std::mem::size_of;

/// A file or directory of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The name, with `/` at the end of a directory's.
    pub(super) name: Box<[u8]>,
    pub(super) size: u64,
    /// Seconds since 1970.
    pub(super) modified: i64,
    pub(super) executable: bool,
    /// What is known once the data was written.
    pub(super) crc: u32,
    pub(super) packed: u64,
    offset: u64,
}

/// Bytes of the largest stored block.
pub(super) const BLOCK: usize = 0xffff;
/// Bytes before a stored block.
const BLOCK_HEAD: u64 = 5;
/// From this size on, the lengths after the data have 8 bytes. Deflated data may be a little longer than the file.
const LONG_FROM: u64 = 0xfff0_0000;
const MOST_32: u64 = u32::MAX as u64;
const MOST_16: usize = u16::MAX as usize;

/// The unpacked sizes of the largest fixed parts.
const LOCAL: u64 = 30;
const CENTRAL: u64 = 46;
/// The extra field with the modification time: mark, length, flags, time.
const TIME: u64 = 4 + 1 + 4;
/// The longest name that the format can hold, with room for extra fields.
pub(super) const NAME_MAX: usize = MOST_16;

impl Member {
    pub(super) fn new(name: &[u8], size: u64, modified: i64, executable: bool) -> Member {
        Member {
            name: name.into(),
            size,
            modified,
            executable,
            crc: 0,
            packed: 0,
            offset: 0,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.name.ends_with(b"/")
    }

    fn is_long(&self) -> bool {
        self.size >= LONG_FROM
    }

    /// Returns the length of the data in stored blocks.
    fn stored(&self) -> u64 {
        if self.is_directory() {
            0
        } else {
            self.size + BLOCK_HEAD * self.size.div_ceil(BLOCK as u64).max(1)
        }
    }

    /// Returns the modification time, if the extra field can hold it.
    fn time(&self) -> Option<i32> {
        i32::try_from(self.modified).ok()
    }

    fn local_extra(&self) -> u64 {
        let time = self.time().map_or(0, |_| TIME);
        time + if self.is_long() { 4 + 16 } else { 0 }
    }

    /// Appends the head before the data, which begins at `offset` of the archive.
    pub(super) fn push_head(&mut self, out: &mut Vec<u8>, offset: u64) {
        self.offset = offset;
        push_32(out, 0x0403_4b50);
        push_16(out, self.version());
        self.push_kind(out);
        push_32(out, 0);
        let length = if self.is_long() { u32::MAX } else { 0 };
        push_32(out, length);
        push_32(out, length);
        push_16(out, self.name.len() as u16);
        push_16(out, self.local_extra() as u16);
        self.push_name(out);
        if self.is_long() {
            push_16(out, 1);
            push_16(out, 16);
            push_64(out, 0);
            push_64(out, 0);
        }
        self.push_time(out);
    }

    /// Appends the name. Some readers take a backslash for a separator.
    fn push_name(&self, out: &mut Vec<u8>) {
        let shown = |&byte: &u8| if byte == b'\\' { b'_' } else { byte };
        out.extend(self.name.iter().map(shown));
    }

    /// Appends what follows the data: the checksum and the lengths.
    pub(super) fn push_descriptor(&self, out: &mut Vec<u8>) {
        if self.is_directory() {
            return;
        }
        push_32(out, 0x0807_4b50);
        push_32(out, self.crc);
        for length in [self.packed, self.size] {
            if self.is_long() {
                push_64(out, length)
            } else {
                push_32(out, length as u32)
            }
        }
    }

    fn descriptor(&self) -> u64 {
        match (self.is_directory(), self.is_long()) {
            (true, _) => 0,
            (false, true) => 24,
            (false, false) => 16,
        }
    }

    /// Appends the entry of the table of contents.
    fn push_central(&self, out: &mut Vec<u8>) {
        const UNIX: u16 = 3 << 8;
        let long: Vec<u64> = self.long_values().collect();
        push_32(out, 0x0201_4b50);
        push_16(out, UNIX | 45);
        push_16(out, self.version());
        self.push_kind(out);
        push_32(out, self.crc);
        push_32(out, self.packed.min(MOST_32) as u32);
        push_32(out, self.size.min(MOST_32) as u32);
        push_16(out, self.name.len() as u16);
        push_16(out, self.central_extra(long.len()) as u16);
        push_16(out, 0); // comment
        push_16(out, 0); // number of the disk
        push_16(out, 0); // internal attributes
        let mode: u32 = match (self.is_directory(), self.executable) {
            (true, _) => 0o40_755,
            (false, true) => 0o100_755,
            (false, false) => 0o100_644,
        };
        let dos_directory = u32::from(self.is_directory()) << 4;
        push_32(out, mode << 16 | dos_directory);
        push_32(out, self.offset.min(MOST_32) as u32);
        self.push_name(out);
        if !long.is_empty() {
            push_16(out, 1);
            push_16(out, (long.len() * size_of::<u64>()) as u16);
            long.iter().for_each(|&value| push_64(out, value));
        }
        self.push_time(out);
    }

    /// Returns the values that do not fit 32 bits, in their order.
    fn long_values(&self) -> impl Iterator<Item = u64> {
        let values = [self.size, self.packed, self.offset];
        values.into_iter().filter(|&value| value >= MOST_32)
    }

    fn central_extra(&self, long: usize) -> u64 {
        let long = if long > 0 { 4 + 8 * long as u64 } else { 0 };
        long + self.time().map_or(0, |_| TIME)
    }

    fn version(&self) -> u16 {
        if self.is_long() { 45 } else { 20 }
    }

    /// Appends flags, method, time and date.
    fn push_kind(&self, out: &mut Vec<u8>) {
        let lengths_follow = u16::from(!self.is_directory()) << 3;
        let utf8 = u16::from(std::str::from_utf8(&self.name).is_ok()) << 11;
        push_16(out, lengths_follow | utf8);
        push_16(out, if self.is_directory() { 0 } else { 8 });
        let (time, date) = dos_time(self.modified);
        push_16(out, time);
        push_16(out, date);
    }

    fn push_time(&self, out: &mut Vec<u8>) {
        if let Some(time) = self.time() {
            push_16(out, 0x5455);
            push_16(out, 5);
            out.push(1);
            push_32(out, time as u32);
        }
    }
}

/// Appends a stored block around `data`, which has at most [`BLOCK`] bytes.
pub(super) fn push_stored(out: &mut Vec<u8>, data: &[u8], last: bool) {
    let length = data.len() as u16;
    out.push(u8::from(last));
    push_16(out, length);
    push_16(out, !length);
    out.extend_from_slice(data);
}

/// Appends the table of contents, which begins at `offset` of the archive, and the end.
pub(super) fn push_end(out: &mut Vec<u8>, members: &[Member], offset: u64) {
    let start = out.len();
    members.iter().for_each(|member| member.push_central(out));
    let length = (out.len() - start) as u64;
    let count = members.len() as u64;
    if is_long_end(count, offset, length) {
        let end = offset + length;
        push_32(out, 0x0606_4b50);
        push_64(out, 44);
        push_16(out, 3 << 8 | 45);
        push_16(out, 45);
        push_32(out, 0);
        push_32(out, 0);
        push_64(out, count);
        push_64(out, count);
        push_64(out, length);
        push_64(out, offset);
        push_32(out, 0x0706_4b50);
        push_32(out, 0);
        push_64(out, end);
        push_32(out, 1);
    }
    push_32(out, 0x0605_4b50);
    push_16(out, 0);
    push_16(out, 0);
    push_16(out, count.min(MOST_16 as u64) as u16);
    push_16(out, count.min(MOST_16 as u64) as u16);
    push_32(out, length.min(MOST_32) as u32);
    push_32(out, offset.min(MOST_32) as u32);
    push_16(out, 0);
}

fn is_long_end(count: u64, offset: u64, length: u64) -> bool {
    count >= MOST_16 as u64 || offset >= MOST_32 || length >= MOST_32
}

/// Returns the length of the whole archive, if its files are in stored blocks.
pub(super) fn stored_length(members: &[Member]) -> u64 {
    let (mut offset, mut central) = (0, 0);
    for member in members {
        let packed = member.stored();
        let name = member.name.len() as u64;
        let long = [member.size, packed, offset];
        let long = long.iter().filter(|&&value| value >= MOST_32).count();
        central += CENTRAL + name + member.central_extra(long);
        offset += LOCAL + name + member.local_extra() + packed + member.descriptor();
    }
    let long = if is_long_end(members.len() as u64, offset, central) {
        56 + 20
    } else {
        0
    };
    offset + central + long + 22
}

/// Returns the time and the date of MS-DOS, in UTC, between 1980 and 2107.
fn dos_time(seconds: i64) -> (u16, u16) {
    const FIRST: i64 = 315_532_800;
    const LAST: i64 = 4_354_819_199;
    let seconds = seconds.clamp(FIRST, LAST);
    let of_day = seconds.rem_euclid(86_400);
    let time = ((of_day / 3600) << 11) | ((of_day / 60 % 60) << 5) | (of_day % 60 / 2);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    (
        time as u16,
        (((year - 1980) << 9) | (month << 5) | day) as u16,
    )
}

/// Returns the year, month and day of a day since 1970
/// (<https://howardhinnant.github.io/date_algorithms.html#civil_from_days>).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn push_16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn push_32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn push_64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes an archive of these members, whose data is not really there.
    fn lengths(members: &mut [Member]) -> (u64, u64) {
        let expected = stored_length(members);
        let mut offset = 0;
        for member in members.iter_mut() {
            let mut out = Vec::new();
            member.push_head(&mut out, offset);
            member.packed = member.stored();
            member.push_descriptor(&mut out);
            offset += out.len() as u64 + member.packed;
        }
        let mut out = Vec::new();
        push_end(&mut out, members, offset);
        (expected, offset + out.len() as u64)
    }

    #[test]
    fn the_length_is_known_in_advance() {
        let member =
            |name: &str, size, modified| Member::new(name.as_bytes(), size, modified, false);
        let mut cases = [
            vec![],
            vec![
                member("a", 0, 0),
                member("d/", 0, 1),
                member("d/b", 65_535, 2),
            ],
            vec![member("a", 65_536, -1), member("old", 1, i64::MIN)],
            vec![member("large", LONG_FROM, 0), member("after", 5, 0)],
            vec![
                member("larger", 1 << 40, 0),
                member("d/", 0, 0),
                member("after", 5, 0),
            ],
            (0..70_000)
                .map(|number| member(&number.to_string(), 1, 0))
                .collect(),
        ];
        for members in &mut cases {
            let (expected, actual) = lengths(members);
            assert_eq!(expected, actual, "{} members", members.len());
        }
    }

    #[test]
    fn times_of_ms_dos() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        let (time, date) = dos_time(784_111_777);
        assert_eq!((time >> 11, time >> 5 & 63, (time & 31) * 2), (8, 49, 36));
        assert_eq!(
            (1980 + (date >> 9), date >> 5 & 15, date & 31),
            (1994, 11, 6)
        );
        assert_eq!(dos_time(0), dos_time(315_532_800));
    }

    #[test]
    fn stored_blocks_are_deflated_data() {
        use std::io::Read;
        let data: Vec<u8> = (0..BLOCK as u32 + 10).map(|byte| byte as u8).collect();
        let mut out = Vec::new();
        push_stored(&mut out, &data[..BLOCK], false);
        push_stored(&mut out, &data[BLOCK..], true);
        let mut back = Vec::new();
        let mut decoder = flate2::read::DeflateDecoder::new(&out[..]);
        decoder.read_to_end(&mut back).unwrap();
        assert!(back == data);
        assert_eq!(
            out.len() as u64,
            Member::new(b"a", data.len() as u64, 0, false).stored()
        );
    }
}
