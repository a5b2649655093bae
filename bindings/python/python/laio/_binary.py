"""Buffered binary files."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from ._laio import Call
from ._raw import PIECE, RawFile, read_to_end

if TYPE_CHECKING:
    from ._types import Buffer

# The size of the buffer of a file, in bytes.
DEFAULT_BUFFER_SIZE = 64 * 1024


class BinaryFile(RawFile):
    """A binary file with a buffer, as ``io.BufferedReader``, ``BufferedWriter`` and ``BufferedRandom``.

    What was written reaches the kernel when the buffer is full, at ``flush``, before a read and at
    ``close``. If one of these is cancelled, the bytes stay in the buffer; a regular file gets them at
    the same place again, a stream may get some of them twice.
    """

    _size_of_buffer = DEFAULT_BUFFER_SIZE
    # Bytes that were read and not taken: those of `_ahead` from `_taken` on. `_position` is after them.
    _ahead = b""
    _taken = 0

    def _ahead_length(self) -> int:
        return len(self._ahead) - self._taken

    def _drop_ahead(self) -> None:
        """Forgets what was read and not taken."""
        if self._seekable:
            self._position -= len(self._ahead) - self._taken
        self._ahead = b""
        self._taken = 0

    async def _fetch(self, size: int) -> bytes:
        """Reads at most ``size`` bytes after those in the buffer, by one call."""
        descriptor = self._check_readable()
        if self._unwritten:
            await self.flush()
        if not self._seekable:
            result = descriptor.read(size)
            return await result if type(result) is Call else result
        result = descriptor.pread(min(size, PIECE), self._position)
        if type(result) is Call:
            result = await result
        self._position += len(result)
        return result

    async def read(self, size: int | None = -1, /) -> bytes:
        """Reads ``size`` bytes, or fewer at the end; all up to the end if it is negative or None."""
        if size is None or size < 0:
            return await self.readall()
        end = self._taken + size
        if end <= len(self._ahead):
            self._check_readable()
            piece = self._ahead[self._taken : end]
            self._taken = end
            return piece
        pieces = [self._ahead[self._taken :]]
        missing = size - len(pieces[0])
        # What the pieces hold stays in the buffer until all is there: a cancelled read loses nothing.
        while missing > 0:
            piece = await self._fetch(max(missing, self._size_of_buffer))
            if not piece:
                break
            pieces.append(piece)
            self._ahead = b"".join((self._ahead[self._taken :], piece))
            self._taken = 0
            missing -= len(piece)
        whole = self._ahead
        if missing < 0:
            taken = len(whole) + missing
            self._taken = taken
            return whole[:taken]
        start = self._taken
        self._ahead = b""
        self._taken = 0
        return whole[start:] if start else whole

    async def read1(self, size: int = -1, /) -> bytes:
        """Reads at most ``size`` bytes, by at most one call."""
        if size < 0:
            size = self._size_of_buffer
        if not self._ahead_length() and size:
            self._ahead = await self._fetch(max(size, self._size_of_buffer))
            self._taken = 0
        self._check_readable()
        piece = self._ahead[self._taken : self._taken + size]
        self._taken += len(piece)
        return piece

    async def peek(self, size: int = 0, /) -> bytes:
        """The bytes in the buffer, which stay there; reads once if there are none."""
        if not self._ahead_length():
            self._ahead = await self._fetch(self._size_of_buffer)
            self._taken = 0
        self._check_readable()
        return self._ahead[self._taken :]

    async def readall(self) -> bytes:
        """Reads up to the end."""
        descriptor = self._check_readable()
        if self._unwritten:
            await self.flush()
        if self._seekable:
            rest, self._position = await read_to_end(descriptor, self._position)
            start = self._ahead[self._taken :]
            self._ahead, self._taken = b"", 0
            return start + rest if start else rest
        while piece := await self._fetch(PIECE):
            self._ahead = b"".join((self._ahead[self._taken :], piece))
            self._taken = 0
        whole = self._ahead[self._taken :]
        self._ahead, self._taken = b"", 0
        return whole

    async def readinto(self, buffer: Buffer, /) -> int:
        """Fills a writable buffer. Returns the number of bytes, which is smaller only at the end."""
        self._check_readable()
        view = memoryview(buffer).cast("B")
        filled = min(self._ahead_length(), len(view))
        view[:filled] = self._ahead[self._taken : self._taken + filled]
        self._taken += filled
        if filled < len(view) and self._unwritten:
            await self.flush()
        while filled < len(view):
            count = await super().readinto(view[filled:])
            if count == 0:
                break
            filled += count
        return filled

    async def readinto1(self, buffer: Buffer, /) -> int:
        """Reads into a writable buffer, by at most one call. Returns the number of bytes."""
        view = memoryview(buffer).cast("B")
        piece = await self.read1(len(view))
        view[: len(piece)] = piece
        return len(piece)

    async def readline(self, size: int | None = -1, /) -> bytes:
        """Reads up to and with the next newline, at most ``size`` bytes if it is not negative."""
        most = -1 if size is None else size
        searched = 0
        while True:
            found = self._ahead.find(b"\n", self._taken + searched)
            if found >= 0:
                end = found + 1
                break
            searched = self._ahead_length()
            if 0 <= most <= searched:
                end = len(self._ahead)
                break
            piece = await self._fetch(self._size_of_buffer)
            if not piece:
                end = len(self._ahead)
                break
            self._ahead = self._ahead[self._taken :] + piece
            self._taken = 0
        self._check_readable()
        if most >= 0:
            end = min(end, self._taken + most)
        line = self._ahead[self._taken : end]
        self._taken = end
        return line

    async def write(self, data: Buffer, /) -> int:
        """Writes all of the bytes. Returns their number."""
        descriptor = self._check_writable()
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        if self._ahead:
            self._drop_ahead()
        view = data if type(data) is bytes else memoryview(data).cast("B")
        unwritten = self._unwritten
        if unwritten is None:
            unwritten = self._unwritten = bytearray()
        if not unwritten and len(view) >= self._size_of_buffer:
            return await self._write(descriptor, view)
        unwritten += view
        if len(unwritten) >= self._size_of_buffer:
            await self.flush()
        return len(view)

    async def flush(self) -> None:
        """Passes what was written to the kernel."""
        descriptor = self._open()
        unwritten = self._unwritten
        if unwritten:
            count = await self._write(descriptor, bytes(unwritten))
            del unwritten[:count]

    async def tell(self) -> int:
        """The position in bytes."""
        if not self._seekable:
            return await super().tell()
        self._open()
        return self._position - self._ahead_length() + len(self._unwritten or b"")

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves the position, in bytes. Returns the new one."""
        if self._unwritten:
            await self.flush()
        if self._ahead and self._seekable:
            self._drop_ahead()
        return await super().seek(offset, whence)

    async def truncate(self, size: int | None = None, /) -> int:
        self._check_writable()
        if self._unwritten:
            await self.flush()
        if self._ahead and self._seekable:
            self._drop_ahead()
        return await super().truncate(size)

    async def pread(self, size: int, offset: int, /) -> bytes:
        if self._unwritten:
            await self.flush()
        pread = self._pread
        result = pread(size, offset)
        return await result if type(result) is Call else result

    async def preadinto(self, buffer: Buffer, offset: int, /) -> int:
        if self._unwritten:
            await self.flush()
        return await super().preadinto(buffer, offset)

    async def pwrite(self, data: Buffer, offset: int, /) -> int:
        if self._unwritten:
            await self.flush()
        if self._ahead:
            self._drop_ahead()
        return await super().pwrite(data, offset)

    async def sendfile(self, to: object, offset: int = 0, count: int | None = None) -> int:
        if self._unwritten:
            await self.flush()
        return await super().sendfile(to, offset, count)

    async def sync(self, *, data_only: bool = False) -> None:
        if self._unwritten:
            await self.flush()
        await super().sync(data_only=data_only)

    async def close(self) -> None:
        """Passes what was written to the kernel, and closes the file, also if that fails."""
        if self._descriptor is None:
            return
        try:
            if self._unwritten:
                await self.flush()
        finally:
            await super().close()

    def detach(self) -> RawFile:
        raise io.UnsupportedOperation("detach")
