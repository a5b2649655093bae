"""Temporary files in memory, until they are large."""

from __future__ import annotations

import io
from typing import Any

from .._open import Opening
from .._stream import Stream
from ._files import TemporaryFile

def SpooledTemporaryFile(
    max_size: int = 0,
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
    """Opens a file that is in memory until it has more than ``max_size`` bytes (0: however many)."""

    def open() -> Opening[Any]:
        return TemporaryFile(
            mode, buffering, encoding, newline, suffix, prefix, dir, errors=errors
        )

    memory: Any = io.BytesIO()
    if "b" not in mode:
        memory = io.TextIOWrapper(memory, encoding, errors, newline)
    return Opening(_ready(SpooledFile(memory, max_size, mode, open)))


async def _ready(file: SpooledFile) -> Any:
    return file


class SpooledFile(Stream[Any]):
    """A file in memory, or, after `rollover`, a file of `laio.open`."""

    def __init__(self, memory: Any, max_size: int, mode: str, open: Any) -> None:
        #: What holds the data: an object of `io`, then a file of `laio.open`.
        self.file = memory
        self._max_size = max_size
        self._mode = mode
        self._open = open
        self._rolled = False

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return bool(self.file.closed)

    @property
    def name(self) -> Any:
        """The number of the descriptor; `None` while the file is in memory."""
        return self.file.name if self._rolled else None

    @property
    def mode(self) -> str:
        """The mode that the program has opened the file with."""
        return self._mode

    @property
    def encoding(self) -> Any:
        """The encoding of a text."""
        return self.file.encoding

    @property
    def errors(self) -> Any:
        """What is done with characters that cannot be encoded."""
        return self.file.errors

    @property
    def newlines(self) -> Any:
        """The line ends that were read from a text."""
        return self.file.newlines

    def readable(self) -> bool:
        """Whether the file can be read."""
        return bool(self.file.readable())

    def writable(self) -> bool:
        """Whether the file can be written."""
        return bool(self.file.writable())

    def seekable(self) -> bool:
        """Whether the file has a position: True."""
        return bool(self.file.seekable())

    def isatty(self) -> bool:
        """Whether the file is a terminal: False."""
        return False

    async def rollover(self) -> None:
        """Moves the file out of memory."""
        if self._rolled:
            return
        memory = self.file
        if memory.closed:
            raise ValueError("I/O operation on closed file.")
        file = await self._open()
        try:
            if isinstance(memory, io.BytesIO):
                await file.write(memory.getvalue())
                await file.seek(memory.tell())
            else:
                # Positions in a text are not those of another object: count its characters.
                left = len(memory.read())
                memory.seek(0)
                before = len(memory.read()) - left
                await file.buffer.write(memory.buffer.getvalue())
                await file.seek(0)
                await file.read(before)
        except BaseException:
            await file.close()
            raise
        self.file = file
        self._rolled = True

    async def fileno(self) -> int:
        """Moves the file out of memory, and returns the number of its descriptor."""
        await self.rollover()
        return int(self.file.fileno())

    async def read(self, size: int | None = -1, /) -> Any:
        """As the method of a file of `laio.open`."""
        return await self._call("read", size)

    async def readline(self, size: int | None = -1, /) -> Any:
        """As the method of a file of `laio.open`."""
        return await self._call("readline", -1 if size is None else size)

    async def readlines(self, hint: int | None = -1, /) -> list[Any]:
        """As the method of a file of `laio.open`."""
        return list(await self._call("readlines", -1 if hint is None else hint))

    def _give_back(self, lines: list[Any]) -> None:
        raise AssertionError("the file reads lines by itself")

    async def readinto(self, buffer: Any, /) -> int:
        """As the method of a file of `laio.open`."""
        return int(await self._call("readinto", buffer))

    async def seek(self, offset: int, whence: int = 0, /) -> int:
        """As the method of a file of `laio.open`."""
        return int(await self._call("seek", offset, whence))

    async def tell(self) -> int:
        """As the method of a file of `laio.open`."""
        return int(await self._call("tell"))

    async def flush(self) -> None:
        """As the method of a file of `laio.open`."""
        await self._call("flush")

    async def truncate(self, size: int | None = None, /) -> int:
        """As the method of a file of `laio.open`. A size above the limit moves the file out of memory."""
        if size is not None and self._max_size and size > self._max_size:
            await self.rollover()
        return int(await self._call("truncate", size))

    async def write(self, data: Any, /) -> int:
        """As the method of a file of `laio.open`. May move the file out of memory."""
        count = await self._call("write", data)
        await self._check()
        return int(count)

    async def close(self) -> None:
        """Closes the file, and forgets its data."""
        await self._call("close")

    async def _check(self) -> None:
        if not self._rolled and self._max_size and self.file.tell() > self._max_size:
            await self.rollover()

    async def _call(self, name: str, *arguments: Any) -> Any:
        result = getattr(self.file, name)(*arguments)
        return await result if self._rolled else result
