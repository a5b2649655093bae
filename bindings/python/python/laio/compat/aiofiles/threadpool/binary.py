"""Binary files."""

from __future__ import annotations

from ..base import AsyncBase


class AsyncBufferedIOBase(AsyncBase):
    """A binary file that is written."""


class AsyncBufferedReader(AsyncBufferedIOBase):
    """A binary file that is read, or read and written."""


class AsyncFileIO(AsyncBase):
    """A binary file without buffers."""
