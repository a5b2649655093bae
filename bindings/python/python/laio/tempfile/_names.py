"""Making files and directories under names that nothing has."""

from __future__ import annotations

import base64
import errno
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from .. import _laio
from .._laio import Call

# The first look for the directory of temporary files makes blocking calls: here, rather than in a loop.
try:
    tempfile.gettempdir()
except OSError:
    # The functions raise the exception, unless they get a directory.
    pass


async def mkstemp(
    suffix: Any = None, prefix: Any = None, dir: Any = None, text: bool = False
) -> tuple[int, Any]:
    """Makes a file that only this user may open. Returns the number of its descriptor, and its path.

    The program closes the descriptor and removes the file. ``text`` has no effect on Linux.
    """
    descriptor, path = await create(suffix, prefix, dir)
    return descriptor.detach(), path


async def mkdtemp(suffix: Any = None, prefix: Any = None, dir: Any = None) -> Any:
    """Makes a directory that only this user may use. Returns its absolute path."""
    for path in candidates(suffix, prefix, dir):
        try:
            result = _laio.create_directory(path)
            if type(result) is Call:
                await result
        except FileExistsError:
            continue
        return path
    raise no_name()


async def create(suffix: Any, prefix: Any, dir: Any) -> tuple[_laio.Descriptor, Any]:
    """Makes a file and opens it for reading and writing. If the coroutine is cancelled, no file stays."""
    for path in candidates(suffix, prefix, dir):
        try:
            result = _laio.create_file(path)
            return (result if type(result) is not Call else await result), path
        except FileExistsError:
            continue
    raise no_name()


def candidates(suffix: Any, prefix: Any, dir: Any) -> Iterator[Any]:
    """Paths for a new file: `str`, or `bytes` if the arguments are that."""
    given = [os.fspath(part) for part in (suffix, prefix, dir) if part is not None]
    is_bytes = bool(given) and isinstance(given[0], bytes)
    if any(isinstance(part, bytes) != is_bytes for part in given):
        raise TypeError("Can't mix bytes and non-bytes in path components.")
    if not all(isinstance(part, (str, bytes)) for part in given):
        raise TypeError("the parts of a path must be str or bytes")
    convert: Any = os.fsencode if is_bytes else os.fsdecode
    before = convert(tempfile.gettempprefix() if prefix is None else prefix)
    after = convert("" if suffix is None else suffix)
    base = os.path.abspath(convert(tempfile.gettempdir() if dir is None else dir))
    for _ in range(tempfile.TMP_MAX):
        random = base64.b32encode(os.urandom(5)).decode().lower()
        yield os.path.join(base, before + convert(random) + after)


def no_name() -> OSError:
    return FileExistsError(errno.EEXIST, "No usable temporary file name found")
