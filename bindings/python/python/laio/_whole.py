"""Whole files, and their text."""

from __future__ import annotations

import io
import locale
from typing import TYPE_CHECKING

from . import _laio
from ._laio import Call, Descriptor
from ._raw import read_to_end

if TYPE_CHECKING:
    from ._types import StrOrBytesPath

# Encodings in which the pieces of a text are the text of the pieces, so that no decoder needs a state.
_PLAIN = frozenset({"utf-8", "utf8", "UTF-8", "ascii", "latin-1", "iso-8859-1"})


async def read(path: StrOrBytesPath) -> bytes:
    """Reads a whole file; a large one piece by piece."""
    result = _laio.read_file(path)
    if type(result) is Call:
        result = await result
    if type(result) is bytes:
        return result
    assert type(result) is Descriptor
    try:
        data, _ = await read_to_end(result, 0)
    finally:
        closed = result.close()
        if type(closed) is Call:
            await closed
    return data


def decode(
    data: bytes, encoding: str | None, errors: str | None, newline: str | None
) -> str:
    """The text of bytes, as a file opened with these arguments reads it."""
    if encoding is None and not newline:
        encoding = _default()
    if encoding in _PLAIN and not newline:
        text = data.decode(encoding, errors or "strict")
        if newline is None and "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text
    with io.TextIOWrapper(io.BytesIO(data), encoding, errors, newline) as file:
        return file.read()


def encode(
    text: str, encoding: str | None, errors: str | None, newline: str | None
) -> bytes:
    """The bytes of a text, as a file opened with these arguments writes it."""
    if encoding is None:
        encoding = _default()
    if encoding in _PLAIN and newline in (None, "", "\n"):
        return text.encode(encoding, errors or "strict")
    with io.BytesIO() as data:
        file = io.TextIOWrapper(data, encoding, errors, newline)
        file.write(text)
        file.flush()
        return data.getvalue()


def _default() -> str:
    """The encoding of a file that is opened without one."""
    return locale.getpreferredencoding(False)
