"""Walking a tree by the descriptors of its directories."""

from __future__ import annotations

import os
import stat as _stat
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _laio
from .._laio import Call
from .._open import close_descriptor
from ._descriptors import fstat
from ._names import lstat
from ._scandir import DirEntry, entries_of

if TYPE_CHECKING:
    from _typeshed import StrPath

_FLAGS = os.O_RDONLY | os.O_NONBLOCK


@dataclass
class _Visit:
    """A directory to walk."""

    name: Any
    #: As the program sees it.
    path: Any
    #: The descriptor in which the name is looked up.
    parent: int | None
    #: Where the name was found, if its status may be taken from there.
    entry: DirEntry[Any] | None
    is_top: bool = False
    #: From before it was opened.
    status: os.stat_result | None = None


async def fwalk(
    top: StrPath | bytes = ".",
    topdown: bool = True,
    onerror: Callable[[OSError], object] | None = None,
    *,
    follow_symlinks: bool = False,
    dir_fd: int | None = None,
) -> AsyncIterator[tuple[Any, list[Any], list[Any], int]]:
    """Yields (path of a directory, names of directories in it, names of other files in it, descriptor).

    As `walk`, with a descriptor of the directory for ``dir_fd`` of other calls, which stays open until the
    program asks for what follows. ``onerror`` is a function, no coroutine.
    """
    name: Any = os.fspath(top)
    # What is left: directories to walk, results to yield, descriptors to close.
    stack: list[Any] = [_Visit(name, name, dir_fd, None, is_top=True)]
    try:
        while stack:
            item = stack.pop()
            if isinstance(item, tuple):
                yield item
                continue
            if isinstance(item, _laio.Descriptor):
                await close_descriptor(item)
                continue
            descriptor = await _open(item, onerror, follow_symlinks)
            if descriptor is None:
                continue
            stack.append(descriptor)
            number = descriptor.fileno()
            if not (follow_symlinks or await _is_same_directory(item, number)):
                continue
            directories, others = await _read(number)
            is_bytes = isinstance(item.path, bytes)
            names = [_named(entry, is_bytes) for entry in directories]
            found = (item.path, names, [_named(entry, is_bytes) for entry in others], number)
            known: list[DirEntry[Any] | None] = [*directories]
            if topdown:
                yield found
                # The program may have changed the list.
                known = [None] * len(names)
            else:
                stack.append(found)
            for name, entry in reversed([*zip(names, known)]):
                stack.append(_Visit(name, os.path.join(item.path, name), number, entry))
    finally:
        for item in reversed(stack):
            if isinstance(item, _laio.Descriptor):
                await close_descriptor(item)


async def _open(
    visit: _Visit, onerror: Callable[[OSError], object] | None, follow_symlinks: bool
) -> _laio.Descriptor | None:
    try:
        if not follow_symlinks:
            visit.status = await _status(visit)
        result = _laio.open(visit.name, _FLAGS, 0, visit.parent)
        return result if type(result) is not Call else await result
    except OSError as error:
        if visit.is_top:
            raise
        if onerror is not None:
            onerror(error)
        return None


async def _status(visit: _Visit) -> os.stat_result:
    if visit.entry is not None:
        return await visit.entry.stat(follow_symlinks=False)
    return await lstat(visit.name, dir_fd=visit.parent)


async def _is_same_directory(visit: _Visit, number: int) -> bool:
    """Whether the directory that was found is the one that was opened: it may have been replaced by a link."""
    found = visit.status
    if found is None or (visit.is_top and not _stat.S_ISDIR(found.st_mode)):
        return False
    return os.path.samestat(found, await fstat(number))


async def _read(number: int) -> tuple[list[DirEntry[Any]], list[DirEntry[Any]]]:
    """The entries that are directories or links to such, and the others."""
    directories: list[DirEntry[Any]] = []
    others: list[DirEntry[Any]] = []
    for entry in await entries_of(number):
        try:
            (directories if await entry.is_dir() else others).append(entry)
        except OSError:
            try:
                # A link that leads nowhere, but no file that is gone.
                if await entry.is_symlink():
                    others.append(entry)
            except OSError:
                pass
    return directories, others


def _named(entry: DirEntry[Any], is_bytes: bool) -> Any:
    return os.fsencode(entry.name) if is_bytes else entry.name
