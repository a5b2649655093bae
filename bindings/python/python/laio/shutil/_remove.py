"""Removing trees, relative to open directories: no symbolic link is followed."""

from __future__ import annotations

import errno
import inspect
import os
import stat as _stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import _laio
from .. import os as _calls
from .._laio import Call
from ..os._scandir import entries_of

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

_OnError = Callable[..., Any]
_DIRECTORY = os.O_RDONLY | os.O_NONBLOCK | os.O_DIRECTORY | os.O_NOFOLLOW


async def rmtree(
    path: StrOrBytesPath,
    ignore_errors: bool = False,
    onerror: _OnError | None = None,
    *,
    onexc: _OnError | None = None,
    dir_fd: int | None = None,
) -> None:
    """Removes a directory and all below it.

    After an exception, ``onexc(function, path, exception)`` is called, or ``onerror(function, path,
    sys.exc_info())``, and the removal goes on; ``function`` is that of `os` whose call failed. Without
    them the exception is raised, unless ``ignore_errors``. Raises `OSError` for a symbolic link. Files
    that another process removes meanwhile raise nothing.
    """
    if ignore_errors:
        onexc, onerror = _ignore, None
    removal = _Removal(onexc, onerror)
    try:
        await removal.run(os.fsdecode(path), dir_fd)
    finally:
        # After an exception or a cancellation. The traceback would keep the directories open, and a
        # cancelled task cannot wait for these calls.
        for directory in removal.open:
            directory.descriptor.close()


def _ignore(function: object, path: str, error: BaseException) -> None:
    pass


class _Open:
    """A directory that is being removed: its files are gone."""

    def __init__(self, descriptor: _laio.Descriptor, name: str, path: str) -> None:
        self.descriptor = descriptor
        self.name = name
        self.path = path
        self.directories: list[str] = []


class _Removal:
    def __init__(self, onexc: _OnError | None, onerror: _OnError | None) -> None:
        self.onexc = onexc
        self.onerror = onerror
        #: From the first directory to the innermost.
        self.open: list[_Open] = []

    async def run(self, path: str, dir_fd: int | None) -> None:
        if not await self.is_no_link(path, dir_fd):
            return
        await self.enter(path, path, dir_fd)
        while self.open:
            innermost = self.open[-1]
            parent = innermost.descriptor.fileno()
            if innermost.directories:
                name = innermost.directories.pop()
                await self.enter(name, os.path.join(innermost.path, name), parent)
                continue
            self.open.pop()
            closed = innermost.descriptor.close()
            if type(closed) is Call:
                await closed
            above = self.open[-1].descriptor.fileno() if self.open else dir_fd
            try:
                await _calls.rmdir(innermost.name, dir_fd=above)
            except OSError as error:
                await self.report(os.rmdir, innermost.path, error)

    async def is_no_link(self, path: str, dir_fd: int | None) -> bool:
        try:
            status = await _calls.lstat(path, dir_fd=dir_fd)
        except OSError as error:
            await self.report(os.lstat, path, error, first=True)
            return False
        if not _stat.S_ISLNK(status.st_mode):
            return True
        refused = OSError("Cannot call rmtree on a symbolic link")
        await self.report(os.path.islink, path, refused)
        return False

    async def enter(self, name: str, path: str, dir_fd: int | None) -> None:
        """Opens a directory, and removes the files in it."""
        try:
            result = _laio.open(name, _DIRECTORY, 0, dir_fd)
            descriptor = result if type(result) is not Call else await result
        except OSError as error:
            function: Any = os.scandir if error.errno == errno.ENOTDIR else os.open
            return await self.report(function, path, error, first=not self.open)
        directory = _Open(descriptor, name, path)
        self.open.append(directory)
        try:
            entries = await entries_of(descriptor.fileno())
        except OSError as error:
            return await self.report(os.scandir, path, error)
        for entry in entries:
            try:
                is_directory = await entry.is_dir(follow_symlinks=False)
            except OSError:
                is_directory = False
            if is_directory:
                directory.directories.append(entry.name)
                continue
            try:
                await _calls.unlink(entry.name, dir_fd=descriptor.fileno())
            except OSError as error:
                await self.report(os.unlink, os.path.join(path, entry.name), error)

    async def report(
        self, function: object, path: str, error: OSError, first: bool = False
    ) -> None:
        if isinstance(error, FileNotFoundError) and not first:
            return
        if error.errno is not None:
            # The name that the call had is relative to a directory.
            error.filename = path
        if self.onexc is not None:
            result = self.onexc(function, path, error)
        elif self.onerror is not None:
            info = (type(error), error, error.__traceback__)
            result = self.onerror(function, path, info)
        else:
            raise error
        if inspect.isawaitable(result):
            await result
