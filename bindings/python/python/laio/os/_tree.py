"""Calls on several directories at once."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, AnyStr, Literal

from . import path as _path
from ._names import mkdir, rename, rmdir
from ._scandir import entries_of

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath


async def makedirs(
    name: StrOrBytesPath, mode: int = 0o777, exist_ok: bool = False
) -> None:
    """Makes a directory, and those above it which do not exist.

    ``mode`` is that of the last directory. Raises `FileExistsError` if it exists, unless ``exist_ok``.
    """
    head, tail = os.path.split(os.fspath(name))
    if not tail:
        head, tail = os.path.split(head)
    if head and tail and not await _path.exists(head):
        try:
            await makedirs(head, exist_ok=exist_ok)
        except FileExistsError:
            # Another task or process was faster.
            pass
        if tail in (os.curdir, os.fsencode(os.curdir)):
            return
    try:
        await mkdir(name, mode)
    except OSError:
        # Not only `FileExistsError`: the kernel may look at other conditions first.
        if not exist_ok or not await _path.isdir(name):
            raise


async def removedirs(name: StrOrBytesPath) -> None:
    """Removes an empty directory, and then those above it until one is not empty."""
    await rmdir(name)
    head, tail = os.path.split(os.fspath(name))
    if not tail:
        head, tail = os.path.split(head)
    while head and tail:
        try:
            await rmdir(head)
        except OSError:
            return
        head, tail = os.path.split(head)


async def renames(old: StrOrBytesPath, new: StrOrBytesPath) -> None:
    """Renames a file, makes the directories that the new name needs, and removes those left empty."""
    head, tail = os.path.split(os.fspath(new))
    if head and tail and not await _path.exists(head):
        await makedirs(head)
    await rename(old, new)
    head, tail = os.path.split(os.fspath(old))
    if head and tail:
        try:
            await removedirs(head)
        except OSError:
            pass


async def walk(
    top: AnyStr | os.PathLike[AnyStr],
    topdown: bool = True,
    onerror: Callable[[OSError], object] | None = None,
    followlinks: bool = False,
) -> AsyncIterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    """Yields (path of a directory, names of directories in it, names of other files in it).

    As in `os.walk`, the program may change the list of directories if ``topdown``. ``onerror`` is a
    function (no coroutine) which gets the exception of a directory that cannot be read; without it such
    directories are left out.
    """
    links: Links = "followed" if followlinks else "listed"
    name: Any = os.fspath(top)
    async for found in walk_tree(name, topdown, onerror, links):
        yield found


# What links to directories are: directories like others, directories that are not walked, or other files.
Links = Literal["followed", "listed", "files"]


async def walk_tree(
    top: AnyStr, topdown: bool, onerror: Callable[[OSError], object] | None, links: Links
) -> AsyncIterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    """As `walk`. `laio.Path.walk` treats links in another way."""
    # Paths to walk, and results to yield after what is below them.
    stack: list[Any] = [top]
    while stack:
        directory = stack.pop()
        if isinstance(directory, tuple):
            yield directory
            continue
        try:
            entries = await entries_of(directory)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            continue
        directories: list[AnyStr] = []
        others: list[AnyStr] = []
        below: list[AnyStr] = []
        for entry in entries:
            if not await _is_dir(entry, links != "files"):
                others.append(entry.name)
                continue
            directories.append(entry.name)
            if not topdown and (links != "listed" or not await _is_symlink(entry)):
                below.append(entry.path)
        if topdown:
            yield directory, directories, others
            for name in directories:
                path = os.path.join(directory, name)
                # The program may have replaced a directory by a link meanwhile.
                if links != "listed" or not await _path.islink(path):
                    below.append(path)
        else:
            stack.append((directory, directories, others))
        stack.extend(reversed(below))


async def _is_dir(entry: Any, follow_symlinks: bool) -> bool:
    try:
        return bool(await entry.is_dir(follow_symlinks=follow_symlinks))
    except OSError:
        return False


async def _is_symlink(entry: Any) -> bool:
    try:
        return bool(await entry.is_symlink())
    except OSError:
        return False
