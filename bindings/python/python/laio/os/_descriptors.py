"""Calls on files that are open, by the number of their descriptor."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _laio
from .._laio import Call

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_T = TypeVar("_T")


async def fstat(fd: int) -> os.stat_result:
    """Returns the status of an open file."""
    return await by_descriptor(_laio.stat, fd, has_number=False)


async def fsync(fd: FileDescriptorLike) -> None:
    """Returns when the file's data and attributes are on its storage."""
    result = _laio.fsync(number(fd))
    return result if type(result) is not Call else await result


async def fdatasync(fd: FileDescriptorLike) -> None:
    """Returns when the file's data, and what is needed to read it, are on its storage."""
    result = _laio.fdatasync(number(fd))
    return result if type(result) is not Call else await result


async def sendfile(
    out_fd: FileDescriptorLike, in_fd: FileDescriptorLike, offset: int | None, count: int
) -> int:
    """Sends at most ``count`` bytes of a file, from ``offset`` on, to a socket, pipe or file.

    If ``offset`` is `None`, begins where the file stands, and moves that.

    Returns the number of bytes. Waits when the socket is full, where `os.sendfile` raises
    `BlockingIOError` for a socket that does not block.
    """
    result = _laio.sendfile(number(out_fd), number(in_fd), offset, count)
    return result if type(result) is not Call else await result


def number(fd: FileDescriptorLike) -> int:
    """The number of a descriptor, or of an object with a method ``fileno``."""
    if isinstance(fd, int):
        return fd
    fileno = getattr(fd, "fileno", None)
    if fileno is None:
        raise TypeError("argument must be an int, or have a fileno() method.")
    found = fileno()
    if not isinstance(found, int):
        raise TypeError("fileno() returned a non-integer")
    if found < 0:
        raise ValueError(f"file descriptor cannot be a negative integer ({found})")
    return found


async def by_descriptor(
    call: Callable[..., Call[_T] | _T],
    fd: int,
    *args: object,
    has_number: bool = True,
) -> _T:
    """Makes a call on names with the name that the kernel gives to an open file.

    An `OSError` has the number of the descriptor for its file name, unless `has_number` is false.
    """
    try:
        result: Any = call(descriptor_name(fd), *args)
        value: _T = await result if type(result) is Call else result
        return value
    except OSError as error:
        code = error.errno
        if code is None or code == errno.ENOENT:
            code = errno.EBADF
        name = fd if has_number else None
        raise OSError(code, os.strerror(code), name) from None


def descriptor_name(fd: int) -> str:
    """The name that the kernel gives to an open file of the process."""
    return f"/proc/self/fd/{fd}"
