"""Text files."""

from __future__ import annotations

import codecs
import io
import locale
import os
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from ._binary import BinaryFile
from ._place import Place, find
from ._stream import Stream, Turn

# How many bytes are decoded at once: as many as by `io`, so that what is written after a read goes to the
# same place.
CHUNK = 8192

_Result = TypeVar("_Result")


@dataclass(slots=True)
class Chunk:
    """A part of the file, decoded."""

    text: str
    #: The state of the decoder before it, without the bytes that it held.
    flags: int
    #: The bytes that the decoder held, and those of the part.
    input: bytes
    #: The number of bytes of the part.
    length: int


class TextFile(Stream[str]):
    """A text file, as ``io.TextIOWrapper``, around a :class:`BinaryFile`.

    What is read, where a write after it goes, and what `tell` returns follows from how `io` divides the file
    into chunks, so the steps of the methods are those of ``Lib/_pyio.py`` and ``Modules/_io/textio.c``.
    """

    def __init__(
        self,
        buffer: BinaryFile,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        line_buffering: bool = False,
    ) -> None:
        if newline not in (None, "", "\n", "\r", "\r\n"):
            raise ValueError(f"illegal newline value: {newline!r}")
        if encoding is None or encoding == "locale":
            encoding = locale.getpreferredencoding(False)
        info = codecs.lookup(encoding)
        if not info._is_text_encoding:
            raise LookupError(
                f"{encoding!r} is not a text encoding; use codecs.open() to handle arbitrary codecs"
            )
        self.buffer = buffer
        self.encoding = encoding
        self.errors = errors or "strict"
        self.line_buffering = line_buffering
        self._newline = newline
        self._translates = newline is None
        self._write_newline = None if newline in (None, "", "\n") else newline
        self._decoder: Any = self._new_decoder() if buffer.readable() else None
        self._encoder: Any = None
        self._encodes_start = buffer._position == 0
        self._turn = Turn()
        # Reads take the text of `_text` from `_taken` on. It was decoded from the bytes, by a decoder with
        # the flags, in `_source`; if that is None, the next text begins where the buffer stands.
        self._text = ""
        self._taken = 0
        self._source: tuple[int, bytes] | None = None
        # The bytes of a character, on average, in the chunk that was decoded last.
        self._ratio = 0.0
        # The chunks that a read has gone through, and those that a cancelled read has left for the next one.
        self._used: list[Chunk] = []
        self._next: deque[Chunk] = deque()

    def _new_decoder(self) -> Any:
        decoder = codecs.getincrementaldecoder(self.encoding)(self.errors)
        if self._newline in (None, ""):
            return io.IncrementalNewlineDecoder(decoder, self._translates)
        return decoder

    @property
    def name(self) -> Any:
        return self.buffer.name

    @property
    def mode(self) -> str:
        return self.buffer.mode.replace("b", "")

    @property
    def closed(self) -> bool:
        return self.buffer.closed

    @property
    def newlines(self) -> Any:
        return getattr(self._decoder, "newlines", None)

    def fileno(self) -> int:
        return self.buffer.fileno()

    def isatty(self) -> bool:
        return self.buffer.isatty()

    def readable(self) -> bool:
        return self.buffer.readable()

    def writable(self) -> bool:
        return self.buffer.writable()

    def seekable(self) -> bool:
        return self.buffer.seekable()

    def _check_open(self) -> None:
        self.buffer._open()

    def _check_readable(self) -> Any:
        if self._decoder is None:
            self.buffer._open()
            raise io.UnsupportedOperation("not readable")
        return self._decoder

    async def _undoable(self, read: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Makes a read. If it is cancelled or fails, what it has taken is there for the next one."""
        async with self._turn:
            before = self._text, self._taken, self._source, self._ratio
            try:
                return await read()
            except UnicodeError:
                # To decode it once more would fail again.
                raise
            except BaseException:
                self._next.extendleft(reversed(self._used))
                self._text, self._taken, self._source, self._ratio = before
                raise
            finally:
                self._used.clear()

    async def _decode(self, hint: int = 0) -> bool:
        """Goes to the next chunk, where ``hint`` characters are wanted. Returns False at the end."""
        if self._next:
            chunk = self._next.popleft()
        else:
            decoder = self._check_readable()
            size = max(CHUNK, int(max(self._ratio, 1.0) * hint))
            # Of a file, as much as one call of `io` reads, which passes its buffer by.
            read = self.buffer.read if self.buffer._seekable else self.buffer.read1
            data = await read(size)
            held, flags = decoder.getstate()
            chunk = Chunk(decoder.decode(data, not data), flags, held + data, len(data))
        self._used.append(chunk)
        self._text, self._taken = chunk.text, 0
        self._source = chunk.flags, chunk.input
        self._ratio = chunk.length / len(chunk.text) if chunk.text else 0.0
        # At the end, there may be text for bytes that the decoder held.
        return bool(chunk.length or chunk.text)

    def _take(self, size: int) -> str:
        text = self._text[self._taken : self._taken + size]
        self._taken += len(text)
        return text

    async def read(self, size: int | None = -1, /) -> str:
        """Reads ``size`` characters, or fewer at the end; all up to the end if it is negative or None."""
        self._check_readable()
        if size is None or size < 0:
            return await self._undoable(self._read_all)
        if size <= len(self._text) - self._taken and not self._turn.is_taken:
            self._check_open()
            return self._take(size)
        most = size
        return await self._undoable(lambda: self._read(most))

    async def _read_all(self) -> str:
        data = await self.buffer.readall()
        decoded: str = self._decoder.decode(data, True)
        text = "".join((self._text[self._taken :], *(chunk.text for chunk in self._next), decoded))
        self._next.clear()
        self._forget_text()
        return text

    async def _read(self, size: int) -> str:
        pieces = [self._take(size)]
        missing = size - len(pieces[0])
        while missing > 0 and await self._decode(missing):
            pieces.append(self._take(missing))
            missing -= len(pieces[-1])
        self._check_open()
        return "".join(pieces)

    async def readline(self, size: int | None = -1, /) -> str:
        """Reads up to and with the next line end, at most ``size`` characters if it is not negative."""
        self._check_readable()
        most = -1 if size is None else size
        if not self._turn.is_taken:
            end = self._line_end(self._text, self._taken)
            if end >= 0 and not 0 <= most < end - self._taken:
                self._check_open()
                line = self._text[self._taken : end]
                self._taken = end
                return line
        return await self._undoable(lambda: self._read_line(most))

    async def _read_line(self, most: int) -> str:
        pieces: list[str] = []
        total = 0
        # The carriage return at the end of a chunk, if it may be the first half of a line end.
        half = ""
        while True:
            while not self._text:
                if not await self._decode():
                    self._forget_text()
                    self._check_open()
                    return "".join((*pieces, half))
            line = half + self._text
            start = 0 if half else self._taken
            end = self._line_end(line, start)
            is_whole = end >= 0
            if not is_whole:
                end = len(line) - (self._newline == "\r\n" and line.endswith("\r", start))
            if 0 <= most <= total + end - start:
                end = start + most - total
                is_whole = True
            pieces.append(line[start:end])
            if is_whole:
                self._check_open()
                self._taken = end - len(half)
                return "".join(pieces)
            total += end - start
            half = line[end:]
            self._text, self._taken = "", 0

    def _line_end(self, text: str, start: int) -> int:
        """Where the line ends that begins at ``start``; -1 if the text does not say."""
        newline = self._newline
        if newline is None or newline == "\n":
            return text.find("\n", start) + 1 or -1
        if newline:
            found = text.find(newline, start)
            return found + len(newline) if found >= 0 else -1
        feed = text.find("\n", start)
        carriage = text.find("\r", start, feed if feed >= 0 else len(text))
        if carriage < 0:
            return feed + 1 or -1
        # The decoder never ends with half of "\r\n".
        return carriage + 2 if text.startswith("\n", carriage + 1) else carriage + 1

    async def readlines(self, hint: int | None = -1, /) -> list[str]:
        self._check_readable()
        return await self._undoable(lambda: self._read_lines(hint))

    async def _read_lines(self, hint: int | None) -> list[str]:
        lines: list[str] = []
        total = 0
        while line := await self._read_line(-1):
            lines.append(line)
            total += len(line)
            if hint is not None and 0 < hint < total:
                break
        return lines

    def _give_back(self, lines: list[str]) -> None:
        raise AssertionError("reads of text are undone as a whole")

    async def __anext__(self) -> str:
        # The fast case of `readline`: the line is in memory.
        if self._newline is None:
            end = self._text.find("\n", self._taken) + 1
            if end and not self._turn.is_taken and not self.buffer.closed:
                line = self._text[self._taken : end]
                self._taken = end
                return line
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    async def write(self, text: str, /) -> int:
        """Writes a text. Returns the number of its characters."""
        self.buffer._check_writable()
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._turn.is_taken:
            async with self._turn:
                pass
        length = len(text)
        ends_line = self.line_buffering and ("\n" in text or "\r" in text)
        if self._write_newline is not None:
            text = text.replace("\n", self._write_newline)
        encoder = self._encoder
        if encoder is None:
            encoder = self._encoder = codecs.getincrementalencoder(self.encoding)(self.errors)
            if not self._encodes_start:
                # No mark of the byte order but at the start.
                encoder.setstate(0)
        state = encoder.getstate()
        data = encoder.encode(text)
        if self._source is not None or self._text:
            self._return_chunks()
            self._forget_text()
        if self._decoder is not None:
            self._decoder.reset()
        try:
            await self.buffer.write(data)
        except BaseException:
            if self._encoder is encoder:
                encoder.setstate(state)
            raise
        if ends_line:
            await self.flush()
        return length

    def _return_chunks(self) -> None:
        """Gives what a cancelled read has left back to the buffer."""
        if not self._next:
            return
        first = self._next[0]
        held = first.input[: len(first.input) - first.length]
        self._decoder.setstate((held, first.flags))
        self.buffer._give_back([chunk.input[len(chunk.input) - chunk.length :] for chunk in self._next])
        self._next.clear()

    async def flush(self) -> None:
        """Passes what was written to the kernel."""
        await self.buffer.flush()

    async def tell(self) -> int:
        """The place in the text, for :meth:`seek`; not a number of characters or bytes."""
        self._check_seekable()
        async with self._turn:
            return await self._tell()

    async def _tell(self) -> int:
        await self.flush()
        self._return_chunks()
        position = await self.buffer.tell()
        if self._decoder is None or self._source is None:
            return position
        flags, data = self._source
        if self._taken and self._taken == len(self._text):
            held, now = self._decoder.getstate()
            if not held:
                return Place(position, now).packed()
        start = Place(position - len(data), flags)
        place = find(self._decoder, start, data, self._taken, self._ratio)
        return place.packed()

    def _check_seekable(self) -> None:
        self._check_open()
        if not self.buffer._seekable:
            raise io.UnsupportedOperation("underlying stream is not seekable")

    async def seek(self, place: int, whence: int = os.SEEK_SET, /) -> int:
        """Goes to a place that :meth:`tell` has returned; or, with 0, to the start or the end."""
        self._check_seekable()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if whence != os.SEEK_SET and place != 0:
            name = "cur" if whence == os.SEEK_CUR else "end"
            raise io.UnsupportedOperation(f"can't do nonzero {name}-relative seeks")
        async with self._turn:
            if whence == os.SEEK_CUR:
                place = await self._tell()
            if place < 0:
                raise ValueError(f"negative seek position {place}")
            await self.flush()
            self._return_chunks()
            if whence == os.SEEK_END:
                end = await self.buffer.seek(0, os.SEEK_END)
                self._restart(Place(end), None)
                return end
            await self._go_to(Place.unpacked(place))
            return place

    async def _go_to(self, place: Place) -> None:
        # Read before anything changes, so that a cancelled seek has moved nothing.
        data = b""
        if place.characters:
            data = await self.buffer.pread(place.bytes, place.position)
        await self.buffer.seek(place.position + len(data))
        self._restart(place, (place.flags, data))
        if self._decoder is None:
            return
        if place.position or place.flags:
            self._decoder.setstate((b"", place.flags))
        if place.characters:
            self._text = self._decoder.decode(data, place.needs_end)
            if len(self._text) < place.characters:
                raise OSError("can't restore logical file position")
            self._taken = place.characters

    def _restart(self, place: Place, source: tuple[int, bytes] | None) -> None:
        self._forget_text()
        self._source = source
        if self._decoder is not None:
            self._decoder.reset()
        self._encodes_start = place.position == 0 and place.flags == 0
        self._encoder = None

    def _forget_text(self) -> None:
        self._text = ""
        self._taken = 0
        self._source = None

    async def truncate(self, size: int | None = None, /) -> int:
        """Sets the length of the file in bytes; by default to where the buffer stands, as `io` does."""
        self._check_open()
        async with self._turn:
            await self.flush()
            self._return_chunks()
            return await self.buffer.truncate(size)

    async def close(self) -> None:
        """Passes what was written to the kernel, and closes the file, also if that fails."""
        await self.buffer.close()

    async def detach(self) -> BinaryFile:
        """Passes what was written to the kernel. Returns the binary file, and ends this object."""
        await self.flush()
        buffer, self.buffer = self.buffer, _DETACHED
        return buffer

    def __repr__(self) -> str:
        if self.buffer is _DETACHED:
            return "<laio.TextFile detached>"
        return f"<laio.TextFile name={self.name!r} mode={self.mode!r} encoding={self.encoding!r}>"


class _Detached:
    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError("underlying buffer has been detached")


# What a file has in place of its buffer after `detach`.
_DETACHED: Any = _Detached()
