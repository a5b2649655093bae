//! QPACK (RFC 9204) without a dynamic table: the server announces that it has none, and uses none of
//! its clients. So field sections depend on nothing but themselves, and take no memory of the
//! connection.

use super::huffman;
use super::static_table::{FIELDS, Found, find};

/// A field section that cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Decodes a field section, and passes each field to `field` until that returns an error.
///
/// # Errors
/// `Malformed` if the section is not one of this coding, or refers to a dynamic table.
pub(crate) fn decode<E: From<Malformed>>(
    section: &[u8],
    mut field: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut input = Input(section);
    let required = input.integer(8)?;
    let negative = input.peek()? & 0x80 != 0;
    input.integer(7)?;
    if required != 0 || negative {
        return Err(Malformed.into());
    }
    let (mut name, mut value) = (Vec::new(), Vec::new());
    while !input.0.is_empty() {
        let first = input.peek()?;
        if first & 0x80 != 0 {
            let of_static_table = first & 0x40 != 0;
            let (name, value) = known(input.integer(6)?, of_static_table)?;
            field(name.as_bytes(), value.as_bytes())?;
            continue;
        }
        value.clear();
        if first & 0x40 != 0 {
            let of_static_table = first & 0x10 != 0;
            let (name, _) = known(input.integer(4)?, of_static_table)?;
            input.string(7, &mut value)?;
            field(name.as_bytes(), &value)?;
        } else if first & 0x20 != 0 {
            name.clear();
            input.string(3, &mut name)?;
            input.string(7, &mut value)?;
            field(&name, &value)?;
        } else {
            // Both other forms refer to a dynamic table.
            return Err(Malformed.into());
        }
    }
    Ok(())
}

fn known(index: u64, of_static_table: bool) -> Result<(&'static str, &'static str), Malformed> {
    let field = usize::try_from(index)
        .ok()
        .and_then(|index| FIELDS.get(index));
    field.filter(|_| of_static_table).copied().ok_or(Malformed)
}

struct Input<'i>(&'i [u8]);

impl Input<'_> {
    fn peek(&self) -> Result<u8, Malformed> {
        self.0.first().copied().ok_or(Malformed)
    }

    fn next(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(first)
    }

    /// Reads an integer that begins in the lower `bits` of a byte.
    fn integer(&mut self, bits: u32) -> Result<u64, Malformed> {
        let most = u8::MAX >> (8 - bits);
        let prefix = self.next()? & most;
        let mut value = u64::from(prefix);
        if prefix < most {
            return Ok(value);
        }
        // Nine groups of seven bits hold 62 bits, which is what an implementation must accept.
        for shift in (0..63).step_by(7) {
            let byte = self.next()?;
            let group = u64::from(byte & 0x7f) << shift;
            value = value.checked_add(group).ok_or(Malformed)?;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Appends a string whose length begins in the lower `bits` of a byte. The bit above says
    /// whether the Huffman code is used.
    fn string(&mut self, bits: u32, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let is_coded = self.peek()? >> bits & 1 != 0;
        let length = usize::try_from(self.integer(bits)?).map_err(|_| Malformed)?;
        let (string, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        if !is_coded {
            out.extend_from_slice(string);
            return Ok(());
        }
        huffman::decode(string, out).then_some(()).ok_or(Malformed)
    }
}

/// Begins a field section.
pub(crate) fn begin(out: &mut Vec<u8>) {
    // Neither entries of a dynamic table nor a base in it.
    out.extend_from_slice(&[0, 0]);
}

/// Appends a field, whose name is in lower case.
pub(crate) fn encode(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match find(name, value) {
        Found::Field(index) => return integer(0xc0, 6, index, out),
        Found::Name(index) => integer(0x50, 4, index, out),
        Found::Nothing => {
            integer(0x20, 3, name.len(), out);
            out.extend_from_slice(name);
        }
    }
    integer(0, 7, value.len(), out);
    out.extend_from_slice(value);
}

/// Appends an integer that begins in the lower `bits` of a byte with these upper bits.
fn integer(upper: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let most = usize::from(u8::MAX >> (8 - bits));
    if value < most {
        return out.push(upper | value as u8);
    }
    out.push(upper | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields = Vec<(Vec<u8>, Vec<u8>)>;

    fn fields(section: &[u8]) -> Result<Fields, Malformed> {
        let mut all = Vec::new();
        decode(section, |name, value| {
            all.push((name.to_vec(), value.to_vec()));
            Ok::<_, Malformed>(())
        })?;
        Ok(all)
    }

    #[test]
    fn the_example_of_the_specification() {
        // RFC 9204, appendix B.1.
        let section = b"\x00\x00\x51\x0b/index.html";
        let expected = vec![(b":path".to_vec(), b"/index.html".to_vec())];
        assert_eq!(fields(section), Ok(expected));
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let long = "x".repeat(100_000);
        let all = [
            (":status", "200"),
            (":status", "418"),
            ("content-type", "text/plain"),
            ("content-type", "text/x-rust"),
            ("x-unknown", "1"),
            ("x-unknown", ""),
            ("x-long", &long),
            ("accept-language", ""),
            ("x-frame-options", "sameorigin"),
        ];
        let mut section = Vec::new();
        begin(&mut section);
        for (name, value) in all {
            encode(name.as_bytes(), value.as_bytes(), &mut section);
        }
        let bytes = |(name, value): (&str, &str)| (name.into(), value.into());
        assert_eq!(fields(&section), Ok(all.map(bytes).to_vec()));
    }

    #[test]
    fn integers_of_every_size() {
        for bits in 3..=8 {
            for value in [
                0,
                1,
                6,
                7,
                8,
                30,
                31,
                127,
                128,
                254,
                255,
                256,
                1337,
                1 << 40,
            ] {
                let mut out = Vec::new();
                integer(0, bits, value, &mut out);
                let mut input = Input(&out);
                assert_eq!(input.integer(bits), Ok(value as u64));
                assert!(input.0.is_empty());
            }
        }
        let endless = [&[0xff; 10][..], &[0x7f]].concat();
        assert_eq!(Input(&endless).integer(8), Err(Malformed));
    }

    #[test]
    fn what_is_cut_or_refers_to_a_dynamic_table_is_refused() {
        let mut section = Vec::new();
        begin(&mut section);
        encode(b"content-type", b"text/x-rust", &mut section);
        encode(b"x-unknown", b"value", &mut section);
        let whole = fields(&section).unwrap();
        for length in 0..section.len() {
            let cut = fields(&section[..length]);
            assert!(cut.is_err() || cut.is_ok_and(|cut| cut.len() < whole.len()));
        }
        let dynamic: [&[u8]; 7] = [
            b"\x02\x00\x80",
            b"\x00\x80\xc1",
            b"\x00\x00\x80",
            b"\x00\x00\x40\x00",
            b"\x00\x00\x10",
            b"\x00\x00\x00\x00",
            b"\x00\x00\xff\x24",
        ];
        for section in dynamic {
            assert_eq!(fields(section), Err(Malformed), "{section:?}");
        }
    }
}
