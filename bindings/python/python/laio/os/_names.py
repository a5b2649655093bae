"""Calls on names of files."""

from __future__ import annotations

import errno
import math
import operator
import os
from typing import TYPE_CHECKING, AnyStr

from .. import _laio
from .._laio import Call
from ._descriptors import by_descriptor

if TYPE_CHECKING:
    from _typeshed import FileDescriptorOrPath, StrOrBytesPath

# The nanoseconds by which `utimensat` knows the present time.
_UTIME_NOW = (1 << 30) - 1


async def stat(
    path: FileDescriptorOrPath,
    *,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
) -> os.stat_result:
    """Returns the status of a file: a name, or the number of a descriptor."""
    if isinstance(path, int):
        _refuse("stat", dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        return await by_descriptor(_laio.stat, path)
    result = _laio.stat(path, dir_fd, follow_symlinks)
    return result if type(result) is not Call else await result


async def lstat(path: StrOrBytesPath, *, dir_fd: int | None = None) -> os.stat_result:
    """Returns the status of a file, or of a symbolic link itself."""
    result = _laio.stat(path, dir_fd, False)
    return result if type(result) is not Call else await result


async def access(
    path: FileDescriptorOrPath,
    mode: int,
    *,
    dir_fd: int | None = None,
    effective_ids: bool = False,
    follow_symlinks: bool = True,
) -> bool:
    """Whether the process may use a file, with its real (or effective) user and group.

    ``mode`` is `F_OK`, or several of `R_OK`, `W_OK` and `X_OK`.
    """
    if isinstance(path, int):
        raise TypeError("access: path should be string, bytes or os.PathLike, not int")
    result = _laio.access(path, mode, dir_fd, effective_ids, follow_symlinks)
    return result if type(result) is not Call else await result


async def mkdir(
    path: StrOrBytesPath, mode: int = 0o777, *, dir_fd: int | None = None
) -> None:
    """Makes a directory. The umask is taken off its mode."""
    result = _laio.mkdir(path, mode, dir_fd)
    return result if type(result) is not Call else await result


async def unlink(path: StrOrBytesPath, *, dir_fd: int | None = None) -> None:
    """Removes a name of a file; the file goes with its last name."""
    result = _laio.unlink(path, dir_fd)
    return result if type(result) is not Call else await result


async def remove(path: StrOrBytesPath, *, dir_fd: int | None = None) -> None:
    """Removes a name of a file. The same as `unlink`."""
    result = _laio.unlink(path, dir_fd)
    return result if type(result) is not Call else await result


async def rmdir(path: StrOrBytesPath, *, dir_fd: int | None = None) -> None:
    """Removes an empty directory."""
    result = _laio.rmdir(path, dir_fd)
    return result if type(result) is not Call else await result


async def rename(
    src: StrOrBytesPath,
    dst: StrOrBytesPath,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
) -> None:
    """Renames a file. A file ``dst`` is replaced in the same instant."""
    result = _laio.rename(src, dst, src_dir_fd, dst_dir_fd)
    return result if type(result) is not Call else await result


async def replace(
    src: StrOrBytesPath,
    dst: StrOrBytesPath,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
) -> None:
    """Renames a file. The same as `rename` on Linux."""
    result = _laio.rename(src, dst, src_dir_fd, dst_dir_fd)
    return result if type(result) is not Call else await result


async def link(
    src: StrOrBytesPath,
    dst: StrOrBytesPath,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
    follow_symlinks: bool = True,
) -> None:
    """Gives the file ``src`` the further name ``dst``.

    As in `os` on Linux, a symbolic link itself gets the name, also if ``follow_symlinks`` is true, unless
    there is a descriptor of a directory too.
    """
    follow = follow_symlinks and (src_dir_fd is not None or dst_dir_fd is not None)
    result = _laio.link(src, dst, src_dir_fd, dst_dir_fd, follow)
    return result if type(result) is not Call else await result


async def symlink(
    src: StrOrBytesPath,
    dst: StrOrBytesPath,
    target_is_directory: bool = False,
    *,
    dir_fd: int | None = None,
) -> None:
    """Makes the symbolic link ``dst``, whose text is ``src``. ``target_is_directory`` has no effect."""
    result = _laio.symlink(src, dst, dir_fd)
    return result if type(result) is not Call else await result


async def readlink(
    path: AnyStr | os.PathLike[AnyStr], *, dir_fd: int | None = None
) -> AnyStr:
    """Returns the text of a symbolic link, of the same type as ``path``."""
    result: AnyStr | Call[AnyStr] = _laio.readlink(path, dir_fd)
    return result if not isinstance(result, Call) else await result


async def chmod(
    path: FileDescriptorOrPath,
    mode: int,
    *,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
) -> None:
    """Sets the permissions of a file: a name, or the number of a descriptor.

    Raises `NotImplementedError` for a symbolic link if ``follow_symlinks`` is false.
    """
    if isinstance(path, int):
        _refuse("chmod", dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        return await by_descriptor(_laio.chmod, path, mode)
    try:
        result = _laio.chmod(path, mode, dir_fd, follow_symlinks)
        return result if type(result) is not Call else await result
    except OSError as error:
        if follow_symlinks or error.errno != errno.EOPNOTSUPP:
            raise
        # Links have no permissions on Linux; the exception is that of `os`.
        message = "chmod: follow_symlinks unavailable on this platform"
        raise NotImplementedError(message) from None


async def chown(
    path: FileDescriptorOrPath,
    uid: int,
    gid: int,
    *,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
) -> None:
    """Sets the owner and the group of a file, by number. -1 leaves one as it is."""
    if isinstance(path, int):
        _refuse("chown", dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        return await by_descriptor(_laio.chown, path, uid, gid)
    result = _laio.chown(path, uid, gid, dir_fd, follow_symlinks)
    return result if type(result) is not Call else await result


async def lchown(path: StrOrBytesPath, uid: int, gid: int) -> None:
    """Sets the owner and the group of a file, or of a symbolic link itself."""
    result = _laio.chown(path, uid, gid, None, False)
    return result if type(result) is not Call else await result


async def utime(
    path: FileDescriptorOrPath,
    times: tuple[float, float] | None = None,
    *,
    ns: tuple[int, int] | None = None,
    dir_fd: int | None = None,
    follow_symlinks: bool = True,
) -> None:
    """Sets when a file was last read and last changed: to the present, if neither argument is given.

    ``times`` are two numbers of seconds since 1970, ``ns`` two numbers of nanoseconds. An `OSError` has
    the name of the file, which `os.utime` leaves out.
    """
    accessed, modified = _timespecs(times, ns)
    if isinstance(path, int):
        _refuse("utime", dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        return await by_descriptor(_laio.utime, path, accessed, modified)
    result = _laio.utime(path, accessed, modified, dir_fd, follow_symlinks)
    return result if type(result) is not Call else await result


async def statvfs(path: FileDescriptorOrPath) -> os.statvfs_result:
    """Returns the status of a file system, by a file in it."""
    if isinstance(path, int):
        return await by_descriptor(_laio.statvfs, path)
    result = _laio.statvfs(path)
    return result if type(result) is not Call else await result


async def truncate(path: FileDescriptorOrPath, length: int) -> None:
    """Makes a file ``length`` bytes long: cuts it, or adds zeros."""
    if length < 0:
        # The core takes lengths without a sign.
        error = OSError(22, os.strerror(22))
        if not isinstance(path, int):
            error.filename = path
        raise error
    if isinstance(path, int):
        result = _laio.truncate(path, length)
        return result if type(result) is not Call else await result
    opened = _laio.open(path, os.O_WRONLY | os.O_NONBLOCK)
    file = opened if type(opened) is not Call else await opened
    try:
        result = file.truncate(length)
        return result if type(result) is not Call else await result
    except OSError as error:
        error.filename = os.fspath(path)
        raise
    finally:
        closed = file.close()
        if type(closed) is Call:
            await closed


_Timespec = tuple[int, int]


def _timespecs(
    times: tuple[float, float] | None, ns: tuple[int, int] | None
) -> tuple[_Timespec, _Timespec]:
    if times is not None and ns is not None:
        raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
    if times is not None:
        if not isinstance(times, tuple) or len(times) != 2:
            raise TypeError("utime: 'times' must be either a tuple of two ints or None")
        return _from_seconds(times[0]), _from_seconds(times[1])
    if ns is not None:
        if not isinstance(ns, tuple) or len(ns) != 2:
            raise TypeError("utime: 'ns' must be a tuple of two ints")
        return divmod(ns[0], 1_000_000_000), divmod(ns[1], 1_000_000_000)
    return (0, _UTIME_NOW), (0, _UTIME_NOW)


def _from_seconds(time: float) -> _Timespec:
    """Whole seconds and nanoseconds, rounded down as `os.utime` rounds."""
    if not isinstance(time, float):
        return operator.index(time), 0
    if math.isnan(time):
        raise ValueError("Invalid value NaN (not a number)")
    if math.isinf(time):
        raise OverflowError("timestamp out of range for platform time_t")
    rest, whole = math.modf(time)
    nanoseconds = math.floor(rest * 1e9)
    seconds = int(whole)
    if nanoseconds < 0:
        return seconds - 1, nanoseconds + 1_000_000_000
    return seconds, nanoseconds


def _refuse(name: str, *, dir_fd: int | None, follow_symlinks: bool) -> None:
    """Raises for arguments that have no meaning with a descriptor."""
    if dir_fd is not None:
        raise ValueError(f"{name}: can't specify dir_fd without matching path")
    if not follow_symlinks:
        raise ValueError(f"{name}: cannot use fd and follow_symlinks together")
