"""The functions of `os.path` that ask the file system, as coroutines."""

from __future__ import annotations

import os
import stat as _stat
from typing import TYPE_CHECKING, Any, AnyStr

from .. import _laio
from .._laio import Call
from ._descriptors import by_descriptor

if TYPE_CHECKING:
    from _typeshed import FileDescriptorOrPath, StrOrBytesPath

__all__ = [
    "exists",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "lexists",
    "realpath",
    "samefile",
    "sameopenfile",
]


async def exists(path: FileDescriptorOrPath) -> bool:
    """Whether a file exists. False also if it cannot be looked up, and for a dangling link."""
    return await _status(path) is not None


async def lexists(path: StrOrBytesPath) -> bool:
    """Whether a name exists, also if it is a dangling link."""
    return await _link_status(path) is not None


async def isdir(path: FileDescriptorOrPath) -> bool:
    """Whether a path is a directory, or a link to one."""
    status = await _status(path)
    return status is not None and _stat.S_ISDIR(status.st_mode)


async def isfile(path: FileDescriptorOrPath) -> bool:
    """Whether a path is a regular file, or a link to one."""
    status = await _status(path)
    return status is not None and _stat.S_ISREG(status.st_mode)


async def islink(path: StrOrBytesPath) -> bool:
    """Whether a path is a symbolic link."""
    status = await _link_status(path)
    return status is not None and _stat.S_ISLNK(status.st_mode)


async def getsize(filename: FileDescriptorOrPath) -> int:
    """Returns the size of a file in bytes."""
    return (await _stat_of(filename)).st_size


async def getatime(filename: FileDescriptorOrPath) -> float:
    """Returns when a file was last read, in seconds since 1970."""
    return (await _stat_of(filename)).st_atime


async def getmtime(filename: FileDescriptorOrPath) -> float:
    """Returns when the data of a file last changed, in seconds since 1970."""
    return (await _stat_of(filename)).st_mtime


async def getctime(filename: FileDescriptorOrPath) -> float:
    """Returns when the data or the attributes of a file last changed, in seconds since 1970."""
    return (await _stat_of(filename)).st_ctime


async def samefile(f1: FileDescriptorOrPath, f2: FileDescriptorOrPath) -> bool:
    """Whether two names, or numbers of descriptors, are of one file."""
    first, second = await _stat_of(f1), await _stat_of(f2)
    return os.path.samestat(first, second)


async def sameopenfile(fp1: int, fp2: int) -> bool:
    """Whether two descriptors are of one file."""
    return await samefile(fp1, fp2)


async def ismount(path: FileDescriptorOrPath) -> bool:
    """Whether a path is a mount point (by the devices of the path and of the directory above it)."""
    if isinstance(path, int):
        own = await _status(path)
        above: Any = "/proc/self/fd/%d/.." % path
    else:
        own = await _link_status(path)
        if own is None or _stat.S_ISLNK(own.st_mode):
            return False
        name: Any = os.fspath(path)
        above = os.path.join(name, b".." if isinstance(name, bytes) else "..")
    if own is None:
        return False
    parent = await _link_status(await realpath(above))
    if parent is None:
        return False
    return own.st_dev != parent.st_dev or own.st_ino == parent.st_ino


async def realpath(
    filename: AnyStr | os.PathLike[AnyStr], *, strict: bool = False
) -> AnyStr:
    """Returns the absolute path of a file without symbolic links.

    If ``strict``, raises `OSError` if the path does not exist or has a loop of links; else what cannot be
    resolved stays as it is.
    """
    name = os.fspath(filename)
    if isinstance(name, bytes):
        return os.fsencode(await _Resolver(strict).resolve(os.fsdecode(name)))
    return await _Resolver(strict).resolve(name)


class _Resolver:
    """Follows the links of one path."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        #: What a link leads to, `None` while it is being resolved.
        self.links: dict[str, str | None] = {}

    async def resolve(self, name: str) -> str:
        if "\0" in name:
            raise ValueError("embedded null byte")
        path, _ = await self.follow(name[:0], name)
        return os.path.abspath(path)

    async def follow(self, path: str, rest: str) -> tuple[str, bool]:
        """Appends ``rest`` to the resolved ``path``. False if there was a loop."""
        if os.path.isabs(rest):
            rest = rest[1:]
            path = "/"
        while rest:
            name, _, rest = rest.partition("/")
            if not name or name == ".":
                continue
            if name == "..":
                if not path:
                    path = ".."
                    continue
                path, name = os.path.split(path)
                if name == "..":
                    path = os.path.join(path, "..", "..")
                continue
            path_now = os.path.join(path, name)
            try:
                if not await self.is_link(path_now):
                    path = path_now
                    continue
                if path_now in self.links:
                    known = self.links[path_now]
                    if known is not None:
                        path = known
                        continue
                    # A loop: the kernel says so too.
                    if self.strict:
                        await _stat_of(path_now)
                    return os.path.join(path_now, rest), False
                self.links[path_now] = None
                text = _laio.readlink(path_now)
                text = text if type(text) is not Call else await text
            except OSError:
                if self.strict:
                    raise
                path = path_now
                continue
            path, done = await self.follow(path, text)
            if not done:
                return os.path.join(path, rest), False
            self.links[path_now] = path
        return path, True

    async def is_link(self, path: str) -> bool:
        result = _laio.stat(path, None, False)
        status = result if type(result) is not Call else await result
        return _stat.S_ISLNK(status.st_mode)


async def _stat_of(path: FileDescriptorOrPath) -> os.stat_result:
    if isinstance(path, int):
        return await by_descriptor(_laio.stat, path)
    result = _laio.stat(path)
    return result if type(result) is not Call else await result


async def _status(path: FileDescriptorOrPath) -> os.stat_result | None:
    try:
        if isinstance(path, int):
            return await by_descriptor(_laio.stat, path)
        result = _laio.stat(path)
        return result if type(result) is not Call else await result
    except (OSError, ValueError):
        return None


async def _link_status(path: StrOrBytesPath) -> os.stat_result | None:
    try:
        result = _laio.stat(path, None, False)
        return result if type(result) is not Call else await result
    except (OSError, ValueError):
        return None
