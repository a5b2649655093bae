"""Standard input, output and error output."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import laio
from laio import _laio
from laio._laio import Call

from ..base import AsyncBase


class _Standard(AsyncBase):
    """Finds the object of `sys` anew at each use, because programs replace it.

    An object without a descriptor, for example an `io.StringIO`, is used as it is.
    """

    def __init__(self, indirect: Callable[[], Any]) -> None:
        self._indirect = indirect
        self._opened: tuple[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "_file":
            return self._indirect()
        if name[:1] == "_" or name in ("raw", "buffer", "detach"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        # Not kept, as another object may be in its place the next time.
        return getattr(self._indirect(), name)

    async def _for_reading(self) -> Any:
        """The file of `laio.open` for the descriptor; `None` if there is none."""
        stream = self._indirect()
        number = _descriptor(stream)
        if number is None:
            return None
        if self._opened is None or self._opened[0] is not stream:
            self._opened = (stream, await self._open(stream, number))
        return self._opened[1]

    async def _open(self, stream: Any, number: int) -> Any:
        raise NotImplementedError

    async def _read(self, name: str, *arguments: Any) -> Any:
        file = await self._for_reading()
        if file is None:
            return getattr(self._indirect(), name)(*arguments)
        return await getattr(file, name)(*arguments)

    async def read(self, size: int | None = -1, /) -> Any:
        """Reads at most ``size`` bytes or characters; all up to the end if it is negative."""
        return await self._read("read", -1 if size is None else size)

    async def readline(self, size: int | None = -1, /) -> Any:
        """Reads a line."""
        return await self._read("readline", -1 if size is None else size)

    async def readlines(self, hint: int = -1, /) -> Any:
        """Reads all lines."""
        return await self._read("readlines", hint)

    async def write(self, data: Any, /) -> int:
        """Writes at once: there is no buffer. What `print` has left in one is written first."""
        stream = self._indirect()
        number = _descriptor(stream)
        if number is None:
            return int(stream.write(data))
        data_bytes = self._encode(stream, data)
        stream.flush()
        descriptor = _laio.Descriptor.duplicate(number, number)
        left = memoryview(data_bytes)
        while left:
            result = descriptor.write(bytes(left))
            left = left[result if type(result) is not Call else await result :]
        return len(data)

    def _encode(self, stream: Any, data: Any) -> bytes:
        raise NotImplementedError

    async def writelines(self, lines: Iterable[Any], /) -> None:
        """Writes each of the lines."""
        for line in lines:
            await self.write(line)

    async def flush(self) -> None:
        """Writes what `print` has left in a buffer."""
        self._indirect().flush()

    async def close(self) -> None:
        """Closes the object of `sys`."""
        if self._opened is not None:
            await self._opened[1].close()
            self._opened = None
        self._indirect().close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} wrapping {self._indirect()!r}>"


class StandardText(_Standard):
    """A text stream of `sys`."""

    async def readable(self) -> bool:
        """Whether the stream can be read."""
        return bool(self._indirect().readable())

    async def _open(self, stream: Any, number: int) -> Any:
        encoding, errors = stream.encoding, stream.errors
        return await laio.open(number, "r", -1, encoding, errors, closefd=False)

    def _encode(self, stream: Any, data: Any) -> bytes:
        if not isinstance(data, str):
            raise TypeError(f"write() argument must be str, not {type(data).__name__}")
        return data.encode(stream.encoding or "utf-8", stream.errors or "strict")


class StandardBytes(_Standard):
    """A binary stream of `sys`."""

    async def read1(self, size: int = -1, /) -> bytes:
        """Reads what there is, at most ``size`` bytes."""
        return bytes(await self._read("read1", size))

    async def readinto(self, buffer: Any, /) -> int:
        """Reads into an object with the buffer protocol. Returns the number of bytes."""
        return int(await self._read("readinto", buffer))

    async def _open(self, stream: Any, number: int) -> Any:
        return await laio.open(number, "rb", closefd=False)

    def _encode(self, stream: Any, data: Any) -> bytes:
        return bytes(memoryview(data))


def _descriptor(stream: Any) -> int | None:
    try:
        return int(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):
        return None
