"""Text files."""

from __future__ import annotations

import codecs
import io
import locale
import os
from typing import Any

from ._binary import BinaryFile
from ._stream import Stream

# How many bytes are decoded at once.
CHUNK = 64 * 1024
# A place in a text is one number: the byte where a decoder begins, in its lower bits, and how far and
# in which state it goes on from there.
_POSITION_BITS = 64
_STATE_BITS = 64
_SKIP_BITS = 32


class TextFile(Stream[str]):
    """A text file, as ``io.TextIOWrapper``, around a :class:`BinaryFile`."""

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
        # Decoded and not taken: `_text` from `_taken` on. It begins at byte `_start` with the decoder in
        # state `_state`, from the bytes `_input`.
        self._text = ""
        self._taken = 0
        self._start = 0
        self._state = 0
        self._held = b""
        self._input = b""

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

    async def _decode_more(self) -> bool:
        """Decodes the next bytes. Returns whether there may be more."""
        decoder = self._check_readable()
        data = await self.buffer.read1(CHUNK)
        if self.buffer._seekable:
            self._remember(decoder, data)
        rest = self._text[self._taken :]
        self._text = rest + decoder.decode(data, not data)
        self._taken = 0
        return bool(data)

    def _remember(self, decoder: Any, data: bytes) -> None:
        """Keeps from where the decoded text comes, for ``tell``."""
        if self._taken == len(self._text):
            held, self._state = decoder.getstate()
            self._start = self.buffer._position - self.buffer._ahead_length() - len(data) - len(held)
            self._held = held
            self._input = held + data
        else:
            self._input += data

    async def read(self, size: int | None = -1, /) -> str:
        """Reads ``size`` characters, or fewer at the end; all up to the end if it is negative or None."""
        decoder = self._check_readable()
        if size is None or size < 0:
            data = await self.buffer.readall()
            text: str = self._text[self._taken :] + decoder.decode(data, True)
            self._forget_text()
            return text
        while len(self._text) - self._taken < size:
            if not await self._decode_more():
                break
        self.buffer._open()
        text = self._text[self._taken : self._taken + size]
        self._taken += len(text)
        return text

    async def readline(self, size: int | None = -1, /) -> str:
        """Reads up to and with the next line end, at most ``size`` characters if it is not negative."""
        self._check_readable()
        most = -1 if size is None else size
        while True:
            end = self._find_line_end()
            if end >= 0 or 0 <= most <= len(self._text) - self._taken:
                break
            if not await self._decode_more():
                end = self._find_line_end()
                break
        self.buffer._open()
        if end < 0:
            end = len(self._text)
        if most >= 0:
            end = min(end, self._taken + most)
        line = self._text[self._taken : end]
        self._taken = end
        return line

    def _find_line_end(self) -> int:
        """Where the next line ends in the decoded text; -1 if that is not known yet."""
        newline = self._newline
        if newline is None or newline == "\n":
            return self._text.find("\n", self._taken) + 1 or -1
        if newline:
            found = self._text.find(newline, self._taken)
            return found + len(newline) if found >= 0 else -1
        feed = self._text.find("\n", self._taken)
        carriage = self._text.find("\r", self._taken, feed if feed >= 0 else len(self._text))
        if carriage < 0:
            return feed + 1 or -1
        # The decoder never ends with half of "\r\n".
        return carriage + 2 if self._text.startswith("\n", carriage + 1) else carriage + 1

    async def __anext__(self) -> str:
        # The fast case of `readline`: the line is in memory.
        if self._newline is None:
            end = self._text.find("\n", self._taken) + 1
            if end and not self.buffer.closed:
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
        if self._text or self._input:
            await self._return_what_was_read()
        length = len(text)
        ends_line = self.line_buffering and ("\n" in text or "\r" in text)
        if self._write_newline is not None:
            text = text.replace("\n", self._write_newline)
        if self._encoder is None:
            self._encoder = codecs.getincrementalencoder(self.encoding)(self.errors)
            if not self._encodes_start:
                # No mark of the byte order but at the start.
                self._encoder.setstate(0)
        await self.buffer.write(self._encoder.encode(text))
        if ends_line or self.buffer._size_of_buffer == 0:
            await self.flush()
        return length

    async def _return_what_was_read(self) -> None:
        """Lets the bytes after the text that was taken be read again, before a write or a seek."""
        if self.buffer._seekable and self._taken < len(self._text):
            self.buffer._drop_ahead()
        self._forget_text()
        if self._decoder is not None:
            self._decoder.reset()

    async def flush(self) -> None:
        """Passes what was written to the kernel."""
        await self.buffer.flush()

    async def tell(self) -> int:
        """The place in the text, for :meth:`seek`; not a number of characters or bytes."""
        self.buffer._open()
        if not self.buffer._seekable:
            raise io.UnsupportedOperation("underlying stream is not seekable")
        await self.flush()
        position = await self.buffer.tell()
        if self._decoder is None or not self._input and self._taken == len(self._text):
            return position
        return self._place(position)

    def _place(self, position: int) -> int:
        """Finds the byte, and the state of the decoder, after which the text goes on as it does here."""
        if self._taken == len(self._text):
            held, state = self._decoder.getstate()
            return _pack(position - len(held), state, 0, 0)
        decoder = self._new_decoder()
        start = self._input[len(self._held) :]
        decoder.setstate((self._held, self._state))
        wanted = self._taken
        decoded = 0
        best = (self._start, self._state, 0)
        # Byte by byte: only so is it known which bytes a character has.
        for index, byte in enumerate(start):
            if decoded == wanted:
                break
            decoded += len(decoder.decode(bytes((byte,))))
            held, state = decoder.getstate()
            if decoded <= wanted:
                fed = self._start + len(self._held) + index + 1 - len(held)
                best = (fed, state, wanted - decoded)
        return _pack(best[0], best[1], best[2], 0)

    async def seek(self, place: int, whence: int = os.SEEK_SET, /) -> int:
        """Goes to a place that :meth:`tell` has returned; or, with 0, to the start or the end."""
        self.buffer._open()
        if not self.buffer._seekable:
            raise io.UnsupportedOperation("underlying stream is not seekable")
        if whence == os.SEEK_CUR:
            if place != 0:
                raise io.UnsupportedOperation("can't do nonzero cur-relative seeks")
            place, whence = await self.tell(), os.SEEK_SET
        if whence == os.SEEK_END:
            if place != 0:
                raise io.UnsupportedOperation("can't do nonzero end-relative seeks")
            await self.flush()
            end = await self.buffer.seek(0, os.SEEK_END)
            self._restart(end)
            return end
        if whence != os.SEEK_SET:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if place < 0:
            raise ValueError(f"negative seek position {place}")
        await self.flush()
        position, state, skip = _unpack(place)
        await self.buffer.seek(position)
        self._restart(position)
        if self._decoder is not None and (state or skip):
            self._decoder.setstate((b"", state))
        while len(self._text) < skip and await self._decode_more():
            pass
        if len(self._text) < skip:
            raise OSError("can't restore logical file position")
        self._taken = skip
        return place

    def _restart(self, position: int) -> None:
        self._forget_text()
        if self._decoder is not None:
            self._decoder.reset()
        self._encodes_start = position == 0
        self._encoder = None

    def _forget_text(self) -> None:
        self._text = ""
        self._taken = 0
        self._input = b""
        self._held = b""

    async def truncate(self, size: int | None = None, /) -> int:
        """Sets the length of the file in bytes; by default to the position."""
        await self.flush()
        if size is None:
            size = await self.tell()
        return await self.buffer.truncate(size)

    async def close(self) -> None:
        """Passes what was written to the kernel, and closes the file, also if that fails."""
        await self.buffer.close()

    def __repr__(self) -> str:
        return f"<laio.TextFile name={self.name!r} mode={self.mode!r} encoding={self.encoding!r}>"


def _pack(position: int, state: int, skip: int, _: int) -> int:
    return position | state << _POSITION_BITS | skip << (_POSITION_BITS + _STATE_BITS)


def _unpack(place: int) -> tuple[int, int, int]:
    position = place & ((1 << _POSITION_BITS) - 1)
    state = place >> _POSITION_BITS & ((1 << _STATE_BITS) - 1)
    return position, state, place >> (_POSITION_BITS + _STATE_BITS)
