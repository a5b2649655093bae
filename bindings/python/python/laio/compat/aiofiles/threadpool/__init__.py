"""``aiofiles.threadpool``: opening files. Its name is all that is left of a pool of threads."""

from __future__ import annotations

import sys
from typing import Any

import laio

from ..base import AiofilesContextManager
from .binary import AsyncBufferedIOBase, AsyncBufferedReader, AsyncFileIO
from .standard import StandardBytes, StandardText
from .text import AsyncTextIOWrapper

__all__ = (
    "open",
    "stdin",
    "stdout",
    "stderr",
    "stdin_bytes",
    "stdout_bytes",
    "stderr_bytes",
)


def open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
    *,
    loop: Any = None,
    executor: Any = None,
) -> AiofilesContextManager[Any]:
    """Opens a file. The arguments are those of the built-in ``open``."""
    return AiofilesContextManager(
        _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    )


async def _open(
    file: Any,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
    closefd: bool,
    opener: Any,
) -> Any:
    return wrap(
        await laio.open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    )


def wrap(file: Any, *, loop: Any = None, executor: Any = None) -> Any:
    """Gives a file of `laio.open` the methods that it has in `aiofiles`."""
    if isinstance(file, laio.TextFile):
        return AsyncTextIOWrapper(file)
    if isinstance(file, laio.BinaryFile):
        return AsyncBufferedReader(file) if file.readable() else AsyncBufferedIOBase(file)
    if isinstance(file, laio.RawFile):
        return AsyncFileIO(file)
    raise TypeError(f"Unsupported io type: {file}.")


stdin = StandardText(lambda: sys.stdin)
stdout = StandardText(lambda: sys.stdout)
stderr = StandardText(lambda: sys.stderr)
stdin_bytes = StandardBytes(lambda: sys.stdin.buffer)
stdout_bytes = StandardBytes(lambda: sys.stdout.buffer)
stderr_bytes = StandardBytes(lambda: sys.stderr.buffer)
