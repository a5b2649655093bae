//! Extended attributes of files: named values, among them access-control lists.
//!
//! Operations by name do not follow symbolic links. Linux has such calls relative to a directory
//! since 6.13; on older kernels the directory is named through its descriptor,
//! `/proc/thread-self/fd/N`, which needs a mounted `/proc` (else: `ENOENT`).

use super::buffer::{bytes, spare};
use super::outputs::{append, count, done};
use super::{Name, Sink, Source, word};
use crate::knowledge::facts;
use crate::{Call, Errno};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The file whose attribute is used.
#[derive(Debug)]
enum Of<F> {
    Open(F),
    /// Below its directory.
    At(Name<F>),
    /// From the root, or the working directory.
    Path(Name<F>),
}

impl<F: AsFd> Of<F> {
    fn named(name: Name<F>) -> Self {
        if facts::attributes_at() {
            Of::At(name)
        } else {
            Of::by_path(name)
        }
    }

    fn by_path(name: Name<F>) -> Self {
        Of::Path(name.without_directory())
    }

    /// Returns the call for this kind of file: `numbers` are those for an open file, for a name
    /// below a directory, and for a path. The second takes `args_at` after the name, the others
    /// `args`.
    fn call(&self, numbers: [libc::c_long; 3], args: &[usize], args_at: &[usize]) -> Call {
        let [of_open, at, of_path] = numbers;
        match self {
            Of::Open(file) => with_words(of_open, &[word(file)], args),
            Of::At(name) => {
                let (directory, path) = name.words();
                with_words(at, &[directory, path, NO_FOLLOW], args_at)
            }
            Of::Path(name) => with_words(of_path, &[name.words().1], args),
        }
    }
}

fn with_words(number: libc::c_long, first: &[usize], others: &[usize]) -> Call {
    let mut words = [0; 6];
    words[..first.len()].copy_from_slice(first);
    words[first.len()..][..others.len()].copy_from_slice(others);
    Call::new(number, words)
}

// The numbers are missing in the C library; they are the same on all architectures.
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_GETXATTRAT: libc::c_long = 464;
const SYS_LISTXATTRAT: libc::c_long = 465;
const SYS_REMOVEXATTRAT: libc::c_long = 466;

const NO_FOLLOW: usize = libc::AT_SYMLINK_NOFOLLOW as usize;

/// The kernel's `struct xattr_args`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
struct Value {
    address: u64,
    size: u32,
    flags: u32,
}

impl Value {
    const SIZE: usize = size_of::<Value>();

    /// The field has 32 bits; the kernel refuses far smaller sizes.
    fn new(address: usize, length: usize, flags: i32) -> Value {
        Value {
            address: address as u64,
            size: u32::try_from(length).unwrap_or(u32::MAX),
            flags: flags as u32,
        }
    }

    /// Returns its address.
    fn word(&self) -> usize {
        (&raw const *self) as usize
    }
}

operation! {
    /// Reads an extended attribute.
    pub struct GetAttribute<F: AsFd, B: Sink> {
        of: Of<F>,
        attribute: CString,
        buffer: B,
        value: Value,
    }

    // SAFETY: the names are on the operation's heap, the pointer is into the buffer, which the operation owns, and the
    // struct that may carry it is part of the operation.
    unsafe call(self) {
        let (address, length) = spare(&mut self.buffer);
        self.value = Value::new(address, length, 0);
        let (attribute, value) = (self.attribute.as_ptr() as usize, self.value.word());
        let numbers = [libc::SYS_fgetxattr, SYS_GETXATTRAT, libc::SYS_lgetxattr];
        self.of.call(numbers, &[attribute, address, length], &[attribute, value, Value::SIZE])
    }

    /// The bytes read, and the buffer with them appended; if the buffer has no free capacity, the
    /// size of the value. `ENODATA` if the file has no such attribute, `ERANGE` if the buffer is
    /// too small ([`ATTRIBUTE_MAX`] is always enough), `EOPNOTSUPP` if the file system has no
    /// attributes.
    finish(self, result) -> (io::Result<usize>, B) {
        // SAFETY: the result is that of the call on the buffer.
        unsafe { append_if_room(self.buffer, result) }
    }
}

impl<F: AsFd, B> GetAttribute<F, B> {
    /// Reads `attribute`, such as `user.mime_type`, of an open file into the free capacity of
    /// `buffer` (`fgetxattr`).
    pub fn new(file: F, attribute: impl Into<CString>, buffer: B) -> Self {
        GetAttribute::of(Of::Open(file), attribute, buffer)
    }

