"""Copying and moving trees."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from shutil import Error
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import os as _calls
from ..os._scandir import DirEntry, entries_of
from ._copy import copy2, copystat
from ._remove import rmtree

if TYPE_CHECKING:
    from _typeshed import FileDescriptorOrPath, StrPath


class usage(NamedTuple):
    """The sizes of a file system, in bytes."""

    total: int
    used: int
    free: int


async def disk_usage(path: FileDescriptorOrPath) -> usage:
    """Returns the size of a file system, what is used of it, and what is free for this user."""
    status = await _calls.statvfs(path)
    unit = status.f_frsize
    return usage(
        status.f_blocks * unit,
        (status.f_blocks - status.f_bfree) * unit,
        status.f_bavail * unit,
    )


async def copytree(
    src: StrPath,
    dst: StrPath,
    symlinks: bool = False,
    ignore: Callable[..., Any] | None = None,
    copy_function: Callable[..., Any] = copy2,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
) -> StrPath:
    """Copies a directory and all below it. Returns ``dst``.

    Goes on after an exception; in the end raises `Error` with a list of (source, destination, message).
    Symbolic links are copied as links if ``symlinks``. ``ignore(directory, names)`` returns the names to
    leave out. Raises `FileExistsError` if ``dst`` exists, unless ``dirs_exist_ok``.
    """
    tree = _Copying(symlinks, ignore, copy_function, ignore_dangling_symlinks, dirs_exist_ok)
    await tree.copy(src, dst)
    return dst


class _Copying:
    """The options of one copy of a tree."""

    def __init__(
        self,
        symlinks: bool,
        ignore: Callable[..., Any] | None,
        copy_function: Callable[..., Any],
        ignore_dangling_symlinks: bool,
        dirs_exist_ok: bool,
    ) -> None:
        self.symlinks = symlinks
        self.ignore = ignore
        self.copy_function = copy_function
        self.ignore_dangling_symlinks = ignore_dangling_symlinks
        self.dirs_exist_ok = dirs_exist_ok

    async def copy(self, src: StrPath, dst: StrPath) -> None:
        entries = await entries_of(src)
        left_out: Any = ()
        if self.ignore is not None:
            names = [entry.name for entry in entries]
            left_out = await _value(self.ignore(os.fspath(src), names))
        await _calls.makedirs(dst, exist_ok=self.dirs_exist_ok)
        errors: list[Any] = []
        for entry in entries:
            if entry.name in left_out:
                continue
            source, target = os.path.join(src, entry.name), os.path.join(dst, entry.name)
            try:
                await self.copy_entry(entry, source, target)
            except Error as error:
                errors.extend(error.args[0])
            except OSError as error:
                errors.append((source, target, str(error)))
        try:
            await copystat(src, dst)
        except OSError as error:
            errors.append((src, dst, str(error)))
        if errors:
            raise Error(errors)

    async def copy_entry(self, entry: DirEntry[Any], source: str, target: str) -> None:
        if await entry.is_symlink():
            if self.symlinks:
                await _calls.symlink(await _calls.readlink(source), target)
                await copystat(source, target, follow_symlinks=False)
                return
            if self.ignore_dangling_symlinks and not await _calls.path.exists(source):
                return
        if await entry.is_dir():
            await self.copy(source, target)
        else:
            await _value(self.copy_function(source, target))


async def move(
    src: StrPath, dst: StrPath, copy_function: Callable[..., Any] = copy2
) -> StrPath:
    """Moves a file or a directory into the directory ``dst`` or to that name. Returns the new path.

    Between file systems, this copies and then removes. Raises `Error` if the directory has the name.
    """
    target = dst
    if await _calls.path.isdir(dst):
        if await _same(src, dst) and not await _calls.path.islink(src):
            # The name differs only in what the file system takes for equal.
            await _calls.rename(src, dst)
            return dst
        target = os.path.join(dst, _basename(src))
        if await _calls.path.exists(target):
            raise Error(f"Destination path '{target}' already exists")
    try:
        await _calls.rename(src, target)
    except OSError:
        await _move_by_copy(src, dst, target, copy_function)
    return target


async def _move_by_copy(
    src: StrPath, dst: StrPath, target: StrPath, copy_function: Callable[..., Any]
) -> None:
    if await _calls.path.islink(src):
        await _calls.symlink(await _calls.readlink(src), target)
        await _calls.unlink(src)
    elif await _calls.path.isdir(src):
        if _is_inside(dst, src):
            raise Error(f"Cannot move a directory '{src}' into itself '{dst}'.")
        await copytree(src, target, symlinks=True, copy_function=copy_function)
        await rmtree(src)
    else:
        await _value(copy_function(src, target))
        await _calls.unlink(src)


async def _value(result: Any) -> Any:
    """What a function of the program returns, be it a coroutine function or not."""
    return await result if inspect.isawaitable(result) else result


async def _same(first: StrPath, second: StrPath) -> bool:
    try:
        return await _calls.path.samefile(first, second)
    except OSError:
        return False


def _basename(path: StrPath) -> str:
    """The last component, also of a path with slashes at its end."""
    return os.path.basename(os.fspath(path).rstrip("/"))


def _is_inside(inner: StrPath, outer: StrPath) -> bool:
    first = os.path.join(os.path.abspath(outer), "")
    return os.path.join(os.path.abspath(inner), "").startswith(first)
