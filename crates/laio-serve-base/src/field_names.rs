//! Comparison of the names of header fields.

/// Whether a name is one of `names`. Case makes no difference.
pub fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// Whether a field would become the same variable as that of `own`, in upstreams that turn fields into variables:
/// most distinguish no hyphens and underscores, and some no other byte that is neither a letter nor a digit.
pub fn is_same_variable(name: &[u8], own: &str) -> bool {
    let is_sign = |byte: u8| !byte.is_ascii_alphanumeric();
    let same = |(own, &byte): (u8, &u8)| {
        own.eq_ignore_ascii_case(&byte) || (is_sign(own) && is_sign(byte))
    };
    own.len() == name.len() && own.bytes().zip(name).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_variable() {
        for name in [
            &b"Remote-User"[..],
            b"REMOTE_USER",
            b"remote.user",
            b"remote~user",
        ] {
            assert!(is_same_variable(name, "Remote-User"));
            assert!(is_same_variable(name, "remote_user"));
        }
        for name in [&b"RemoteUser"[..], b"Remote-Users", b"RemotexUser", b""] {
            assert!(!is_same_variable(name, "Remote-User"));
        }
    }
}
