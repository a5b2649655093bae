"""The calls of the module `os` on files, as coroutines.

Names, parameters, results and exceptions are those of `os`. A call that does not block is made at once,
without a thread and without a turn of the event loop. These points differ from `os`:

- `scandir` is an asynchronous iterator and context manager, `walk` and `fwalk` are asynchronous generators.
- The methods of `DirEntry` that may need a call (`is_dir`, `is_file`, `is_symlink`, `stat`) are coroutines.
- `sendfile` waits when the socket is full, also if the socket does not block.
- The calls raise no audit events.
"""

from os import F_OK, R_OK, W_OK, X_OK

from . import path
from ._descriptors import fdatasync, fstat, fsync, sendfile
from ._fwalk import fwalk
from ._names import (
    access,
    chmod,
    chown,
    lchown,
    link,
    lstat,
    mkdir,
    readlink,
    remove,
    rename,
    replace,
    rmdir,
    stat,
    statvfs,
    symlink,
    truncate,
    unlink,
    utime,
)
from ._scandir import DirEntry, ScandirIterator, listdir, scandir
from ._tree import makedirs, removedirs, renames, walk

__all__ = [
    "DirEntry",
    "F_OK",
    "R_OK",
    "ScandirIterator",
    "W_OK",
    "X_OK",
    "access",
    "chmod",
    "chown",
    "fdatasync",
    "fstat",
    "fsync",
    "fwalk",
    "lchown",
    "link",
    "listdir",
    "lstat",
    "makedirs",
    "mkdir",
    "path",
    "readlink",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "scandir",
    "sendfile",
    "stat",
    "statvfs",
    "symlink",
    "truncate",
    "unlink",
    "utime",
    "walk",
]
