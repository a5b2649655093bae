//! Comparison of the names of header fields.

/// Whether a name is one of `names`. Case makes no difference.
pub(crate) fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// Whether a field would become the same variable as that of `own`, in upstreams that turn fields into variables
/// and do not distinguish hyphens and underscores.
pub(crate) fn is_same_variable(name: &[u8], own: &str) -> bool {
    let same = |(own, byte): (u8, &u8)| {
        own.eq_ignore_ascii_case(byte) || matches!((own, byte), (b'-', b'_') | (b'_', b'-'))
    };
    own.len() == name.len() && own.bytes().zip(name).all(same)
}
