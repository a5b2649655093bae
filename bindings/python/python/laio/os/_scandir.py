"""Reading directories."""

from __future__ import annotations

import os
import stat as _stat
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, AnyStr, Generic, overload

from .. import _laio
from .._laio import Call

if TYPE_CHECKING:
    from typing_extensions import Self


@overload
async def listdir(path: str | os.PathLike[str] | int | None = None) -> list[str]: ...
@overload
async def listdir(path: bytes | os.PathLike[bytes]) -> list[bytes]: ...
async def listdir(path: Any = None) -> list[Any]:
    """Returns the names in a directory, in the order of the file system, without ``.`` and ``..``."""
    return [name for name, _, _ in await _read(path)]


@overload
def scandir(path: None = None) -> ScandirIterator[str]: ...
@overload
def scandir(path: int) -> ScandirIterator[str]: ...
@overload
def scandir(path: AnyStr | os.PathLike[AnyStr]) -> ScandirIterator[AnyStr]: ...
def scandir(path: Any = None) -> ScandirIterator[Any]:
    """Reads a directory: ``async with scandir(path) as entries: async for entry in entries``.

    The entries are `DirEntry` objects, in the order of the file system, without ``.`` and ``..``. The
    directory is read when the iterator is entered, awaited or first advanced; only then an exception
    such as `FileNotFoundError` is raised.
    """
    return ScandirIterator(path)


class ScandirIterator(Generic[AnyStr]):
    """The entries of a directory, as an asynchronous iterator and context manager."""

    def __init__(self, path: AnyStr | os.PathLike[AnyStr] | int | None) -> None:
        self._path: Any = path
        self._entries: list[DirEntry[AnyStr]] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DirEntry[AnyStr]:
        if self._entries is None:
            await self._start()
        if not self._entries:
            raise StopAsyncIteration
        return self._entries.pop()

    async def __aenter__(self) -> Self:
        if self._entries is None:
            await self._start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, Any, Self]:
        return self.__aenter__().__await__()

    async def close(self) -> None:
        """Ends the iteration. The directory itself was closed when it had been read."""
        self._entries = []

    async def _start(self) -> None:
        entries = await entries_of(self._path)
        # Taken from the end.
        entries.reverse()
        self._entries = entries


class DirEntry(Generic[AnyStr]):
    """An entry of a directory.

    The methods that may need a call are coroutines. The kernel says the type with the name on nearly
    all file systems, so `is_symlink` makes no call there, and `is_dir` and `is_file` make one for a
    symbolic link only. A status is kept, as in `os.DirEntry`.
    """

    __slots__ = ("_directory", "_inode", "_lstat", "_stat", "_type", "name", "path")

    #: The name without its directory.
    name: AnyStr
    #: The name joined to the path that was given to `scandir`.
    path: AnyStr

    def __init__(
        self, name: AnyStr, path: AnyStr, type: int, inode: int, directory: int | None
    ) -> None:
        self.name = name
        self.path = path
        self._type = type
        self._inode = inode
        self._directory = directory
        self._stat: os.stat_result | None = None
        self._lstat: os.stat_result | None = None

    def inode(self) -> int:
        """The inode number, as the directory has it."""
        return self._inode

    async def is_symlink(self) -> bool:
        """Whether the entry is a symbolic link."""
        return await self._is(_stat.S_IFLNK, False)

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the entry is a directory, or a symbolic link to one. False if it is gone."""
        return await self._is(_stat.S_IFDIR, follow_symlinks)

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the entry is a regular file, or a symbolic link to one. False if it is gone."""
        return await self._is(_stat.S_IFREG, follow_symlinks)

    def is_junction(self) -> bool:
        """False: Linux has no junctions."""
        return False

    async def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Returns the status of the entry. Further calls return the same."""
        if not follow_symlinks:
            if self._lstat is None:
                self._lstat = await self._call(False)
            return self._lstat
        if self._stat is None:
            if await self._is(_stat.S_IFLNK, False):
                self._stat = await self._call(True)
            else:
                self._stat = await self.stat(follow_symlinks=False)
        return self._stat

    def __fspath__(self) -> AnyStr:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    async def _is(self, type: int, follow_symlinks: bool) -> bool:
        known = self._type
        if known and (known != _stat.S_IFLNK or not follow_symlinks):
            return known == type
        try:
            status = await (
                # `stat` itself asks for the type.
                self.stat(follow_symlinks=True)
                if known and follow_symlinks
                else self._status_of_unknown(follow_symlinks)
            )
        except FileNotFoundError:
            return False
        return _stat.S_IFMT(status.st_mode) == type

    async def _status_of_unknown(self, follow_symlinks: bool) -> os.stat_result:
        status = await self.stat(follow_symlinks=False)
        self._type = _stat.S_IFMT(status.st_mode)
        if follow_symlinks:
            return await self.stat(follow_symlinks=True)
        return status

    async def _call(self, follow_symlinks: bool) -> os.stat_result:
        name = self.path if self._directory is None else self.name
        result = _laio.stat(name, self._directory, follow_symlinks)
        return result if type(result) is not Call else await result


async def entries_of(path: Any) -> list[DirEntry[Any]]:
    """All entries of a directory."""
    found = await _read(path)
    if isinstance(path, int):
        return [DirEntry(name, name, kind, inode, path) for name, kind, inode in found]
    base: Any = "." if path is None else os.fspath(path)
    separator: Any = b"/" if isinstance(base, bytes) else "/"
    # What `os.path.join` does, once.
    if base and not base.endswith(separator):
        base += separator
    return [DirEntry(name, base + name, kind, inode, None) for name, kind, inode in found]


async def _read(path: Any) -> list[tuple[Any, int, int]]:
    if isinstance(path, int):
        try:
            result = _laio.read_directory(".", path)
            return result if type(result) is not Call else await result
        except OSError as error:
            # As in `os`, there is no name.
            error.filename = None
            raise
    result = _laio.read_directory("." if path is None else path)
    return result if type(result) is not Call else await result
