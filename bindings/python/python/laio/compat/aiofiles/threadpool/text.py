"""Text files."""

from __future__ import annotations

from ..base import AsyncBase


class AsyncTextIOWrapper(AsyncBase):
    """A text file."""

    async def readable(self) -> bool:
        """Whether the file can be read."""
        return bool(self._file.readable())
