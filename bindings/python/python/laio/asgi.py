"""Files for web servers: an ASGI application for uvicorn, hypercorn and others.

    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/static", laio.asgi.StaticFiles("static"))])
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote

from . import _loops
from ._laio import Call, Descriptor, Files
from .os import lstat

if TYPE_CHECKING:
    from ._types import StrOrBytesPath

__all__ = ["StaticFiles"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Status, fields, the file, and parts: bytes, or begin and end in the file.
_Response = tuple[
    int, list[tuple[bytes, bytes]], Descriptor | None, list[bytes | tuple[int, int]]
]

# A file is read in pieces of this size, in bytes.
PIECE = 128 * 1024

# The fields on which a response depends.
_FIELDS = frozenset(
    {
        b"accept-encoding",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"range",
    }
)

# From this version on, `send` raises an OSError when the client is gone.
_SEND_RAISES = (2, 4)


class StaticFiles:
    """Answers requests with the files below a directory, as `laio serve` does.

    That includes conditions, ranges (also several), content types, index files, redirects of directories,
    and the same refusals of unclear paths. Names are opened below the directory's descriptor with
    ``openat2`` (without it, one component at a time), so neither ``..`` nor a symbolic link leads out of it.
    The constructor opens the directory, which may block; it stays the same one if it is renamed.

    ``index``: names of index files, of which the first that exists is the answer for its directory.
    ``precompressed``: codings (``"br"``, ``"zstd"``, ``"gzip"``) of files that exist beside others, such as
    ``page.html.gz``; one older than the plain file is not used. ``dotfiles``: whether names that begin with
    a dot are found. ``symlinks``: where they may lead; ``"follow"`` is anywhere, so that a user who can
    create links can publish every file that the process can read.

    These are parameters of Starlette's class. ``html``: true serves ``404.html`` in place of other answers
    404, false no index files. ``follow_symlink``: true is ``symlinks="follow"``. ``check_dir``: false opens the
    directory with the first request. In an application of Starlette, 401 to 405 are its `HTTPException`, for
    the exception handlers of the application. ``packages`` is missing, because there is one directory.
    """

    def __init__(
        self,
        directory: StrOrBytesPath,
        *,
        index: Iterable[str] = ("index.html",),
        precompressed: Iterable[str] = (),
        dotfiles: bool = False,
        symlinks: Literal["within", "refuse", "follow"] = "within",
        html: bool | None = None,
        check_dir: bool = True,
        follow_symlink: bool = False,
    ) -> None:
        self._arguments = (
            directory,
            [] if html is False else list(index),
            list(precompressed),
            dotfiles,
            "follow" if follow_symlink else symlinks,
        )
        self._has_page = html is True
        self._files = Files(*self._arguments) if check_dir else None

    def _opened(self) -> Files:
        if self._files is None:
            self._files = Files(*self._arguments)
        return self._files

    async def _respond(self, scope: Scope) -> _Response:
        """Decides the response. What is not found has the page of the directory, if it is to have one."""
        files = self._opened()
        result = files.respond(_head(scope))
        response = await result if type(result) is Call else result
        if response[0] != 404 or not self._has_page:
            return response
        method: str = scope["method"]
        result = files.respond(b"%s /404.html HTTP/1.1\r\nHost: localhost\r\n\r\n" % method.encode())
        page = await result if type(result) is Call else result
        return (404, *page[1:]) if page[0] == 200 else response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # The specification's way to say that lifespan and websockets are not supported.
            raise ValueError(f"StaticFiles has no answer to a scope of type {scope['type']!r}")
        status, fields, file, parts = await self._respond(scope)
        if file is None:
            _raise_in_starlette(scope, status, fields)
        await send({"type": "http.response.start", "status": status, "headers": fields})
        if file is None:
            # A page, or nothing.
            body = b"".join(part for part in parts if isinstance(part, bytes))
            await send({"type": "http.response.body", "body": body})
            return
        try:
            path = await _path_to_send(scope, status, file)
            if path is not None:
                await send({"type": "http.response.pathsend", "path": path})
            else:
                await _send_parts(scope, receive, send, file, parts)
        finally:
            closed = file.close()
            if type(closed) is Call:
                await closed


def _raise_in_starlette(scope: Scope, status: int, fields: list[tuple[bytes, bytes]]) -> None:
    """Raises the exception of Starlette for a refusal, if the request came through an application of it."""
    if "app" not in scope or "starlette.exceptions" not in sys.modules or not 401 <= status <= 405:
        return
    kept = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in fields
        if not name.lower().startswith(b"content-")
    }
    error: Exception = sys.modules["starlette.exceptions"].HTTPException(status, headers=kept)
    raise error


def _head(scope: Scope) -> bytes:
    """The head of a request as HTTP/1.1 writes it. The server has checked what it takes from the client."""
    lines = [
        b"%s: %s\r\n" % (name, value) for name, value in scope["headers"] if name in _FIELDS
    ]
    target = _target(scope)
    if query := scope.get("query_string"):
        target += b"?" + query
    method: str = scope["method"]
    # No response depends on the host, but the parser insists on one.
    head = b"%s %s HTTP/1.1\r\nHost: localhost\r\n" % (method.encode(), target)
    return b"%s%s\r\n" % (head, b"".join(lines))


def _target(scope: Scope) -> bytes:
    """The path below the application, escaped.

    As the client has escaped it, if the server says: `%2F` is a part of a name, not a separator.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    # Some servers leave the path of the application off.
    below = root != "" and path.startswith(root) and path[len(root) :][:1] in ("", "/")
    rest = path[len(root) :] if below else path
    raw: bytes = (scope.get("raw_path") or b"").partition(b"?")[0]
    prefix = quote(path[: len(path) - len(rest)]).encode()
    own = raw[len(prefix) :]
    text = own.decode("latin-1")
    clean = text.isascii() and text.isprintable() and " " not in text
    if raw.startswith(prefix) and clean and unquote(text) == rest:
        return own or b"/"
    return quote(rest).encode() or b"/"


