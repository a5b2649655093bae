"""Files for asyncio, uvloop and trio, as coroutines.

A call that does not block returns from ``await`` without leaving the coroutine: no thread, no future, no
turn of the event loop. Only a call that would block goes to the background, by io_uring where that is
allowed, else by a thread. It has the rights of the process there, as in a pool of threads;
``set_rights("thread")``, before the first call of a thread, is for threads that give up rights for themselves.
"""

from . import _lifecycle as _lifecycle
from . import os, shutil, tempfile
from ._binary import DEFAULT_BUFFER_SIZE, BinaryFile
from ._detect import Detector, Stall, detect
from ._laio import __version__, set_rights, stats
from ._open import open
from ._path import Path
from ._ranges import Ranges, RangeStats
from ._raw import RawFile
from ._text import TextFile

__all__ = [
    "DEFAULT_BUFFER_SIZE",
    "BinaryFile",
    "Detector",
    "Path",
    "RangeStats",
    "Ranges",
    "RawFile",
    "Stall",
    "TextFile",
    "__version__",
    "detect",
    "open",
    "os",
    "set_rights",
    "shutil",
    "stats",
    "tempfile",
]
