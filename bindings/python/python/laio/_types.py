"""Types of arguments."""

import os
from collections.abc import Callable
from typing import Any

# What the types of arguments are called in annotations of the standard library.
StrPath = str | os.PathLike[str]
BytesPath = bytes | os.PathLike[bytes]
StrOrBytesPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]
FileDescriptorOrPath = int | StrOrBytesPath
# Gets what `os.fspath` returns, and flags of `os.open`.
Opener = Callable[[Any, int], int]
# Objects with the buffer protocol, which Python 3.10 and 3.11 have no type for.
Buffer = bytes | bytearray | memoryview | Any
