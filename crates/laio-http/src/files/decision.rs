//! The status of a response with a file, and the bytes of the file that it has.

use super::Attributes;
use crate::{
    ByteRange, ConditionalResult, ContentType, ETag, Multipart, RangeLimits, RangeSet, Ranges,
    Request, Status, Validators, conditional, date,
};
use std::hash::{BuildHasher, RandomState};

/// What tells the versions of a file apart: the values of `ETag` and `Last-Modified`.
#[derive(Clone, Debug)]
pub struct FileVersion {
    /// The entity tag.
    pub etag: ETag,
    /// Seconds since 1970.
    pub last_modified: i64,
}

/// Which part of a file the response has.
#[allow(clippy::large_enum_variant)] // It is matched where it is made, and needs no allocation.
#[derive(Debug)]
pub enum Selection {
    /// 304: the client has this version.
    NotModified,
    /// 412: the request asks for another version.
    PreconditionFailed,
    /// 416: the file has none of the bytes.
    Unsatisfiable,
    /// 200.
    Whole,
    /// 206.
    Range(ByteRange),
    /// 206, in several parts.
    Ranges(RangeSet),
}

impl FileVersion {
    /// Returns the version of a file. `is_encoded`: the response has other bytes with the same meaning,
    /// which the server makes of the file. `now`: seconds since 1970.
    #[must_use]
    pub fn from_attributes(attributes: &Attributes, is_encoded: bool, now: i64) -> FileVersion {
        let (seconds, nanoseconds) = attributes.modified;
        let etag = ETag::of_file(attributes.inode, attributes.size, seconds, nanoseconds);
        let etag = if is_encoded { etag.weak() } else { etag };
        FileVersion {
            etag: etag.settled(seconds, now),
            last_modified: date::last_modified(seconds, now),
        }
    }

    /// Selects what a request gets of a file of `size` bytes that has this version.
    #[must_use]
    pub fn select(
        &self,
        request: &Request<'_>,
        size: u64,
        limits: &RangeLimits,
        now: i64,
    ) -> Selection {
        let validators = Validators {
            etag: Some(&self.etag),
            modified: Some(self.last_modified),
            now,
        };
        let ranges = match conditional::evaluate(request, &validators) {
            ConditionalResult::NotModified => return Selection::NotModified,
            ConditionalResult::PreconditionFailed => return Selection::PreconditionFailed,
            ConditionalResult::Proceed { range_applies } => match request.headers.only("Range") {
                Some(value) if range_applies => Ranges::parse_within(value, size, limits),
                _ => Ranges::None,
            },
        };
        match ranges {
            Ranges::None => Selection::Whole,
            Ranges::Single(range) => Selection::Range(range),
            Ranges::Multiple(set) => Selection::Ranges(set),
            Ranges::Unsatisfiable => Selection::Unsatisfiable,
        }
    }
}

impl Selection {
    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Selection::NotModified => Status::NOT_MODIFIED,
            Selection::PreconditionFailed => Status::PRECONDITION_FAILED,
            Selection::Unsatisfiable => Status::RANGE_NOT_SATISFIABLE,
            Selection::Whole => Status::OK,
            Selection::Range(_) | Selection::Ranges(_) => Status::PARTIAL_CONTENT,
        }
    }
}

/// Returns the parts of a response with several ranges.
#[must_use]
pub fn multipart(set: RangeSet, size: u64, content_type: ContentType) -> Multipart {
    // Unpredictable, so that no file contains the boundary.
    let random = RandomState::new().hash_one(size);
    Multipart::new(set, size, content_type, random)
}
