"""Unbuffered binary files: a coroutine for each system call."""

from __future__ import annotations

import errno
import io
import os
import warnings
from typing import TYPE_CHECKING, Any

from . import _laio
from ._laio import Call
from ._ranges import Ranges
from ._stream import Stream, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from ._types import Buffer

# A larger read or write is made in pieces, between which the event loop runs. In bytes.
PIECE = 1024 * 1024
# How far a line of an unbuffered file is looked for at once, in bytes.
LINE = 4096


class RawFile(Stream[bytes]):
    """A file without buffers, as ``io.FileIO``.

    A regular file has its position here, not in the kernel: programs that share the descriptor do not
    see it. If a coroutine is cancelled, the position has not moved.
    """

    _descriptor: _laio.Descriptor | None
    _position: int

    def __init__(
        self,
        descriptor: _laio.Descriptor,
        name: Any,
        mode: str,
        readable: bool,
        writable: bool,
        appending: bool,
        seekable: bool,
    ) -> None:
        self._descriptor = descriptor
        self.name = name
        self.mode = mode
        self._readable = readable
        self._writable = writable
        self._appending = appending
        self._seekable = seekable
        self._position = 0
        # Bytes that were written to the buffer, if there is one, and have not reached the kernel. `_position`
        # is before them. Python finds attributes of the object faster than those of the class.
        self._unwritten: bytearray | None = None
        # Of calls that depend on the position, or move it.
        self._turn = Turn()
        # Without a look at the mode for each call. A closed descriptor refuses by itself.
        self._pread = descriptor.pread if readable else self._refuse_to_read

    def _check_open(self) -> None:
        self._open()

    def _open(self) -> _laio.Descriptor:
        if self._descriptor is None:
            raise ValueError("I/O operation on closed file.")
        return self._descriptor

    def _refuse_to_read(self, size: int, offset: int, /) -> bytes:
        self._check_readable()
        raise AssertionError("it is not readable")

    def _check_readable(self) -> _laio.Descriptor:
        descriptor = self._open()
        if not self._readable:
            raise io.UnsupportedOperation("not readable")
        return descriptor

    def _check_writable(self) -> _laio.Descriptor:
        descriptor = self._open()
        if not self._writable:
            raise io.UnsupportedOperation("not writable")
        return descriptor

    @property
    def closed(self) -> bool:
        return self._descriptor is None

    def fileno(self) -> int:
        return self._open().fileno()

    def isatty(self) -> bool:
        return os.isatty(self.fileno())

    def readable(self) -> bool:
        self._open()
        return self._readable

    def writable(self) -> bool:
        self._open()
        return self._writable

    def seekable(self) -> bool:
        self._open()
        return self._seekable

    async def read(self, size: int | None = -1, /) -> bytes:
        """Reads at most ``size`` bytes by one call; all up to the end if it is negative or None."""
        if size is None or size < 0:
            return await self.readall()
        descriptor = self._check_readable()
        if not self._seekable:
            result = descriptor.read(size)
            return await result if type(result) is Call else result
        async with self._turn:
            return await self._fetch(descriptor, size)

    async def _fetch(self, descriptor: _laio.Descriptor, size: int) -> bytes:
        """Reads at most ``size`` bytes by one call, with the turn if the file has a position."""
        if not self._seekable:
            result = descriptor.read(size)
            return await result if type(result) is Call else result
        result = descriptor.pread(min(size, PIECE), self._position)
        if type(result) is Call:
            result = await result
        self._position += len(result)
        return result

    async def readall(self) -> bytes:
        """Reads up to the end."""
        descriptor = self._check_readable()
        if self._seekable:
            async with self._turn:
                whole, self._position = await read_to_end(descriptor, self._position)
                return whole
        pieces: list[bytes] = []
        try:
            while piece := await self._fetch(descriptor, PIECE):
                pieces.append(piece)
        except BaseException:
            self._give_back(pieces)
            raise
        return b"".join(pieces)

    async def readline(self, size: int | None = -1, /) -> bytes:
        """Reads up to and with the next newline, at most ``size`` bytes if it is not negative.

        From a stream it reads each byte by a call of its own, because a call may not read more.
        """
        descriptor = self._check_readable()
        most = -1 if size is None else size
        if self._seekable:
            async with self._turn:
                line = await self._line_at(descriptor, self._position, most)
                self._position += len(line)
                return line
        found: list[bytes] = []
        try:
            while most < 0 or len(found) < most:
                piece = await self._fetch(descriptor, 1)
                found.append(piece)
                if piece in (b"", b"\n"):
                    break
        except BaseException:
            self._give_back(found)
            raise
        return b"".join(found)

    async def _line_at(self, descriptor: _laio.Descriptor, position: int, most: int) -> bytes:
        line = bytearray()
        while most < 0 or len(line) < most:
            length = LINE if most < 0 else min(LINE, most - len(line))
            result = descriptor.pread(length, position + len(line))
            piece = await result if type(result) is Call else result
            line += piece[: piece.find(b"\n") + 1 or len(piece)]
            if not piece or line.endswith(b"\n"):
                break
        return bytes(line)

    def _give_back(self, lines: list[bytes]) -> None:
        if self._seekable:
            self._position -= sum(map(len, lines))
        elif lines and self._descriptor is not None:
            self._descriptor.give_back(b"".join(lines))

    async def readinto(self, buffer: Buffer, /) -> int:
        """Reads by one call into a writable buffer. Returns the number of bytes; 0 at the end."""
        descriptor = self._check_readable()
        view = memoryview(buffer).cast("B")
        if not self._seekable:
            result = descriptor.read_into(view)
            return await result if type(result) is Call else result
        async with self._turn:
            result = descriptor.pread_into(view[:PIECE], self._position)
            if type(result) is Call:
                result = await result
            self._position += result
            return result

    async def write(self, data: Buffer, /) -> int:
        """Writes all of the bytes. Returns their number.

        If only a part fits, that part is written, and the error is raised.
        """
        descriptor = self._check_writable()
        if not self._seekable:
            return await self._write(descriptor, data)
        async with self._turn:
            return await self._write(descriptor, data)

    async def _write(self, descriptor: _laio.Descriptor, data: Buffer) -> int:
        """Writes all of the bytes, with the turn if the file has a position."""
        view = data if type(data) is bytes else memoryview(data).cast("B")
        done = await self._write_part(descriptor, view)
        while done < len(view):
            done += await self._write_part(descriptor, memoryview(view)[done:])
        await self._find_end()
        return done

    async def _write_part(self, descriptor: _laio.Descriptor, data: Buffer) -> int:
        """Writes bytes by one call, which writes fewer than all only if an error is next. Returns how many."""
        if self._appending or not self._seekable:
            result = descriptor.write(data)
            return progress(await result if type(result) is Call else result, data)
        result = descriptor.pwrite(data, self._position)
        count = progress(await result if type(result) is Call else result, data)
        self._position += count
        return count

    async def _find_end(self) -> None:
        """Moves the position of a file that is appended to behind what was written."""
        if self._appending and self._seekable:
            self._position = await self._size()

    async def _size(self) -> int:
        result = self._open().stat()
        status = await result if type(result) is Call else result
        return status.st_size

    async def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves the position, in bytes. Returns the new one."""
        self._open()
        if not self._seekable:
            raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))
        async with self._turn:
            return await self._seek(offset, whence)

    async def _seek(self, offset: int, whence: int) -> int:
        """Moves the position, with the turn."""
        if whence == os.SEEK_SET:
            new = offset
        elif whence == os.SEEK_CUR:
            new = self._position + offset
        elif whence == os.SEEK_END:
            new = await self._size() + offset
        else:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if new < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = new
        return new

    async def tell(self) -> int:
        """The position in bytes."""
        return await self.seek(0, os.SEEK_CUR)

    async def truncate(self, size: int | None = None, /) -> int:
        """Sets the length of the file; by default to the position, which stays. Returns it."""
        descriptor = self._check_writable()
        if size is None:
            size = await self.tell()
        if size < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        result = descriptor.truncate(size)
        if type(result) is Call:
            await result
        return size

    async def pread(self, size: int, offset: int, /) -> bytes:
        """Reads at most ``size`` bytes at ``offset``. The position stays."""
        # In a variable, because Python finds an attribute faster than a method that is none of the class.
        pread = self._pread
        result = pread(size, offset)
        return await result if type(result) is Call else result

    async def preadinto(self, buffer: Buffer, offset: int, /) -> int:
        """Reads at ``offset`` into a writable buffer. Returns the number of bytes."""
        result = self._check_readable().pread_into(buffer, offset)
        return await result if type(result) is Call else result

    async def read_ranges(
        self,
        ranges: Iterable[tuple[int, int]],
        *,
        direct: Literal["never", "auto", "always"] = "auto",
        depth: int = 64,
    ) -> Ranges:
        """Reads ranges, each a pair ``(start, stop)``, in any order. The position stays.

        Near ranges are read together, large ones in pieces, ``depth`` at a time. ``direct`` says whether
        reads bypass the page cache: ``"auto"`` does so for files larger than half of the memory.
        """
        result = self._check_readable().read_ranges(list(ranges), direct, depth)
        return Ranges(*(await result if type(result) is Call else result))

    async def pwrite(self, data: Buffer, offset: int, /) -> int:
        """Writes all of the bytes at ``offset``. The position stays."""
        descriptor = self._check_writable()
        view = data if type(data) is bytes else memoryview(data).cast("B")
        done = 0
        while True:
            result = descriptor.pwrite(memoryview(view)[done:] if done else view, offset + done)
            done += progress(await result if type(result) is Call else result, view)
            if done >= len(view):
                return done

    async def sendfile(self, to: int | Any, offset: int = 0, count: int | None = None) -> int:
        """Sends ``count`` bytes, by default all, from ``offset`` to a socket, pipe or file.

        ``to``: a descriptor's number, or an object with ``fileno()``. Returns the number of bytes sent,
        which is smaller only at the end of the file.
        """
        descriptor = self._check_readable()
        number = to if isinstance(to, int) else to.fileno()
        sent = 0
        while count is None or sent < count:
            most = PIECE if count is None else min(PIECE, count - sent)
            result = descriptor.sendfile(number, offset + sent, most)
            piece = await result if type(result) is Call else result
            if piece == 0:
                break
            sent += piece
        return sent

    async def stat(self) -> os.stat_result:
        """The status of the file."""
        result = self._open().stat()
        return await result if type(result) is Call else result

    async def sync(self, *, data_only: bool = False) -> None:
        """Waits until the contents have reached the device (``fsync``, or ``fdatasync``)."""
        descriptor = self._open()
        result = descriptor.fdatasync() if data_only else descriptor.fsync()
        if type(result) is Call:
            await result

    async def flush(self) -> None:
        """Does nothing but to check that the file is open."""
        self._open()

    async def close(self) -> None:
        """Closes the file. More than once is harmless."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            result = descriptor.close()
            if type(result) is Call:
                await result

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            warnings.warn(f"unclosed file {self!r}", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<laio.{type(self).__name__} name={self.name!r} mode={self.mode!r} {state}>"


def progress(count: int, data: Buffer) -> int:
    """The number of bytes that a call has written: 0 of some would let a program write for ever."""
    if count == 0 and len(data) > 0:
        raise OSError(errno.EIO, "the file took none of the bytes, and there was no error")
    return count


async def read_to_end(descriptor: _laio.Descriptor, position: int) -> tuple[bytes, int]:
    """Reads a regular file from ``position`` on. Returns the bytes and the position after them."""
    # One more byte shows that nothing follows. Files of /proc say that they are empty.
    size = descriptor.size_at_open
    expected = max(size - position + 1, 4096)
    pieces: list[bytes] = []
    while True:
        length = min(expected, PIECE)
        result = descriptor.pread(length, position)
        piece = await result if type(result) is Call else result
        position += len(piece)
        if not piece or size and len(piece) < length:
            if not pieces:
                return piece, position
            pieces.append(piece)
            return b"".join(pieces), position
        pieces.append(piece)
        expected = max(expected - len(piece), PIECE)