async def _path_to_send(scope: Scope, status: int, file: Descriptor) -> str | None:
    """The path of a file that the server can send by itself: the whole file."""
    if status != 200 or "http.response.pathsend" not in (scope.get("extensions") or ()):
        return None
    # The path that the kernel knows has no symbolic links.
    path = os.readlink(f"/proc/self/fd/{file.fileno()}")
    result = file.stat()
    own = await result if type(result) is Call else result
    # The name of a file that was removed or renamed meanwhile may belong to another one.
    try:
        return path if os.path.samestat(own, await lstat(path)) else None
    except OSError:
        return None


async def _send_parts(
    scope: Scope,
    receive: Receive,
    send: Send,
    file: Descriptor,
    parts: list[bytes | tuple[int, int]],
) -> None:
    left = sum(len(part) if isinstance(part, bytes) else part[1] - part[0] for part in parts)
    if left <= PIECE or _version(scope) >= _SEND_RAISES:
        await _send_pieces(send, file, parts, left, lambda: False)
        return
    async with _loops.beside(lambda: _wait_for_disconnect(receive)) as is_gone:
        await _send_pieces(send, file, parts, left, is_gone)


async def _send_pieces(
    send: Send,
    file: Descriptor,
    parts: list[bytes | tuple[int, int]],
    left: int,
    is_gone: Callable[[], bool],
) -> None:
    for part in parts:
        position, end = (0, len(part)) if isinstance(part, bytes) else part
        # An empty file has one piece too.
        while True:
            if isinstance(part, bytes):
                piece = part
            else:
                result = file.pread(min(PIECE, end - position), position)
                piece = await result if type(result) is Call else result
                if not piece and position < end:
                    # The server ends the connection, because the announced length is not reached.
                    raise EOFError("the file became shorter while it was sent")
            position += len(piece)
            left -= len(piece)
            try:
                await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
            except OSError:
                return
            if is_gone():
                return
            if position >= end:
                break


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _version(scope: Scope) -> tuple[int, ...]:
    text = (scope.get("asgi") or {}).get("spec_version", "2.0")
    return tuple(int(number) for number in text.split("."))
