"""Temporary files, with and without a name."""

from __future__ import annotations

import errno
import os
import tempfile
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from .. import _laio, _loops
from .. import os as _calls
from .._laio import Call
from .._open import Opening, _Plan, file_of
from ._names import create

if TYPE_CHECKING:
    from typing_extensions import Self

# `O_TMPFILE` is not known to the file system, or not to the kernel.
_NO_TMPFILE = (errno.EISDIR, errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL)


def TemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    *,
    errors: str | None = None,
) -> Opening[Any]:
    """Opens a file without a name, which is gone when it is closed.

    Its ``name`` is the number of its descriptor.
    """
    plan = _Plan(mode, buffering, encoding, errors, newline)
    return Opening(_unnamed(plan, suffix, prefix, dir))


def NamedTemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    delete: bool = True,
    *,
    errors: str | None = None,
    delete_on_close: bool = True,
) -> Opening[Any]:
    """Opens a file with a name, `NamedFile.name`, which is removed when the file is closed.

    If ``delete_on_close`` is false, it is removed at the end of ``async with``; if ``delete`` is false,
    it is not removed.
    """
    plan = _Plan(mode, buffering, encoding, errors, newline)
    return _Opening(_named(plan, suffix, prefix, dir, delete, delete_on_close))


class _Opening(Opening[Any]):
    """Removes the file at the end of ``async with``, also if it was closed before."""

    __slots__ = ()

    async def __aexit__(self, *error: object) -> None:
        if self._file is not None:
            await self._file.__aexit__(*error)


async def _named(
    plan: _Plan, suffix: Any, prefix: Any, dir: Any, delete: bool, delete_on_close: bool
) -> Any:
    descriptor, path = await create(suffix, prefix, dir)
    try:
        file = await file_of(descriptor, path, plan, True)
    except BaseException:
        with _loops.shielded():
            await _calls.unlink(path)
        raise
    return NamedFile(file, path, delete, delete_on_close)


async def _unnamed(plan: _Plan, suffix: Any, prefix: Any, dir: Any) -> Any:
    descriptor = await _open_unnamed(suffix, prefix, dir)
    return await file_of(descriptor, descriptor.fileno(), plan, True)


async def _open_unnamed(suffix: Any, prefix: Any, dir: Any) -> _laio.Descriptor:
    directory = os.path.abspath(tempfile.gettempdir() if dir is None else dir)
    try:
        result = _laio.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_EXCL, 0o600)
        return result if type(result) is not Call else await result
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise
    descriptor, path = await create(suffix, prefix, dir)
    try:
        await _calls.unlink(path)
    except BaseException:
        # As a finalizer does: the removal that was cancelled may not have been made.
        _unlink(path)
        raise
    return descriptor


class NamedFile:
    """A temporary file with a name. What it does not have, it has from `file`, a file of `laio.open`."""

    def __init__(self, file: Any, name: Any, delete: bool, delete_on_close: bool) -> None:
        #: The file of `laio.open`.
        self.file = file
        #: The path of the file.
        self.name = name
        #: Whether the file is removed.
        self.delete = delete
        self._delete_on_close = delete_on_close
        self._finalizer = weakref.finalize(self, _remove, name, repr(self)) if delete else None

    def __getattr__(self, name: str) -> Any:
        if name == "file":
            raise AttributeError(name)
        value = getattr(self.file, name)
        if callable(value):
            # A method: found at once the next time.
            setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"<NamedFile {self.name!r}>"

    async def close(self) -> None:
        """Closes the file, and removes it unless `delete` or `delete_on_close` is false."""
        try:
            await self.file.close()
        finally:
            if self._delete_on_close:
                await self._remove()

    async def _remove(self) -> None:
        if self._finalizer is None or not self._finalizer.alive:
            return
        try:
            with _loops.shielded():
                await _calls.unlink(self.name)
        except FileNotFoundError:
            # The program has removed or renamed it.
            pass
        # Not before: a coroutine that is cancelled leaves it to the finalizer.
        self._finalizer.detach()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self.file.__anext__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
        await self._remove()


def _remove(path: Any, description: str) -> None:
    """Removes what the program has forgotten to close."""
    warnings.warn(f"Implicitly cleaning up {description}", ResourceWarning, stacklevel=2)
    _unlink(path)


def _unlink(path: Any) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
