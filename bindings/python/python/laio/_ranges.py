"""Ranges of a file that were read by one request."""

from __future__ import annotations

from typing import TypedDict


class RangeStats(TypedDict):
    """What a request for ranges has done, and why."""

    #: Whether reads were direct where that was possible.
    direct: bool
    #: Why, or why not.
    reason: str
    #: The reads that served the ranges: near ranges were read together, large ones in pieces.
    reads: int
    #: Reads from the device, and their bytes.
    direct_reads: int
    direct_bytes: int
    #: Reads through the page cache, and their bytes.
    cached_reads: int
    cached_bytes: int
    #: Of the cached reads: what ``"auto"`` has found in the cache, or had read from the device before.
    found_in_cache: int
    read_before: int
    #: Of the cached reads: the end of a file that is no whole number of blocks.
    file_ends: int
    #: Of the cached reads: direct reads that failed or ended early.
    repeated: int


class Ranges(list[memoryview]):
    """The bytes of each range, in the order of the request, as views of one ``bytes`` object.

    A view is shorter than its range only at the end of the file. Each begins at a multiple of 64 bytes from the
    beginning of the object.
    """

    #: The object that has all bytes.
    buffer: bytes
    #: What was done.
    stats: RangeStats

    def __init__(self, buffer: bytes, spans: list[tuple[int, int]], stats: RangeStats) -> None:
        view = memoryview(buffer)
        super().__init__(view[start:stop] for start, stop in spans)
        self.buffer = buffer
        self.stats = stats
