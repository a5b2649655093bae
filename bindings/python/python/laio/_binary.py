"""Buffered binary files."""

from __future__ import annotations


import os
from typing import TYPE_CHECKING

from . import _laio, _loops
from ._laio import Call
from ._raw import PIECE, RawFile, read_to_end

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from ._ranges import Ranges
    from ._types import Buffer

# The size of the buffer of a file, in bytes.
DEFAULT_BUFFER_SIZE = 64 * 1024


class BinaryFile(RawFile):
    """A binary file with a buffer, as ``io.BufferedReader``, ``BufferedWriter`` and ``BufferedRandom``.

    What was written reaches the kernel when the buffer is full, at ``flush``, before a read and at
    ``close``. If one of these fails or is cancelled, the bytes stay in the buffer, and the next one tries
    again; a regular file gets them at the same place again, a stream may get some of them twice.
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

    def _take_ahead(self) -> list[bytes]:
        """Takes what was read and not taken."""
        rest = self._ahead[self._taken :] if self._taken else self._ahead
        self._ahead, self._taken = b"", 0
        return [rest] if rest else []

    def _give_back(self, lines: list[bytes]) -> None:
        # `_position` is after them already.
        self._ahead = b"".join((*lines, self._ahead[self._taken :]))
        self._taken = 0

    async def read(self, size: int | None = -1, /) -> bytes:
        """Reads ``size`` bytes, or fewer at the end; all up to the end if it is negative or None."""
        if size is None or size < 0:
            return await self.readall()
        descriptor = self._check_readable()
        end = self._taken + size
        if end <= len(self._ahead) and not self._turn.is_taken:
            piece = self._ahead[self._taken : end]
            self._taken = end
            return piece
        async with self._turn:
            if self._unwritten:
                await self._pass_on(descriptor)
            return await self._read(descriptor, size)

    async def _read(self, descriptor: _laio.Descriptor, size: int) -> bytes:
        """Reads ``size`` bytes, or fewer at the end, with the turn."""
        pieces = self._take_ahead()
        missing = size - sum(map(len, pieces))
        try:
            while missing > 0:
                piece = await self._fetch(descriptor, max(missing, self._size_of_buffer))
                if not piece:
                    break
                pieces.append(piece)
                missing -= len(piece)
        except BaseException:
            self._give_back(pieces)
            raise
        whole = b"".join(pieces)
        if missing < 0:
            self._ahead, self._taken = whole, len(whole) + missing
            return whole[: self._taken]
        return whole

    async def read1(self, size: int = -1, /) -> bytes:
        """Reads at most ``size`` bytes, by at most one call."""
        descriptor = self._check_readable()
        if size < 0:
            size = self._size_of_buffer
        if self._turn.is_taken or not self._ahead_length():
            async with self._turn:
                await self._fill(descriptor, size)
        piece = self._ahead[self._taken : self._taken + size]
        self._taken += len(piece)
        return piece

    async def _fill(self, descriptor: _laio.Descriptor, size: int) -> None:
        """Reads ``size`` bytes if the buffer is empty: from a stream those that there are."""
        if self._unwritten:
            await self._pass_on(descriptor)
        if self._ahead_length() or not size:
            return
        if self._seekable and size > PIECE:
            self._give_back([await self._read(descriptor, size)])
        else:
            self._ahead = await self._fetch(descriptor, max(size, self._size_of_buffer))
            self._taken = 0

    async def peek(self, size: int = 0, /) -> bytes:
        """The bytes in the buffer, which stay there; reads once if there are none."""
        descriptor = self._check_readable()
        if self._turn.is_taken or not self._ahead_length():
            async with self._turn:
                await self._fill(descriptor, self._size_of_buffer)
        return self._ahead[self._taken :]

    async def readall(self) -> bytes:
        """Reads up to the end."""
        descriptor = self._check_readable()
        async with self._turn:
            if self._unwritten:
                await self._pass_on(descriptor)
            if self._seekable:
                rest, self._position = await read_to_end(descriptor, self._position)
                return b"".join((*self._take_ahead(), rest))
            pieces = self._take_ahead()
            try:
                while piece := await self._fetch(descriptor, PIECE):
                    pieces.append(piece)
            except BaseException:
                self._give_back(pieces)
                raise
            return b"".join(pieces)

    async def readinto(self, buffer: Buffer, /) -> int:
        """Fills a writable buffer. Returns the number of bytes, which is smaller only at the end."""
        view = writable(buffer)
        data = await self.read(len(view))
        view[: len(data)] = data
        return len(data)

    async def readinto1(self, buffer: Buffer, /) -> int:
        """Reads into a writable buffer, by at most one call. Returns the number of bytes."""
        view = writable(buffer)
        data = await self.read1(len(view))
        view[: len(data)] = data
        return len(data)

    async def readline(self, size: int | None = -1, /) -> bytes:
        """Reads up to and with the next newline, at most ``size`` bytes if it is not negative."""
        descriptor = self._check_readable()
        most = -1 if size is None else size
        if not self._turn.is_taken:
            end = self._ahead.find(b"\n", self._taken) + 1
            if end and not 0 <= most < end - self._taken:
                line = self._ahead[self._taken : end]
                self._taken = end
                return line
        async with self._turn:
            if self._unwritten:
                await self._pass_on(descriptor)
            return await self._read_line(descriptor, most)

    async def _read_line(self, descriptor: _laio.Descriptor, most: int) -> bytes:
        pieces = self._take_ahead()
        piece = pieces[0] if pieces else b""
        before = 0
        try:
            while True:
                length = piece.find(b"\n") + 1
                if length or 0 <= most <= before + len(piece):
                    break
                before += len(piece)
                piece = await self._fetch(descriptor, self._size_of_buffer)
                if not piece:
                    break
                pieces.append(piece)
        except BaseException:
            self._give_back(pieces)
            raise
        end = before + (length or len(piece))
        if 0 <= most < end:
            end = most
        self._ahead, self._taken = b"".join(pieces), end
        return self._ahead[:end]

    async def write(self, data: Buffer, /) -> int:
        """Writes all of the bytes. Returns their number.

        If it raises an exception, none of them is in the buffer; of as many as the buffer holds, or more,
        those that fit may have been written.
        """
        descriptor = self._check_writable()
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        view = data if type(data) is bytes else memoryview(data).cast("B")
        unwritten = self._unwritten
        if unwritten is None:
            unwritten = self._unwritten = bytearray()
        length = len(view)
        if self._ahead or self._turn.is_taken or len(unwritten) + length >= self._size_of_buffer:
            async with self._turn:
                if self._ahead:
                    self._drop_ahead()
                if len(unwritten) + length > self._size_of_buffer:
                    await self._pass_on(descriptor)
                if length >= self._size_of_buffer:
                    await self._pass_on(descriptor)
                    return await self._write(descriptor, view)
                unwritten += view
                return length
        unwritten += view
        return length

    async def flush(self) -> None:
        """Passes what was written to the kernel.

        If only a part fits, the rest stays in the buffer, and this and each later flush raises the error.
        """
        descriptor = self._open()
        if self._unwritten:
            async with self._turn:
                await self._pass_on(descriptor)

    async def _pass_on(self, descriptor: _laio.Descriptor) -> None:
        """Passes what was written to the kernel, with the turn."""
        unwritten = self._unwritten
        if not unwritten:
            return
        while unwritten:
            count = await self._write_part(descriptor, bytes(unwritten))
            del unwritten[:count]
        await self._find_end()

    async def tell(self) -> int:
        """The position in bytes."""
        if not self._seekable:
            return await super().tell()
        self._open()
        if self._turn.is_taken:
            async with self._turn:
                pass
        return self._position - self._ahead_length() + len(self._unwritten or b"")

    async def _seek(self, offset: int, whence: int) -> int:
        if self._unwritten:
            await self._pass_on(self._open())
        if self._ahead:
            if whence == os.SEEK_CUR:
                offset -= self._ahead_length()
            new = await super()._seek(offset, whence)
            # Moved, so they are no longer before the position.
            self._ahead, self._taken = b"", 0
            return new
        return await super()._seek(offset, whence)

    async def truncate(self, size: int | None = None, /) -> int:
        """Sets the length of the file; by default to the position, which stays. Returns it."""
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

    async def read_ranges(
        self,
        ranges: Iterable[tuple[int, int]],
        *,
        direct: Literal["never", "auto", "always"] = "auto",
        depth: int = 64,
    ) -> Ranges:
        if self._unwritten:
            await self.flush()
        return await super().read_ranges(ranges, direct=direct, depth=depth)

    async def pwrite(self, data: Buffer, offset: int, /) -> int:
        async with self._turn:
            if self._unwritten:
                await self._pass_on(self._open())
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
                # A stream may never take it.
                with _loops.shielded() if self._seekable else _loops.NOTHING:
                    await self.flush()
        finally:
            await super().close()

    async def detach(self) -> RawFile:
        """Passes what was written to the kernel. Returns the file without its buffer, and ends this object.

        Unlike that of `io`, it loses nothing that was read ahead.
        """
        descriptor = self._open()
        await self.flush()
        raw = RawFile(
            descriptor,
            self.name,
            self.mode,
            self._readable,
            self._writable,
            self._appending,
            self._seekable,
        )
        ahead = self._take_ahead()
        raw._position = self._position
        raw._give_back(ahead)
        self._descriptor = None
        return raw


def writable(buffer: Buffer) -> memoryview:
    """The bytes of a buffer that can be written."""
    view = memoryview(buffer).cast("B")
    if view.readonly:
        raise TypeError("a read-write bytes-like object is required")
    return view