    /// Reads an attribute by name of the file (`getxattrat` or `lgetxattr`).
    pub fn named(name: Name<F>, attribute: impl Into<CString>, buffer: B) -> Self {
        GetAttribute::of(Of::named(name), attribute, buffer)
    }

    fn of(of: Of<F>, attribute: impl Into<CString>, buffer: B) -> Self {
        GetAttribute {
            of,
            attribute: attribute.into(),
            buffer,
            value: Value::default(),
        }
    }
}

/// Appends like [`append`], except to a buffer without free capacity, where the kernel only returns
/// the size.
///
/// # Safety
/// As for [`append`], if the buffer has free capacity.
unsafe fn append_if_room<B: Sink>(
    mut buffer: B,
    result: Result<usize, Errno>,
) -> (io::Result<usize>, B) {
    if buffer.spare_capacity().1 == 0 {
        return (count(result), buffer);
    }
    // SAFETY: by the caller.
    unsafe { append(buffer, result) }
}

/// The maximum size of the value of an extended attribute, in bytes (`XATTR_SIZE_MAX`), and of the
/// list of their names (`XATTR_LIST_MAX`).
pub const ATTRIBUTE_MAX: usize = 65536;

operation! {
    /// Reads the names of the extended attributes.
    pub struct ListAttributes<F: AsFd, B: Sink> {
        of: Of<F>,
        buffer: B,
    }

    // SAFETY: the name is on the operation's heap, and the pointer is into the buffer, which the operation owns.
    unsafe call(self) {
        let (address, length) = spare(&mut self.buffer);
        let numbers = [libc::SYS_flistxattr, SYS_LISTXATTRAT, libc::SYS_llistxattr];
        self.of.call(numbers, &[address, length], &[address, length])
    }

    /// The bytes read, and the buffer with them appended, for [`attribute_names`]; if the buffer
    /// has no free capacity, the size of the list. `ERANGE` if the buffer is too small
    /// ([`ATTRIBUTE_MAX`] is enough), `E2BIG` if the names exceed the maximum size of a list,
    /// `EOPNOTSUPP` if the file system has no attributes.
    finish(self, result) -> (io::Result<usize>, B) {
        // SAFETY: the result is that of the call on the buffer.
        unsafe { append_if_room(self.buffer, result) }
    }
}

impl<F: AsFd, B> ListAttributes<F, B> {
    /// Reads the names of an open file into the free capacity of `buffer` (`flistxattr`).
    pub fn new(file: F, buffer: B) -> Self {
        let of = Of::Open(file);
        ListAttributes { of, buffer }
    }

    /// Reads the names by the name of the file (`listxattrat` or `llistxattr`).
    pub fn named(name: Name<F>, buffer: B) -> Self {
        let of = Of::named(name);
        ListAttributes { of, buffer }
    }
}

