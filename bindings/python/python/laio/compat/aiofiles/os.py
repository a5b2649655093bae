"""The names of ``aiofiles.os``."""

from __future__ import annotations

import os as _os
import stat as _stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import laio.os
from laio.os._scandir import entries_of

from . import ospath as path
from .base import without_executor, wrap

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "path",
    "stat",
    "rename",
    "renames",
    "replace",
    "remove",
    "unlink",
    "mkdir",
    "makedirs",
    "rmdir",
    "removedirs",
    "symlink",
    "readlink",
    "listdir",
    "scandir",
    "access",
    "wrap",
    "getcwd",
    "link",
    "sendfile",
    "statvfs",
]

access = without_executor(laio.os.access)
link = without_executor(laio.os.link)
listdir = without_executor(laio.os.listdir)
makedirs = without_executor(laio.os.makedirs)
mkdir = without_executor(laio.os.mkdir)
readlink = without_executor(laio.os.readlink)
remove = without_executor(laio.os.remove)
removedirs = without_executor(laio.os.removedirs)
rename = without_executor(laio.os.rename)
renames = without_executor(laio.os.renames)
replace = without_executor(laio.os.replace)
rmdir = without_executor(laio.os.rmdir)
sendfile = without_executor(laio.os.sendfile)
stat = without_executor(laio.os.stat)
statvfs = without_executor(laio.os.statvfs)
symlink = without_executor(laio.os.symlink)
unlink = without_executor(laio.os.unlink)


@without_executor
async def getcwd() -> str:
    """Returns the working directory."""
    return _os.getcwd()


@without_executor
async def scandir(path: Any = None) -> ScandirIterator:
    """Reads a directory. Returns an iterator and context manager, neither asynchronous, of entries.

    As those of `aiofiles`, the entries have blocking methods. These make a call only for `stat`, and, to
    tell what a symbolic link leads to, for `is_dir` and `is_file`. `laio.os.scandir` blocks nowhere.
    """
    return ScandirIterator([Entry(entry) for entry in await entries_of(path)])


class ScandirIterator:
    """The entries of a directory."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration."""
        self._entries = iter(())


class Entry:
    """An entry of a directory, as `os.DirEntry`."""

    def __init__(self, entry: laio.os.DirEntry[Any]) -> None:
        self.name: Any = entry.name
        self.path: Any = entry.path
        self._inode = entry.inode()
        self._type = entry._type
        self._directory = entry._directory
        self._found: dict[bool, _os.stat_result] = {}

    def inode(self) -> int:
        """The inode number."""
        return self._inode

    def is_symlink(self) -> bool:
        """Whether the entry is a symbolic link."""
        return self._is(_stat.S_IFLNK, False)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the entry is a directory."""
        return self._is(_stat.S_IFDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the entry is a regular file."""
        return self._is(_stat.S_IFREG, follow_symlinks)

    def stat(self, *, follow_symlinks: bool = True) -> _os.stat_result:
        """The status of the entry."""
        if follow_symlinks not in self._found:
            name = self.path if self._directory is None else self.name
            self._found[follow_symlinks] = _os.stat(
                name, dir_fd=self._directory, follow_symlinks=follow_symlinks
            )
        return self._found[follow_symlinks]

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def _is(self, type: int, follow_symlinks: bool) -> bool:
        if self._type and (self._type != _stat.S_IFLNK or not follow_symlinks):
            return self._type == type
        try:
            return _stat.S_IFMT(self.stat(follow_symlinks=follow_symlinks).st_mode) == type
        except FileNotFoundError:
            return False
