"""Temporary files and directories, with the names and parameters of the module `tempfile`.

Await what a function returns, or use it in ``async with``:

    async with laio.tempfile.NamedTemporaryFile("w") as file:
        await file.write("text")

An object that the program neither closes nor leaves is removed by its finalizer, which makes blocking
calls, as that of `tempfile` does.
"""

from tempfile import gettempdir, gettempdirb, gettempprefix, gettempprefixb

from ._directory import TemporaryDirectory
from ._files import NamedFile, NamedTemporaryFile, TemporaryFile
from ._names import mkdtemp, mkstemp
from ._spooled import SpooledFile, SpooledTemporaryFile

__all__ = [
    "NamedFile",
    "NamedTemporaryFile",
    "SpooledFile",
    "SpooledTemporaryFile",
    "TemporaryDirectory",
    "TemporaryFile",
    "gettempdir",
    "gettempdirb",
    "gettempprefix",
    "gettempprefixb",
    "mkdtemp",
    "mkstemp",
]