/// Returns the names in a list that [`ListAttributes`] has read.
///
/// ```
/// let names: Vec<_> = laio::ops::attribute_names(b"user.a\0security.b\0").collect();
/// assert_eq!(names, [c"user.a", c"security.b"]);
/// ```
pub fn attribute_names(list: &[u8]) -> impl Iterator<Item = &CStr> {
    list.split_inclusive(|&byte| byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

operation! {
    /// Sets an extended attribute.
    pub struct SetAttribute<F: AsFd, B: Source> {
        of: Of<F>,
        attribute: CString,
        buffer: B,
        flags: i32,
        value: Value,
    }

    // SAFETY: the names are on the operation's heap, the pointer is into the buffer, which the operation owns, and the
    // struct that may carry it is part of the operation.
    unsafe call(self) {
        let (address, length) = bytes(&self.buffer);
        self.value = Value::new(address, length, self.flags);
        let (attribute, value) = (self.attribute.as_ptr() as usize, self.value.word());
        let numbers = [libc::SYS_fsetxattr, SYS_SETXATTRAT, libc::SYS_lsetxattr];
        let args = [attribute, address, length, self.flags as usize];
        self.of.call(numbers, &args, &[attribute, value, Value::SIZE])
    }

    /// Whether it was set, and the buffer. `EOPNOTSUPP` if the file system does not support the
    /// attribute's namespace, `EPERM` for `user.` on other than files and directories and for
    /// `trusted.` and `security.` without the capability, `E2BIG` for more than [`ATTRIBUTE_MAX`],
    /// `ENOSPC` and `EDQUOT` if there is no space.
    finish(self, result) -> (io::Result<()>, B) { (done(result), self.buffer) }
}

impl<F: AsFd, B> SetAttribute<F, B> {
    /// Sets `attribute` of an open file to the bytes of `buffer` (`fsetxattr`).
    pub fn new(file: F, attribute: impl Into<CString>, buffer: B) -> Self {
        SetAttribute::of(Of::Open(file), attribute, buffer)
    }

    /// Sets an attribute by the name of the file (`setxattrat` or `lsetxattr`).
    pub fn named(name: Name<F>, attribute: impl Into<CString>, buffer: B) -> Self {
        SetAttribute::of(Of::named(name), attribute, buffer)
    }

    fn of(of: Of<F>, attribute: impl Into<CString>, buffer: B) -> Self {
        SetAttribute {
            of,
            attribute: attribute.into(),
            buffer,
            flags: 0,
            value: Value::default(),
        }
    }

    /// Fails with `EEXIST` if the file has the attribute already.
    pub fn create(mut self) -> Self {
        self.flags = libc::XATTR_CREATE;
        self
    }

    /// Fails with `ENODATA` if the file does not have the attribute yet.
    pub fn replace(mut self) -> Self {
        self.flags = libc::XATTR_REPLACE;
        self
    }
}

operation! {
    /// Removes an extended attribute.
    pub struct RemoveAttribute<F: AsFd = OwnedFd> {
        of: Of<F>,
        attribute: CString,
    }

    // SAFETY: the names are on the operation's heap.
    unsafe call(self) {
        let attribute = self.attribute.as_ptr() as usize;
        let numbers = [libc::SYS_fremovexattr, SYS_REMOVEXATTRAT, libc::SYS_lremovexattr];
        self.of.call(numbers, &[attribute], &[attribute])
    }

    /// `ENODATA` if the file has no such attribute; others as for [`SetAttribute`].
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F: AsFd> RemoveAttribute<F> {
    /// Removes `attribute` of an open file (`fremovexattr`).
    pub fn new(file: F, attribute: impl Into<CString>) -> Self {
        let (of, attribute) = (Of::Open(file), attribute.into());
        RemoveAttribute { of, attribute }
    }

    /// Removes an attribute by the name of the file (`removexattrat` or `lremovexattr`).
    pub fn named(name: Name<F>, attribute: impl Into<CString>) -> Self {
        let (of, attribute) = (Of::named(name), attribute.into());
        RemoveAttribute { of, attribute }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Operation, Options, Outcome};
    use std::fs::File;
    use std::rc::Rc;

    fn run<O: Operation>(context: &mut Context, operation: O) -> O::Output {
        match context.submit(operation) {
            Outcome::Done(output) => output,
            Outcome::Pending(ticket) => {
                context.poll(&mut Vec::new(), None).expect("poll");
                context.take(ticket).expect("delivered")
            }
        }
    }

    /// As before Linux 6.13, on any kernel.
    #[test]
    fn without_calls_that_begin_in_a_directory() {
        let place = laio_testing::temp::scratch();
        File::create(place.path().join("file")).expect("a file");
        std::os::unix::fs::symlink("file", place.path().join("link")).expect("a link");
        let directory = Rc::new(File::open(place.path()).expect("the directory"));
        let mut context = Context::new(Options::new()).expect("a context");
        let by_path = |name| Of::by_path(Name::at(directory.clone(), name));

        let set = SetAttribute::of(by_path(c"file"), c"user.laio", "value");
        match run(&mut context, set).0 {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return laio_testing::skip("xattr", "the file system has no attributes of users");
            }
            result => result.expect("set"),
        }
        let get = |name, capacity| {
            GetAttribute::of(by_path(name), c"user.laio", Vec::with_capacity(capacity))
        };
        let (result, value) = run(&mut context, get(c"file", 64));
        assert_eq!((result.expect("there"), &value[..]), (5, &b"value"[..]));
        let (result, value) = run(&mut context, get(c"file", 0));
        assert_eq!((result.expect("counted"), value.len()), (5, 0));
        // The link is not followed.
        let (result, _) = run(&mut context, get(c"link", 64));
        let errno = result.expect_err("the link has none").raw_os_error();
        assert_eq!(errno, Some(libc::ENODATA));
        // An empty name does not mean the directory.
        let (result, _) = run(&mut context, get(c"", 64));
        let errno = result.expect_err("no name").raw_os_error();
        assert_eq!(errno, Some(libc::ENOENT));
        let list = ListAttributes {
            of: by_path(c"file"),
            buffer: Vec::with_capacity(ATTRIBUTE_MAX),
        };
        let (_, list) = run(&mut context, list);
        assert!(attribute_names(&list).any(|name| name == c"user.laio"));
        let remove = RemoveAttribute {
            of: by_path(c"file"),
            attribute: c"user.laio".into(),
        };
        run(&mut context, remove).expect("removed");
    }
}
