"""The names of ``aiofiles.tempfile``."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from laio import tempfile as _tempfile

from ..base import AiofilesContextManager, AsyncBase
from ..threadpool import wrap

__all__ = [
    "NamedTemporaryFile",
    "TemporaryFile",
    "SpooledTemporaryFile",
    "TemporaryDirectory",
]


def NamedTemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    delete: bool = True,
    delete_on_close: bool = True,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManager[Any]:
    """Opens a temporary file with a name."""
    opening = _tempfile.NamedTemporaryFile(
        mode,
        buffering,
        encoding,
        newline,
        suffix,
        prefix,
        dir,
        delete,
        delete_on_close=delete_on_close,
    )
    return AiofilesContextManager(_named(opening))


def TemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManager[Any]:
    """Opens a temporary file without a name."""
    opening = _tempfile.TemporaryFile(mode, buffering, encoding, newline, suffix, prefix, dir)
    return AiofilesContextManager(_unnamed(opening))


def SpooledTemporaryFile(
    max_size: int = 0,
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManager[Any]:
    """Opens a temporary file that is in memory while it is small."""
    opening = _tempfile.SpooledTemporaryFile(
        max_size, mode, buffering, encoding, newline, suffix, prefix, dir
    )
    return AiofilesContextManager(_spooled(opening))


def TemporaryDirectory(
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManagerTempDir:
    """Makes a temporary directory. ``async with`` gives its path."""
    return AiofilesContextManagerTempDir(_directory(suffix, prefix, dir))


class AiofilesContextManagerTempDir(AiofilesContextManager[Any]):
    """What `TemporaryDirectory` returns."""

    async def __aenter__(self) -> Any:
        return (await self).name


class AsyncSpooledTemporaryFile(AsyncBase):
    """A temporary file that is in memory while it is small."""


class AsyncTemporaryDirectory(_tempfile.TemporaryDirectory):
    """A temporary directory that was made."""

    async def close(self) -> None:
        """Removes the directory and all in it."""
        await self.cleanup()


async def _directory(suffix: Any, prefix: Any, dir: Any) -> AsyncTemporaryDirectory:
    return await AsyncTemporaryDirectory(suffix, prefix, dir)


async def _spooled(opening: Coroutine[Any, Any, Any]) -> Any:
    return AsyncSpooledTemporaryFile(await opening)


async def _unnamed(opening: Coroutine[Any, Any, Any]) -> Any:
    return wrap(await opening)


async def _named(opening: Coroutine[Any, Any, Any]) -> Any:
    named = await opening
    file = wrap(named.file)
    # The end of this file is that of the one with a name.
    file._left = named
    file.close = named.close
    file.delete = named.delete
    return file
