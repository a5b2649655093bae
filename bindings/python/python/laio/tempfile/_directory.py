"""Temporary directories."""

from __future__ import annotations

import os
import shutil as _blocking
import warnings
import weakref
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from .. import _loops
from .. import os as _calls
from ..shutil import rmtree
from ._names import mkdtemp

if TYPE_CHECKING:
    from typing_extensions import Self


class TemporaryDirectory:
    """A directory that is removed with all in it: ``async with TemporaryDirectory() as path``.

    Or ``directory = await TemporaryDirectory()``, `name` and `cleanup`. It is not removed if ``delete``
    is false. Exceptions in the removal are not raised if ``ignore_cleanup_errors``.
    """

    def __init__(
        self,
        suffix: Any = None,
        prefix: Any = None,
        dir: Any = None,
        ignore_cleanup_errors: bool = False,
        *,
        delete: bool = True,
    ) -> None:
        #: The absolute path. `None` until the directory was made.
        self.name: Any = None
        self._arguments = (suffix, prefix, dir)
        self._ignore_cleanup_errors = ignore_cleanup_errors
        self._delete = delete
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._make().__await__()

    async def _make(self) -> Self:
        if self.name is None:
            self.name = await mkdtemp(*self._arguments)
            if self._delete:
                self._finalizer = weakref.finalize(self, _remove, self.name, repr(self))
        return self

    async def __aenter__(self) -> Any:
        await self._make()
        return self.name

    async def __aexit__(self, *error: object) -> None:
        if self._delete:
            await self.cleanup()

    async def cleanup(self) -> None:
        """Removes the directory and all in it."""
        if self.name is None:
            return
        pending = self._finalizer is not None and self._finalizer.alive
        with _loops.shielded():
            if pending or await _calls.path.exists(self.name):
                removal = _Removal(self._ignore_cleanup_errors)
                await rmtree(self.name, onexc=removal.on_exception)
        # Not before: a coroutine that is cancelled leaves the rest to the finalizer.
        if self._finalizer is not None:
            self._finalizer.detach()

    def __repr__(self) -> str:
        return f"<TemporaryDirectory {self.name!r}>"


class _Removal:
    """Removes also what the program has made unreadable."""

    def __init__(self, ignore_errors: bool) -> None:
        self.ignore_errors = ignore_errors
        self.opened: set[str] = set()

    async def on_exception(self, function: Any, path: str, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return
        if not isinstance(error, PermissionError) or path in self.opened:
            if not self.ignore_errors:
                raise error
            return
        self.opened.add(path)
        for name in (os.path.dirname(path), path):
            if not await _calls.path.islink(name):
                await _calls.chmod(name, 0o700)
        try:
            await _calls.unlink(path)
        except IsADirectoryError:
            await rmtree(path, onexc=self.on_exception)
        except FileNotFoundError:
            pass


def _remove(path: Any, description: str) -> None:
    """Removes what the program has forgotten to clean up."""
    warnings.warn(f"Implicitly cleaning up {description}", ResourceWarning, stacklevel=2)
    _blocking.rmtree(path, ignore_errors=True)
