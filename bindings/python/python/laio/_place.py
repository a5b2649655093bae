"""Places in a text, as numbers: what `TextFile.tell` returns and `TextFile.seek` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# The layout of ``Lib/_pyio.py``: in the common case the number is the position in bytes.
_BITS = 64
_MASK = (1 << _BITS) - 1


@dataclass(slots=True)
class Place:
    """Where a decoder begins, in which state, and how far it goes on from there."""

    position: int
    flags: int = 0
    #: How many bytes it decodes, and whether as the last ones.
    bytes: int = 0
    needs_end: bool = False
    #: How many characters of these come before the place.
    characters: int = 0

    def packed(self) -> int:
        parts = (self.position, self.flags, self.bytes, self.characters, int(self.needs_end))
        return sum(part << (index * _BITS) for index, part in enumerate(parts))

    @classmethod
    def unpacked(cls, number: int) -> Place:
        parts = [number >> (index * _BITS) & _MASK for index in range(4)]
        return cls(parts[0], parts[1], parts[2], bool(number >> (4 * _BITS)), parts[3])


def find(decoder: Any, start: Place, data: bytes, characters: int, ratio: float) -> Place:
    """The place that is ``characters`` after ``start``, where ``data`` begins.

    A character has about ``ratio`` bytes. The decoder is used, and gets its state back. Nothing is read, and
    most of the bytes are decoded at once, so this takes about as long as it took to decode the text.
    """
    if characters == 0:
        return start
    state = decoder.getstate()
    try:
        skipped, flags, decoded = _skip(decoder, start.flags, data, characters, ratio)
        place = Place(start.position + skipped, flags)
        if decoded == characters:
            return place
        return _feed(decoder, place, data[skipped:], characters - decoded)
    finally:
        decoder.setstate(state)


def _skip(
    decoder: Any, flags: int, data: bytes, characters: int, ratio: float
) -> tuple[int, int, int]:
    """Guesses a place before ``characters`` where the decoder holds no bytes. Leaves it there.

    Returns the number of bytes before it, the state there, and the number of characters before it.
    """
    skipped = min(int(ratio * characters), len(data))
    back = 1
    while skipped > 0:
        decoder.setstate((b"", flags))
        decoded = len(decoder.decode(data[:skipped]))
        if decoded > characters:
            # Too far.
            skipped -= back
            back *= 2
            continue
        held, now = decoder.getstate()
        if not held:
            return skipped, now, decoded
        skipped -= len(held)
        back = 1
    decoder.setstate((b"", flags))
    return 0, flags, 0


def _feed(decoder: Any, place: Place, data: bytes, characters: int) -> Place:
    """Goes on byte by byte: only so is it known which bytes a character has."""
    fed = decoded = 0
    for byte in data:
        fed += 1
        decoded += len(decoder.decode(bytes((byte,))))
        held, flags = decoder.getstate()
        if not held and decoded <= characters:
            # A later place to begin.
            characters -= decoded
            place = Place(place.position + fed, flags)
            fed = decoded = 0
        if decoded >= characters:
            break
    else:
        decoded += len(decoder.decode(b"", final=True))
        if decoded < characters:
            raise OSError("can't reconstruct logical file position")
        return Place(place.position, place.flags, fed, True, characters)
    return Place(place.position, place.flags, fed, False, characters)
