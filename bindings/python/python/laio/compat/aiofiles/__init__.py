"""The names of `aiofiles` 25: a program imports ``from laio.compat import aiofiles`` instead.

The functions take the arguments ``loop`` and ``executor``, which have no effect: there is no executor.
These points differ from `aiofiles`:

- Nothing needs asyncio: the functions work in trio too, except `os.wrap`.
- The attributes ``raw`` and ``buffer`` of a file are missing: they lead to blocking objects. Its method
  ``detach`` returns such an object, one of `io`, as that of `aiofiles` does.
- Of the classes there are four, without those for `stdin` and the like.
- `stdin` has a buffer of its own: what `input` has read ahead, it does not see.
"""

from . import os, tempfile
from .threadpool import (
    open,
    stderr,
    stderr_bytes,
    stdin,
    stdin_bytes,
    stdout,
    stdout_bytes,
)

__all__ = [
    "open",
    "os",
    "tempfile",
    "stdin",
    "stdout",
    "stderr",
    "stdin_bytes",
    "stdout_bytes",
    "stderr_bytes",
]
