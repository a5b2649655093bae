"""Copying single files."""

from __future__ import annotations

import errno
import os
import stat as _stat
from shutil import SameFileError, SpecialFileError
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import _laio
from .. import os as _calls
from .._laio import Call
from .._raw import progress

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath, StrPath

_To = TypeVar("_To", bound="StrOrBytesPath")

# How much is copied by one call inside the kernel, and how much through memory, in bytes.
_KERNEL_PIECE = 16 * 1024 * 1024
_PIECE = 1024 * 1024

# The file systems, or the kernel, cannot copy between these files.
_NOT_IN_KERNEL = (
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.ETXTBSY,
    errno.EBADF,
)
_NO_ATTRIBUTES = (errno.ENOTSUP, errno.ENODATA, errno.EINVAL)
_ATTRIBUTE_REFUSED = (*_NO_ATTRIBUTES, errno.EPERM, errno.EACCES)


async def copyfile(src: StrOrBytesPath, dst: _To, *, follow_symlinks: bool = True) -> _To:
    """Copies the data of a file. Returns ``dst``.

    A symbolic link ``src`` is copied as a link if ``follow_symlinks`` is false. Raises `SameFileError`
    if both are one file, `SpecialFileError` for a FIFO.
    """
    status, other = await _status(src), await _status(dst)
    if status is not None and other is not None and os.path.samestat(status, other):
        raise SameFileError(f"{src!r} and {dst!r} are the same file")
    for name, found in ((src, status), (dst, other)):
        if found is not None and _stat.S_ISFIFO(found.st_mode):
            raise SpecialFileError(f"`{os.fspath(name)!s}` is a named pipe")
    if not follow_symlinks and await _calls.path.islink(src):
        await _calls.symlink(await _calls.readlink(cast(Any, src)), dst)
        return dst
    opened = _laio.open(src, os.O_RDONLY)
    source = opened if type(opened) is not Call else await opened
    try:
        if source.file_type == _stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), src)
        await _copy_to(source, src, dst)
    finally:
        closed = source.close()
        if type(closed) is Call:
            await closed
    return dst


async def copymode(
    src: StrOrBytesPath, dst: StrOrBytesPath, *, follow_symlinks: bool = True
) -> None:
    """Copies the permissions of a file.

    Does nothing for two symbolic links if ``follow_symlinks`` is false: links have none on Linux.
    """
    if not follow_symlinks and await _both_links(src, dst):
        return
    status = await _calls.stat(src)
    await _calls.chmod(dst, _stat.S_IMODE(status.st_mode))


async def copystat(
    src: StrOrBytesPath, dst: StrOrBytesPath, *, follow_symlinks: bool = True
) -> None:
    """Copies the permissions, the times and the extended attributes of a file.

    For two symbolic links, copies those of the links if ``follow_symlinks`` is false.
    """
    follow = follow_symlinks or not await _both_links(src, dst)
    status = await _calls.stat(src, follow_symlinks=follow)
    times = (status.st_atime_ns, status.st_mtime_ns)
    await _calls.utime(dst, ns=times, follow_symlinks=follow)
    await _copy_attributes(src, dst, follow)
    try:
        mode = _stat.S_IMODE(status.st_mode)
        await _calls.chmod(dst, mode, follow_symlinks=follow)
    except NotImplementedError:
        # A symbolic link.
        pass


async def copy(src: StrPath, dst: StrPath, *, follow_symlinks: bool = True) -> StrPath:
    """Copies the data and the permissions of a file, into the directory ``dst`` or to that name.

    Returns the path of the new file.
    """
    dst = await _in_directory(src, dst)
    await copyfile(src, dst, follow_symlinks=follow_symlinks)
    await copymode(src, dst, follow_symlinks=follow_symlinks)
    return dst


async def copy2(src: StrPath, dst: StrPath, *, follow_symlinks: bool = True) -> StrPath:
    """Copies the data of a file and what `copystat` copies, into the directory ``dst`` or to that name.

    Returns the path of the new file.
    """
    dst = await _in_directory(src, dst)
    await copyfile(src, dst, follow_symlinks=follow_symlinks)
    await copystat(src, dst, follow_symlinks=follow_symlinks)
    return dst


