"""The functions of the module `shutil` on files and trees, as coroutines.

Names, parameters, results and exceptions are those of `shutil`. These points differ:

- Data is copied inside the kernel where the file systems allow that.
- The functions that a program passes (``copy_function``, ``ignore``, ``onexc``, ``onerror``) may be
  coroutine functions or plain ones.
- `copytree` looks for the target of a link beside the link, to tell whether the link is dangling.
- `rmtree` never follows a symbolic link, also if another process replaces a directory by one meanwhile.
"""

from shutil import Error, SameFileError, SpecialFileError, ignore_patterns

from ._copy import copy, copy2, copyfile, copyfileobj, copymode, copystat
from ._remove import rmtree
from ._tree import copytree, disk_usage, move

__all__ = [
    "Error",
    "SameFileError",
    "SpecialFileError",
    "copy",
    "copy2",
    "copyfile",
    "copyfileobj",
    "copymode",
    "copystat",
    "copytree",
    "disk_usage",
    "ignore_patterns",
    "move",
    "rmtree",
]
