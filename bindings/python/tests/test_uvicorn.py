"""`laio.asgi.StaticFiles` in uvicorn."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from laio.asgi import PIECE, StaticFiles

uvicorn = pytest.importorskip("uvicorn")


@contextmanager
def served(app: Any, loop: str, **options: Any) -> Iterator[int]:
    """Serves in a thread. Gives the port."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, loop=loop, log_level="error", lifespan="auto", **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        # The listening socket exists, so a connection waits until the server takes it.
        yield listener.getsockname()[1]
    finally:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        server.should_exit = True
        thread.join()


def get(
    port: int, target: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request(method, target, headers=headers or {})
        answer = connection.getresponse()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, fields, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_files(tmp_path: Path, loop: str) -> None:
    data = os.urandom(5 * PIECE + 7)
    (tmp_path / "large").write_bytes(data)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.html").write_bytes(b"docs")
    (tmp_path / "empty").write_bytes(b"")
    with served(StaticFiles(tmp_path), loop) as port:
        status, fields, body = get(port, "/large")
        assert (status, body == data) == (200, True)
        assert fields["content-length"] == str(len(data))
        assert get(port, "/large", {"If-None-Match": fields["etag"]})[0] == 304
        assert get(port, "/large", method="HEAD")[1]["content-length"] == str(len(data))
        status, fields, body = get(port, "/large", {"Range": "bytes=100000-400000"})
        assert (status, body == data[100_000:400_001]) == (206, True)
        status, fields, body = get(port, "/large", {"Range": "bytes=0-0,300000-600000"})
        assert status == 206 and data[300_000:600_001] in body
        assert get(port, "/docs")[1]["location"] == "./docs/"
        assert get(port, "/docs/")[2] == b"docs"
        assert get(port, "/empty")[::2] == (200, b"")
        assert get(port, "/../x")[0] == 400
        assert get(port, "/docs%2Findex.html")[0] == 404
        assert get(port, "/large", method="POST")[0] == 405


def test_below_a_root_path(tmp_path: Path) -> None:
    (tmp_path / "a b").write_bytes(b"x")
    with served(StaticFiles(tmp_path), "asyncio", root_path="/files") as port:
        assert get(port, "/a%20b")[::2] == (200, b"x")


def test_a_file_that_becomes_shorter_ends_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "file"
    size = 1 << 40
    with open(path, "wb") as file:
        file.truncate(size)
    with served(StaticFiles(tmp_path), "asyncio", log_config=None) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
            os.truncate(path, 0)
            # The end of the connection, or a reset.
            try:
                while client.recv(1 << 20):
                    pass
            except ConnectionError:
                pass


def test_a_client_that_leaves_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with open(path, "wb") as file:
        # So long that reading it all would not end.
        file.truncate(1 << 40)

    def is_open() -> bool:
        for number in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{number}") == str(path):
                    return True
            except OSError:
                pass
        return False

    with served(StaticFiles(tmp_path), "asyncio") as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")
            client.recv(1000)
            assert is_open()
        while is_open():
            time.sleep(0.01)
        assert get(port, "/none")[0] == 404
