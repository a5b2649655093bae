"""The names of ``aiofiles.ospath``."""

from __future__ import annotations

import os
from typing import Any

from laio.os import path

from .base import without_executor

__all__ = [
    "abspath",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "exists",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "samefile",
    "sameopenfile",
]


@without_executor
async def abspath(path: Any) -> Any:
    """Returns the absolute path, without ``..``."""
    return os.path.abspath(path)


getatime = without_executor(path.getatime)
getctime = without_executor(path.getctime)
getmtime = without_executor(path.getmtime)
getsize = without_executor(path.getsize)
exists = without_executor(path.exists)
isdir = without_executor(path.isdir)
isfile = without_executor(path.isfile)
islink = without_executor(path.islink)
ismount = without_executor(path.ismount)
samefile = without_executor(path.samefile)
sameopenfile = without_executor(path.sameopenfile)
