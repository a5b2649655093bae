"""What the files have in common."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

_T = TypeVar("_T")


def wrap(func: Callable[..., _T]) -> Callable[..., Coroutine[Any, Any, _T]]:
    """A coroutine function that calls a blocking function in a thread, as that of `aiofiles`.

    For functions of the program: those of this package need no thread. Works in asyncio only.
    """

    @wraps(func)
    async def run(*args: Any, loop: Any = None, executor: Any = None, **kwargs: Any) -> _T:
        if loop is None:
            loop = asyncio.get_running_loop()
        result: _T = await loop.run_in_executor(executor, partial(func, *args, **kwargs))
        return result

    return run


def without_executor(
    function: Callable[..., Awaitable[_T]],
) -> Callable[..., Coroutine[Any, Any, _T]]:
    """A coroutine function that takes ``loop`` and ``executor`` too, and does not use them."""

    @wraps(function)
    async def run(*args: Any, loop: Any = None, executor: Any = None, **kwargs: Any) -> _T:
        return await function(*args, **kwargs)

    return run


def detach(file: Any) -> Any:
    """Makes a file of `io` of a file of `laio.open`. Blocks while it writes what is in the buffer."""
    binary = getattr(file, "buffer", file)
    descriptor = binary._open()
    if not hasattr(binary, "_drop_ahead"):
        raise io.UnsupportedOperation("detach")
    if binary._seekable:
        binary._drop_ahead()
    raw = io.FileIO(descriptor.detach(), binary.mode.replace("b", ""))
    binary._descriptor = None
    if binary._seekable:
        raw.seek(binary._position)
    unwritten = memoryview(bytes(binary._unwritten or b""))
    while unwritten:
        unwritten = unwritten[raw.write(unwritten) :]
    if binary is file:
        return raw
    kind = io.BufferedRandom if "+" in raw.mode else io.BufferedReader if raw.readable() else io.BufferedWriter
    return kind(raw)


class AsyncBase:
    """A file of `laio.open` with the methods that are coroutines in `aiofiles`.

    The other methods and attributes are those of the file.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        #: What is left at the end of ``async with``.
        self._left = file

    def __getattr__(self, name: str) -> Any:
        if name[:1] == "_" or name == "buffer":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = getattr(self._file, name)
        if callable(value):
            # A method: found at once the next time.
            setattr(self, name, value)
        return value

    async def isatty(self) -> bool:
        """Whether the file is a terminal."""
        return bool(self._file.isatty())

    async def seekable(self) -> bool:
        """Whether the file has a position."""
        return bool(self._file.seekable())

    async def writable(self) -> bool:
        """Whether the file can be written."""
        return bool(self._file.writable())

    def detach(self) -> Any:
        """Ends this object, and returns the file without its buffer: one of `io`, whose methods block."""
        return detach(self._file)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        line = await self.readline()
        if line:
            return line
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._left.__aexit__(*error)

    def __repr__(self) -> str:
        return f"{super().__repr__()} wrapping {self._file!r}"


class AiofilesContextManager(Awaitable[_T], Generic[_T]):
    """What `open` returns: to be awaited, or used in ``async with``."""

    __slots__ = ("_coro", "_obj")

    def __init__(self, coro: Coroutine[Any, Any, _T]) -> None:
        self._coro = coro
        self._obj: Any = None

    def __await__(self) -> Generator[Any, Any, _T]:
        if self._obj is None:
            self._obj = yield from self._coro.__await__()
        obj: _T = self._obj
        return obj

    async def __aenter__(self) -> _T:
        return await self

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._obj.__aexit__(*error)
        finally:
            self._obj = None
