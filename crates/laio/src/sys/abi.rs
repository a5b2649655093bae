//! Structs of the kernel that C libraries declare differently, or not at all: musl's `msghdr` has a length of 32 bits
//! and padding, and it has no `iocb`.

#![allow(non_camel_case_types, reason = "the names are those of C")]

use libc::{c_int, c_uint, c_void, iovec};

/// `struct user_msghdr`. That of glibc has the same layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct msghdr {
    pub(crate) msg_name: *mut c_void,
    pub(crate) msg_namelen: c_uint,
    pub(crate) msg_iov: *mut iovec,
    pub(crate) msg_iovlen: usize,
    pub(crate) msg_control: *mut c_void,
    pub(crate) msg_controllen: usize,
    pub(crate) msg_flags: c_int,
}

/// `struct iocb` of `linux/aio_abi.h`, on little-endian machines.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct iocb {
    pub(crate) aio_data: u64,
    pub(crate) aio_key: u32,
    pub(crate) aio_rw_flags: i32,
    pub(crate) aio_lio_opcode: u16,
    pub(crate) aio_reqprio: i16,
    pub(crate) aio_fildes: u32,
    pub(crate) aio_buf: u64,
    pub(crate) aio_nbytes: u64,
    pub(crate) aio_offset: i64,
    pub(crate) aio_reserved2: u64,
    pub(crate) aio_flags: u32,
    pub(crate) aio_resfd: u32,
}

const _: () = assert!(size_of::<msghdr>() == size_of::<libc::msghdr>());
#[cfg(target_env = "gnu")]
const _: () = assert!(size_of::<iocb>() == size_of::<libc::iocb>());

/// The fields of a status that are read.
pub(crate) const STATUS_MASK: u32 =
    libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID;
