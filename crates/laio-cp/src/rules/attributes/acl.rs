//! POSIX ACLs in the format of the kernel's extended attributes: a version, then entries of eight
//! bytes.

const VERSION: u32 = 2;
const HEADER: usize = 4;
const ENTRY: usize = 8;

const USER_OBJECT: u16 = 0x01;
const GROUP_OBJECT: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The permissions of the owner, the group class (the mask, if present) and others, as mode bits.
pub(super) fn class_permissions(acl: &[u8]) -> Option<u32> {
    let of = |tag| permissions(acl, tag);
    let group = of(MASK).or_else(|| of(GROUP_OBJECT))?;
    Some(of(USER_OBJECT)? << 6 | group << 3 | of(OTHER)?)
}

/// The permissions that an ACL grants to the owning group, which differ from the mode's group bits.
pub(super) fn owning_group_permissions(acl: &[u8]) -> Option<u32> {
    let mask = permissions(acl, MASK).unwrap_or(0o7);
    Some(permissions(acl, GROUP_OBJECT)? & mask)
}

fn permissions(acl: &[u8], wanted: u16) -> Option<u32> {
    let (version, entries) = acl.split_first_chunk::<HEADER>()?;
    if u32::from_le_bytes(*version) != VERSION {
        return None;
    }
    entries.chunks_exact(ENTRY).find_map(|entry| {
        let number = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        (number(0) == wanted).then(|| u32::from(number(2)) & 0o7)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, permissions) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(u32::MAX.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_mask_gives_the_permissions_of_the_group_class() {
        let with = acl(&[(USER_OBJECT, 6), (GROUP_OBJECT, 0), (MASK, 6), (OTHER, 4)]);
        assert_eq!(class_permissions(&with), Some(0o664));
        assert_eq!(owning_group_permissions(&with), Some(0));
        let without = acl(&[(USER_OBJECT, 7), (GROUP_OBJECT, 5), (OTHER, 0)]);
        assert_eq!(class_permissions(&without), Some(0o750));
        assert_eq!(owning_group_permissions(&without), Some(5));
    }

    #[test]
    fn an_invalid_acl_has_no_permissions() {
        let whole = acl(&[(USER_OBJECT, 6), (GROUP_OBJECT, 0), (OTHER, 4)]);
        for length in 0..whole.len() {
            assert_eq!(class_permissions(&whole[..length]), None, "{length}");
        }
        let mut other = whole.clone();
        other[0] = 3;
        assert_eq!(
            (class_permissions(&other), owning_group_permissions(&other)),
            (None, None)
        );
    }
}
