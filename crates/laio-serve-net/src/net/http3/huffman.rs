//! The Huffman code of HTTP/2 and HTTP/3 (RFC 7541, appendix B).
//!
//! The code is canonical: the lengths of the codes determine the codes.

/// The length in bits of the code of each byte, and of the mark of the end.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6,
    6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6,
    6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22,
    20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23,
    22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22,
    23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22,
    25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The length of the longest code.
const LONGEST: usize = 30;
/// The symbol that marks the end, which no string may contain.
const END: u16 = 256;

/// The codes of each length.
#[derive(Clone, Copy)]
struct OfLength {
    /// The first code.
    first: u32,
    count: u32,
    /// The index of its symbol in [`SYMBOLS`].
    symbols: usize,
}

static CODES: [OfLength; LONGEST + 1] = codes();
/// The symbols in the order of their codes.
static SYMBOLS: [u16; 257] = symbols();

const fn codes() -> [OfLength; LONGEST + 1] {
    let none = OfLength {
        first: 0,
        count: 0,
        symbols: 0,
    };
    let mut codes = [none; LONGEST + 1];
    let mut symbol = 0;
    while symbol < LENGTHS.len() {
        codes[LENGTHS[symbol] as usize].count += 1;
        symbol += 1;
    }
    let mut length = 1;
    while length <= LONGEST {
        let before = codes[length - 1];
        codes[length].first = (before.first + before.count) << 1;
        codes[length].symbols = before.symbols + before.count as usize;
        length += 1;
    }
    codes
}

const fn symbols() -> [u16; 257] {
    let mut next = codes();
    let mut symbols = [0; 257];
    let mut symbol = 0;
    while symbol < LENGTHS.len() {
        let length = LENGTHS[symbol] as usize;
        symbols[next[length].symbols] = symbol as u16;
        next[length].symbols += 1;
        symbol += 1;
    }
    symbols
}

/// The symbol at the start of each eight bits, and the length of its code; a length of 0 if the code is longer.
static SHORT: [(u8, u8); 256] = short();

const fn short() -> [(u8, u8); 256] {
    let mut short = [(0, 0); 256];
    let mut length = 1;
    while length <= 8 {
        let OfLength {
            first,
            count,
            symbols,
        } = CODES[length];
        let mut index = 0;
        while index < count {
            let unused = 8 - length;
            let start = ((first + index) as usize) << unused;
            let mut bits = start;
            while bits < start + (1 << unused) {
                short[bits] = (SYMBOLS[symbols + index as usize] as u8, length as u8);
                bits += 1;
            }
            index += 1;
        }
        length += 1;
    }
    short
}

/// Appends the decoded string to `out`: at most eight fifths of the bytes of `encoded`. Returns
/// false if the code is invalid.
pub(super) fn decode(encoded: &[u8], out: &mut Vec<u8>) -> bool {
    // The lowest `count` bits are not decoded yet: less than the longest code.
    let (mut bits, mut count) = (0u64, 0usize);
    for &byte in encoded {
        bits = bits << 8 | u64::from(byte);
        count += 8;
        loop {
            let next = (bits << 8 >> count) as u8;
            let (symbol, length) = SHORT[usize::from(next)];
            let (symbol, length) = match usize::from(length) {
                0 => match long(bits, count) {
                    Some(found) => found,
                    None => break,
                },
                length => (u16::from(symbol), length),
            };
            if length > count {
                break;
            }
            if symbol == END {
                return false;
            }
            out.push(symbol as u8);
            count -= length;
            bits &= (1 << count) - 1;
        }
    }
    // The rest of the last byte has the first bits of the mark of the end, which are ones.
    count < 8 && bits == (1 << count) - 1
}

/// Returns the symbol whose code of more than eight bits begins the lowest `count` bits, and the length of the code. None
/// if more bits are needed.
fn long(bits: u64, count: usize) -> Option<(u16, usize)> {
    (9..=count.min(LONGEST)).find_map(|length| {
        let code = (bits >> (count - length)) as u32;
        let of_length = CODES[length];
        let index = code.wrapping_sub(of_length.first);
        let symbol = SYMBOLS[of_length.symbols..].get(index as usize);
        symbol
            .filter(|_| index < of_length.count)
            .map(|&symbol| (symbol, length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &byte in text {
            let length = usize::from(LENGTHS[usize::from(byte)]);
            let of_length = CODES[length];
            let all = &SYMBOLS[of_length.symbols..][..of_length.count as usize];
            let index = all.iter().position(|&it| it == u16::from(byte)).unwrap();
            let code = of_length.first + index as u32;
            bits.extend((0..length).rev().map(|bit| code >> bit & 1));
        }
        bits.resize(bits.len().next_multiple_of(8), 1);
        let byte = |bits: &[u32]| bits.iter().fold(0, |byte, bit| byte << 1 | *bit as u8);
        bits.chunks(8).map(byte).collect()
    }

    fn decoded(encoded: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(encoded, &mut out).then_some(out)
    }

    #[test]
    fn strings_of_the_specification() {
        // RFC 7541, appendix C.4.1 and C.6.1.
        let host = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decoded(&host).unwrap(), b"www.example.com");
        let date = [
            0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b,
            0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
        ];
        assert_eq!(decoded(&date).unwrap(), b"Mon, 21 Oct 2013 20:13:21 GMT");
        assert_eq!(decoded(&[]).unwrap(), b"");
    }

    #[test]
    fn each_byte_has_a_code() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(&encode(&all)).unwrap(), all);
        for byte in 0..=255 {
            assert_eq!(decoded(&encode(&[byte])).unwrap(), [byte]);
        }
    }

    /// Decodes bit by bit.
    fn decoded_slowly(encoded: &[u8]) -> Option<Vec<u8>> {
        let (mut out, mut code, mut length) = (Vec::new(), 0u32, 0usize);
        let bits = encoded
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
        for bit in bits {
            (code, length) = (code << 1 | u32::from(bit), length + 1);
            let of_length = CODES[length];
            let index = code.wrapping_sub(of_length.first);
            if index < of_length.count {
                let symbol = SYMBOLS[of_length.symbols + index as usize];
                out.push(u8::try_from(symbol).ok()?);
                (code, length) = (0, 0);
            }
        }
        (length < 8 && code == (1 << length) - 1).then_some(out)
    }

    #[test]
    fn the_table_gives_what_single_bits_give() {
        // All strings of two bytes, and many longer ones from a generator of Marsaglia (xorshift).
        for bytes in 0..=u16::MAX {
            let encoded = bytes.to_be_bytes();
            assert_eq!(decoded(&encoded), decoded_slowly(&encoded), "{encoded:?}");
        }
        let mut state = 1u64;
        for length in (0..20_000).map(|number| number % 12) {
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Long codes begin with ones.
                if state & 0x300 == 0 {
                    0xff
                } else {
                    state as u8
                }
            };
            let encoded: Vec<u8> = (0..length).map(|_| next()).collect();
            assert_eq!(decoded(&encoded), decoded_slowly(&encoded), "{encoded:?}");
        }
    }

    #[test]
    fn wrong_padding_and_the_mark_of_the_end_are_refused() {
        // `a` has the code 00011: the other three bits are padding.
        assert_eq!(decoded(&[0b0001_1111]).unwrap(), b"a");
        assert_eq!(decoded(&[0b0001_1110]), None);
        assert_eq!(decoded(&[0b0001_1111, 0xff]), None);
        assert_eq!(decoded(&[0xff; 4]), None);
    }
}
