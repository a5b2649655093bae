"""``laio.open``."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Coroutine, Generator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import _laio
from ._binary import BinaryFile
from ._laio import Call
from ._raw import RawFile
from ._text import TextFile

if TYPE_CHECKING:
    from ._types import FileDescriptorOrPath, Opener

File = TypeVar("File", bound="RawFile | TextFile")


class Opening(Coroutine[Any, Any, File], Generic[File]):
    """What :func:`open` returns: to be awaited, or used in ``async with``."""

    __slots__ = ("_coroutine", "_file")

    def __init__(self, coroutine: Coroutine[Any, Any, File]) -> None:
        self._coroutine = coroutine
        self._file: File | None = None

    def __await__(self) -> Generator[Any, None, File]:
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        return self._coroutine.send(value)

    def throw(self, *arguments: Any) -> Any:
        return self._coroutine.throw(*arguments)

    def close(self) -> None:
        self._coroutine.close()

    async def __aenter__(self) -> File:
        self._file = await self._coroutine
        return self._file

    async def __aexit__(self, *error: object) -> None:
        if self._file is not None:
            await self._file.close()


@overload
def open(
    file: FileDescriptorOrPath,
    mode: Literal["r", "w", "x", "a", "rt", "wt", "xt", "at", "r+", "w+", "x+", "a+"] = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
) -> Opening[TextFile]: ...


@overload
def open(
    file: FileDescriptorOrPath,
    mode: Literal["rb", "wb", "xb", "ab", "r+b", "rb+", "w+b", "wb+", "x+b", "xb+", "a+b", "ab+"],
    buffering: Literal[0],
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
) -> Opening[RawFile]: ...


@overload
def open(
    file: FileDescriptorOrPath,
    mode: Literal["rb", "wb", "xb", "ab", "r+b", "rb+", "w+b", "wb+", "x+b", "xb+", "a+b", "ab+"],
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
) -> Opening[BinaryFile]: ...


@overload
def open(
    file: FileDescriptorOrPath,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
) -> Opening[Any]: ...


def open(
    file: FileDescriptorOrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
) -> Opening[Any]:
    """Opens a file: ``async with laio.open(path) as file``, or ``file = await laio.open(path)``.

    The arguments are those of the built-in ``open``. Text modes return a :class:`TextFile`, binary
    modes a :class:`BinaryFile`, or, with ``buffering=0``, a :class:`RawFile`. ``opener`` is called in
    the event loop's thread. Of a descriptor's number a duplicate is used; ``closefd`` says whether the
    number is closed with the file.
    """
    if encoding is None and errors is None and newline is None:
        plan = _plan(mode, buffering)
    else:
        plan = _Plan(mode, buffering, encoding, errors, newline)
    return Opening(_open(file, plan, closefd, opener))


class _Plan:
    """What the arguments of ``open`` ask for, checked."""

    def __init__(
        self,
        mode: str,
        buffering: int,
        encoding: str | None,
        errors: str | None,
        newline: str | None,
    ) -> None:
        if not isinstance(mode, str):
            raise TypeError(f"open() argument 'mode' must be str, not {type(mode).__name__}")
        kinds = set(mode)
        if kinds - set("rwxabt+") or len(kinds) != len(mode):
            raise ValueError(f"invalid mode: {mode!r}")
        kind = kinds & set("rwxa")
        binary = "b" in kinds
        if "t" in kinds and binary:
            raise ValueError("can't have text and binary mode at once")
        if len(kind) != 1:
            raise ValueError("must have exactly one of create/read/write/append mode")
        if binary:
            for name, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
                if value is not None:
                    raise ValueError(f"binary mode doesn't take {'a' if name == 'newline' else 'an'} {name} argument")
        elif buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        plus = "+" in kinds
        self.text = not binary
        self.inner_mode = mode.replace("t", "")
        self.buffering = buffering
        self.encoding = encoding
        self.errors = errors
        self.newline = newline
        self.readable = plus or "r" in kind
        self.writable = plus or "r" not in kind
        self.appending = "a" in kind
        flags = os.O_RDWR if plus else os.O_WRONLY if self.writable else os.O_RDONLY
        if "w" in kind:
            flags |= os.O_CREAT | os.O_TRUNC
        elif "x" in kind:
            flags |= os.O_CREAT | os.O_EXCL
        elif "a" in kind:
            flags |= os.O_CREAT | os.O_APPEND
        self.flags = flags | os.O_CLOEXEC


@lru_cache(maxsize=128)
def _plan(mode: str, buffering: int) -> _Plan:
    return _Plan(mode, buffering, None, None, None)


async def _open(
    file: FileDescriptorOrPath, plan: _Plan, closefd: bool, opener: Opener | None
) -> Any:
    result: _laio.Descriptor | Call[_laio.Descriptor]
    if isinstance(file, int):
        result = _laio.Descriptor.duplicate(file, file)
        if closefd:
            os.close(file)
    elif not closefd:
        raise ValueError("Cannot use closefd=False with file name")
    elif opener is not None:
        number = opener(os.fspath(file), plan.flags)
        result = _laio.Descriptor.duplicate(number, file)
        os.close(number)
    else:
        result = _laio.open(file, plan.flags)
    descriptor = await result if type(result) is Call else result
    kind = descriptor.file_type
    if kind == stat.S_IFDIR:
        await close_descriptor(descriptor)
        raise IsADirectoryError(21, os.strerror(21), file)
    seekable = kind == stat.S_IFREG or kind == stat.S_IFBLK
    if plan.buffering != 0 and plan.readable and plan.writable and not seekable:
        await close_descriptor(descriptor)
        raise io.UnsupportedOperation("File or stream is not seekable.")
    return await file_of(descriptor, file, plan, seekable)


async def close_descriptor(descriptor: _laio.Descriptor) -> None:
    result = descriptor.close()
    if type(result) is Call:
        await result


async def file_of(descriptor: _laio.Descriptor, name: Any, plan: _Plan, seekable: bool) -> Any:
    """Makes a file object of a descriptor, which is closed if that is not possible."""
    opened = _binary_file(descriptor, name, plan, seekable)
    if not plan.text:
        return opened
    line_buffering = plan.buffering == 1 or plan.buffering < 0 and not seekable and opened.isatty()
    try:
        return TextFile(opened, plan.encoding, plan.errors, plan.newline, line_buffering)
    except BaseException:
        # The encoding is unknown.
        await opened.close()
        raise


def _binary_file(descriptor: _laio.Descriptor, name: Any, plan: _Plan, seekable: bool) -> Any:
    if plan.writable and seekable:
        # So that a write after a cancelled one is not overtaken by it.
        descriptor.set_ordered()
    kind = RawFile if plan.buffering == 0 else BinaryFile
    file = kind(
        descriptor,
        name,
        plan.inner_mode,
        plan.readable,
        plan.writable,
        plan.appending,
        seekable,
    )
    if plan.buffering > 1 and isinstance(file, BinaryFile):
        file._size_of_buffer = plan.buffering
    if plan.appending and seekable:
        file._position = descriptor.size_at_open
    return file
