"""`laio.Path`."""

from __future__ import annotations

import errno
import os as _os
import pathlib
import stat as _stat
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from . import _glob, _laio, _whole
from . import os as _calls
from ._laio import Call
from ._open import Opening
from ._open import open as _open
from .os._scandir import entries_of
from .os._tree import Links, walk_tree

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from typing_extensions import Self

# What means that a path does not exist, rather than that it could not be looked up.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


class Path(pathlib.PurePosixPath):
    """`pathlib.Path` for event loops.

    What `pathlib.PurePath` does is inherited: it makes no calls. The methods that ask the file system
    are coroutines with the names, parameters, results and exceptions of `pathlib.Path`; `iterdir`,
    `glob`, `rglob` and `walk` are asynchronous iterators, and `open` is `laio.open`. A `laio.Path` is
    equal to a `pathlib.Path` of the same name.

    All versions of Python get the parameters of 3.13, and `glob` and `resolve` as 3.13 has them:
    ``**`` at the end of a pattern finds files too, and a loop of links raises `OSError` if ``strict``.
    """

    __slots__ = ()

    @classmethod
    async def cwd(cls) -> Self:
        """Returns the working directory."""
        return cls(_os.getcwd())

    @classmethod
    async def home(cls) -> Self:
        """Returns the user's home directory: ``HOME``, or what the user database says."""
        return await cls("~").expanduser()

    # The status

    async def stat(self, *, follow_symlinks: bool = True) -> _os.stat_result:
        """Returns the status of the file."""
        result = _laio.stat(str(self), None, follow_symlinks)
        return result if type(result) is not Call else await result

    async def lstat(self) -> _os.stat_result:
        """Returns the status of the file, or of a symbolic link itself."""
        result = _laio.stat(str(self), None, False)
        return result if type(result) is not Call else await result

    async def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the file exists."""
        return await self._mode(follow_symlinks) is not None

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the path is a directory, or a link to one."""
        mode = await self._mode(follow_symlinks)
        return mode is not None and _stat.S_ISDIR(mode)

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the path is a regular file, or a link to one."""
        mode = await self._mode(follow_symlinks)
        return mode is not None and _stat.S_ISREG(mode)

    async def is_symlink(self) -> bool:
        """Whether the path is a symbolic link."""
        mode = await self._mode(False)
        return mode is not None and _stat.S_ISLNK(mode)

    async def is_socket(self) -> bool:
        """Whether the path is a socket."""
        mode = await self._mode(True)
        return mode is not None and _stat.S_ISSOCK(mode)

    async def is_fifo(self) -> bool:
        """Whether the path is a FIFO."""
        mode = await self._mode(True)
        return mode is not None and _stat.S_ISFIFO(mode)

    async def is_block_device(self) -> bool:
        """Whether the path is a block device."""
        mode = await self._mode(True)
        return mode is not None and _stat.S_ISBLK(mode)

    async def is_char_device(self) -> bool:
        """Whether the path is a character device."""
        mode = await self._mode(True)
        return mode is not None and _stat.S_ISCHR(mode)

    async def is_mount(self) -> bool:
        """Whether the path is a mount point."""
        return await _calls.path.ismount(self)

    async def is_junction(self) -> bool:
        """False: Linux has no junctions."""
        return False

    async def samefile(self, other_path: str | _os.PathLike[str]) -> bool:
        """Whether another path is of the same file."""
        own = await self.stat()
        return _os.path.samestat(own, await _calls.stat(other_path))

    async def owner(self, *, follow_symlinks: bool = True) -> str:
        """Returns the name of the file's owner.

        The look-up in the user database is the C library's; it reads ``/etc/passwd`` in this thread.
        """
        import pwd

        status = await self.stat(follow_symlinks=follow_symlinks)
        return pwd.getpwuid(status.st_uid).pw_name

    async def group(self, *, follow_symlinks: bool = True) -> str:
        """Returns the name of the file's group, which the C library looks up in this thread."""
        import grp

        status = await self.stat(follow_symlinks=follow_symlinks)
        return grp.getgrgid(status.st_gid).gr_name

    async def _mode(self, follow_symlinks: bool) -> int | None:
        """The mode of the file, `None` if it does not exist."""
        try:
            result = _laio.stat(str(self), None, follow_symlinks)
            status = result if type(result) is not Call else await result
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return None
        except ValueError:
            return None
        return status.st_mode

    # The content

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Opening[Any]:
        """Opens the file: ``async with path.open() as file``, or ``file = await path.open()``."""
        return _open(self, mode, buffering, encoding, errors, newline)

    async def read_bytes(self) -> bytes:
        """Returns the content of the file."""
        return await _whole.read(str(self))

    async def read_text(
        self,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> str:
        """Returns the content of the file as text."""
        data = await _whole.read(str(self))
        return _whole.decode(data, encoding, errors, newline)

    async def write_bytes(self, data: ReadableBuffer) -> int:
        """Writes the file, in place of what it had. Returns the number of bytes."""
        view = memoryview(data)
        return await self._write(data if type(data) is bytes else view.tobytes())

    async def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> int:
        """Writes text to the file, in place of what it had. Returns the number of characters.

        Text that cannot be encoded leaves the file as it was, where `pathlib` leaves it empty.
        """
        if not isinstance(data, str):
            raise TypeError(f"data must be str, not {type(data).__name__}")
        await self._write(_whole.encode(data, encoding, errors, newline))
        return len(data)

    async def _write(self, data: bytes) -> int:
        flags = _os.O_WRONLY | _os.O_CREAT | _os.O_TRUNC
        result = _laio.write_file(str(self), data, flags)
        return result if type(result) is not Call else await result

    # Names

    async def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Makes an empty file; sets the times of one that exists to the present."""
        if exist_ok:
            try:
                return await _calls.utime(self)
            except OSError:
                # It does not exist, or opening it tells why it cannot be changed.
                pass
        flags = _os.O_CREAT | _os.O_WRONLY | (0 if exist_ok else _os.O_EXCL)
        opened = _laio.open(str(self), flags, mode)
        file = opened if type(opened) is not Call else await opened
        closed = file.close()
        if type(closed) is Call:
            await closed

    async def mkdir(
        self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False
    ) -> None:
        """Makes a directory, and those above it if ``parents``."""
        try:
            await _calls.mkdir(self, mode)
        except FileNotFoundError:
            if not parents or self.parent == self:
                raise
            await self.parent.mkdir(parents=True, exist_ok=True)
            await self.mkdir(mode, parents=False, exist_ok=exist_ok)
        except OSError:
            # Not only `FileExistsError`: the kernel may look at other conditions first.
            if not exist_ok or not await self.is_dir():
                raise

    async def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """Sets the permissions of the file."""
        await _calls.chmod(self, mode, follow_symlinks=follow_symlinks)

    async def lchmod(self, mode: int) -> None:
        """Sets the permissions of the file, or of a symbolic link itself, which Linux refuses."""
        await self.chmod(mode, follow_symlinks=False)

    async def unlink(self, missing_ok: bool = False) -> None:
        """Removes the file."""
        try:
            await _calls.unlink(self)
        except FileNotFoundError:
            if not missing_ok:
                raise

    async def rmdir(self) -> None:
        """Removes the directory, which must be empty."""
        await _calls.rmdir(self)

    async def rename(self, target: str | _os.PathLike[str]) -> Self:
        """Renames the file. A file ``target`` is replaced. Returns the new path."""
        await _calls.rename(self, target)
        return type(self)(target)

    async def replace(self, target: str | _os.PathLike[str]) -> Self:
        """Renames the file. The same as `rename` on Linux."""
        await _calls.rename(self, target)
        return type(self)(target)

    async def symlink_to(
        self, target: str | _os.PathLike[str], target_is_directory: bool = False
    ) -> None:
        """Makes this path a symbolic link to ``target``. ``target_is_directory`` has no effect."""
        await _calls.symlink(target, self)

    async def hardlink_to(self, target: str | _os.PathLike[str]) -> None:
        """Makes this path a further name of the file ``target``."""
        await _calls.link(target, self)

    async def readlink(self) -> Self:
        """Returns the path to which the symbolic link leads."""
        return type(self)(await _calls.readlink(str(self)))

    async def resolve(self, strict: bool = False) -> Self:
        """Returns the absolute path without symbolic links and ``..``."""
        return type(self)(await _calls.path.realpath(str(self), strict=strict))

    async def absolute(self) -> Self:
        """Returns the absolute path; links and ``..`` stay in it."""
        return self if self.is_absolute() else type(self)(_os.getcwd(), self)

    async def expanduser(self) -> Self:
        """Returns the path with ``~`` or ``~user`` replaced by a home directory.

        The C library looks a user up in this thread; ``~`` needs no look-up if ``HOME`` is set.
        """
        parts = self.parts
        if self.root or not parts or parts[0][:1] != "~":
            return self
        home = _os.path.expanduser(parts[0])
        if home[:1] == "~":
            raise RuntimeError("Could not determine home directory.")
        return type(self)(home, *parts[1:])

    # Directories

    async def iterdir(self) -> AsyncIterator[Self]:
        """Yields the paths in the directory, in the order of the file system."""
        base = str(self)
        base = "" if base == "." else base if base.endswith("/") else base + "/"
        for entry in await entries_of(self):
            yield type(self)(base + entry.name)

    def glob(
        self,
        pattern: str | _os.PathLike[str],
        *,
        case_sensitive: bool | None = None,
        recurse_symlinks: bool = False,
    ) -> AsyncIterator[Self]:
        """Yields the paths below this one that match a pattern with ``*``, ``?``, ``[…]`` and ``**``."""
        parts = self._parts_of(pattern)
        if not parts:
            raise ValueError(f"Unacceptable pattern: {str(pattern)!r}")
        return self._find(parts, case_sensitive, recurse_symlinks)

    def rglob(
        self,
        pattern: str | _os.PathLike[str],
        *,
        case_sensitive: bool | None = None,
        recurse_symlinks: bool = False,
    ) -> AsyncIterator[Self]:
        """Yields the paths at any depth below this one that match a pattern."""
        parts = ["**", *self._parts_of(pattern)]
        return self._find(parts, case_sensitive, recurse_symlinks)

    def _parts_of(self, pattern: str | _os.PathLike[str]) -> list[str]:
        text = _os.fspath(pattern)
        path = pathlib.PurePosixPath(text)
        if path.anchor:
            raise NotImplementedError("Non-relative patterns are unsupported")
        parts = list(path.parts)
        if parts and text.endswith("/"):
            parts.append("")
        return parts

    async def _find(
        self, parts: list[str], case_sensitive: bool | None, recurse_symlinks: bool
    ) -> AsyncIterator[Self]:
        async for path in _glob.glob(str(self), parts, case_sensitive, recurse_symlinks):
            yield type(self)(path)

    async def walk(
        self,
        top_down: bool = True,
        on_error: Callable[[OSError], object] | None = None,
        follow_symlinks: bool = False,
    ) -> AsyncIterator[tuple[Self, list[str], list[str]]]:
        """Yields (path of a directory, names of directories in it, names of other files in it).

        Links to directories are among the other files, unless ``follow_symlinks``.
        """
        links: Links = "followed" if follow_symlinks else "files"
        async for path, names, others in walk_tree(str(self), top_down, on_error, links):
            yield type(self)(path), names, others

    if sys.version_info >= (3, 13):

        @classmethod
        def from_uri(cls, uri: str) -> Self:
            """Returns the path of a ``file:`` URI."""
            return cls(pathlib.Path.from_uri(uri))
