"""`laio.asgi.StaticFiles` in an application of Starlette, with the parameters of Starlette's class."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from laio.asgi import StaticFiles

applications = pytest.importorskip("starlette.applications")
responses = pytest.importorskip("starlette.responses")
routing = pytest.importorskip("starlette.routing")


def ask(app: Any, path: str, method: str = "GET") -> tuple[int, bytes]:
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [], "root_path": "", "http_version": "1.1", "scheme": "http", "asgi": {"version": "3.0"},
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def test_refusals_reach_the_exception_handlers(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")

    async def handler(request: Any, error: Any) -> Any:
        return responses.PlainTextResponse(f"own {error.status_code}", error.status_code)

    app = applications.Starlette(
        routes=[routing.Mount("/files", StaticFiles(tmp_path))],
        exception_handlers={404: handler, 405: handler},
    )
    assert ask(app, "/files/file") == (200, b"data")
    assert ask(app, "/files/none") == (404, b"own 404")
    assert ask(app, "/files/file", "POST") == (405, b"own 405")
    # By itself the class answers.
    assert ask(StaticFiles(tmp_path), "/none")[0] == 404


def test_parameters_of_starlette(tmp_path: Path) -> None:
    root = tmp_path / "root"
    late = StaticFiles(root, check_dir=False)
    with pytest.raises(FileNotFoundError):
        StaticFiles(root)
    root.mkdir()
    (root / "index.html").write_bytes(b"index")
    (root / "404.html").write_bytes(b"not here")
    (tmp_path / "outside").write_bytes(b"outside")
    (root / "link").symlink_to(tmp_path / "outside")
    assert ask(late, "/") == (200, b"index")
    assert ask(StaticFiles(root, html=True), "/none") == (404, b"not here")
    assert ask(StaticFiles(root, html=True), "/") == (200, b"index")
    assert ask(StaticFiles(root, html=False), "/")[0] in (403, 404)
    assert ask(StaticFiles(root), "/link")[0] in (403, 404)
    assert ask(StaticFiles(root, follow_symlink=True), "/link") == (200, b"outside")