async def copyfileobj(fsrc: Any, fdst: Any, length: int = 0) -> None:
    """Copies what is left of one open file to another, ``length`` bytes (or characters) at a time.

    Both have the coroutines ``read`` and ``write``, as the files of `laio.open` have.
    """
    while data := await fsrc.read(length or _PIECE):
        await fdst.write(data)


async def _in_directory(src: StrPath, dst: StrPath) -> StrPath:
    if await _calls.path.isdir(dst):
        return os.path.join(dst, os.path.basename(src))
    return dst


async def _both_links(src: StrOrBytesPath, dst: StrOrBytesPath) -> bool:
    return await _calls.path.islink(src) and await _calls.path.islink(dst)


async def _status(path: StrOrBytesPath) -> os.stat_result | None:
    try:
        return await _calls.stat(path)
    except OSError:
        return None


async def _copy_to(source: _laio.Descriptor, src: StrOrBytesPath, dst: StrOrBytesPath) -> None:
    try:
        opened = _laio.open(dst, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        target = opened if type(opened) is not Call else await opened
    except IsADirectoryError as error:
        if await _calls.path.exists(dst):
            raise
        raise FileNotFoundError(f"Directory does not exist: {dst!s}") from error
    try:
        await copy_data(source, target)
    except OSError as error:
        error.filename, error.filename2 = src, dst
        raise
    finally:
        closed = target.close()
        if type(closed) is Call:
            await closed


async def copy_data(source: _laio.Descriptor, target: _laio.Descriptor) -> None:
    """Copies a file that is open, from its beginning, to another."""
    if source.file_type != _stat.S_IFREG or target.file_type != _stat.S_IFREG:
        return await _copy_stream(source, target)
    position = await _copy_in_kernel(source, target)
    # Also after that: files of `/proc` have data, and yet no size.
    while True:
        read = source.pread(_PIECE, position)
        data = read if type(read) is not Call else await read
        if not data:
            return
        done = 0
        while done < len(data):
            written = target.pwrite(data[done:] if done else data, position + done)
            count = written if type(written) is not Call else await written
            done += progress(count, data)
        position += done


async def _copy_in_kernel(source: _laio.Descriptor, target: _laio.Descriptor) -> int:
    """Copies as much as the kernel can. Returns the number of bytes."""
    position = 0
    while True:
        try:
            copied = source.copy_range(target, position, position, _KERNEL_PIECE)
            count = copied if type(copied) is not Call else await copied
        except OSError as error:
            if error.errno not in _NOT_IN_KERNEL:
                raise
            return position
        if count == 0:
            return position
        position += count


async def _copy_stream(source: _laio.Descriptor, target: _laio.Descriptor) -> None:
    while True:
        read = source.read(_PIECE)
        data = read if type(read) is not Call else await read
        if not data:
            return
        done = 0
        while done < len(data):
            written = target.write(data[done:] if done else data)
            count = written if type(written) is not Call else await written
            done += progress(count, data)


async def _copy_attributes(src: StrOrBytesPath, dst: StrOrBytesPath, follow: bool) -> None:
    if follow:
        # The calls are those on links themselves.
        src, dst = await _followed(src), await _followed(dst)
    try:
        listed = _laio.list_attributes(src)
        names = listed if type(listed) is not Call else await listed
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise
        return
    for name in names:
        try:
            got = _laio.get_attribute(src, name)
            value = got if type(got) is not Call else await got
            result = _laio.set_attribute(dst, name, value)
            if type(result) is Call:
                await result
        except OSError as error:
            if error.errno not in _ATTRIBUTE_REFUSED:
                raise


async def _followed(path: StrOrBytesPath) -> StrOrBytesPath:
    if not await _calls.path.islink(path):
        return path
    resolved: StrOrBytesPath = await _calls.path.realpath(cast(Any, path))
    return resolved
