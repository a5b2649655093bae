"""`laio.asgi.StaticFiles`, called by a bare driver, and by Starlette."""

from __future__ import annotations

import asyncio
import errno
import gzip
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import forbid
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laio.asgi
from laio.asgi import PIECE, StaticFiles

OLD = 1_600_000_000
SECRET = b"outside of the directory"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose files are old, so that their entity tags are strong."""
    base = tmp_path_factory.mktemp("base")
    (base / "secret.txt").write_bytes(SECRET)
    root = base / "site"
    files = {
        "index.html": b"<h1>home</h1>",
        "old.txt": b"0123456789",
        "empty.txt": b"",
        "large.bin": bytes(range(251)) * 4000,
        "docs/index.html": b"docs",
        "docs/sub/old.txt": b"sub",
        "bare/file": b"x",
        "page.html": b"page",
        "page.html.gz": gzip.compress(b"page"),
        "style.css": b"a { color: red }",
        "style.css.gz": b"outdated",
        "with space & \u00e9.txt": b"name",
        "100%.txt": b"percent",
        "a?b.txt": b"question",
        ".secret": b"hidden",
        ".well-known/acme": b"token",
    }
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (OLD, OLD - 1000 if data == b"outdated" else OLD))
    (root / "inside").symlink_to("old.txt")
    (root / "outside").symlink_to("/etc/hostname")
    (root / "above").symlink_to("..")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "fifo")
    return root


@dataclass
class Answer:
    status: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    path: str | None = None
    complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


def http_scope(method: str, target: str, headers: dict[str, str], **more: Any) -> dict[str, Any]:
    raw, _, query = target.partition("?")
    fields = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": method,
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": fields,
    }
    return {**scope, **more}


async def ask(
    app: Any, method: str, target: str, headers: dict[str, str] | None = None, /, **more: Any
) -> Answer:
    """Makes a request as a server does, and checks the order of what the application sends."""
    answer = Answer()
    gone = loop_event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        assert not answer.complete
        kind = message["type"]
        if kind == "http.response.start":
            assert answer.status == 0
            answer.status = message["status"]
            for name, value in message["headers"]:
                assert name == name.lower() and name.decode() not in answer.fields
                answer.fields[name.decode()] = value.decode()
            return
        assert answer.status != 0
        if kind == "http.response.pathsend":
            answer.path = message["path"]
            answer.complete = True
            return
        assert kind == "http.response.body"
        answer.pieces.append(message["body"])
        answer.complete = not message.get("more_body", False)

    await app(http_scope(method, target, headers or {}, **more), receive, send)
    assert answer.complete
    if method != "HEAD" and answer.path is None and answer.status not in (204, 304):
        assert int(answer.fields["content-length"]) == len(answer.body)
    return answer


def loop_event() -> Any:
    """An event of the loop that runs."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return trio.Event()
    return asyncio.Event()


TARGETS: list[tuple[str, int, bytes | None]] = [
    ("/", 200, b"<h1>home</h1>"),
    ("/index.html", 200, b"<h1>home</h1>"),
    ("/old.txt", 200, b"0123456789"),
    ("/old.txt?q=1", 200, b"0123456789"),
    ("/empty.txt", 200, b""),
    ("/old.txt/", 404, None),
    ("/old.txt/x", 404, None),
    ("/none", 404, None),
    ("/docs/", 200, b"docs"),
    ("/docs/sub/", 404, None),
    ("/bare/", 404, None),
    ("/.secret", 404, None),
    ("/docs/.x", 404, None),
    ("/.well-known/acme", 200, b"token"),
    ("/inside", 200, b"0123456789"),
    ("/outside", 404, None),
    ("/above/secret.txt", 404, None),
    ("/loop", 404, None),
    ("/fifo", 404, None),
    ("/with%20space%20%26%20%C3%A9.txt", 200, b"name"),
    ("/100%25.txt", 200, b"percent"),
    ("/a%3Fb.txt", 200, b"question"),
    ("//old.txt", 200, b"0123456789"),
    ("/./old.txt", 200, b"0123456789"),
    ("/docs/../old.txt", 200, b"0123456789"),
    ("/../secret.txt", 400, None),
    ("/%2e%2e/secret.txt", 400, None),
    ("/docs/%2e%2e%2f%2e%2e%2fsecret.txt", 400, None),
    ("/a%00", 400, None),
    ("/docs%2Findex.html", 404, None),
    ("/%6fld.txt", 200, b"0123456789"),
    ("/" + "a" * 300, 404, None),
]


@pytest.mark.parametrize(("target", "status", "body"), TARGETS)
def test_paths(run: Any, site: Path, target: str, status: int, body: bytes | None) -> None:
    async def program() -> None:
        app = StaticFiles(site)
        answer = await ask(app, "GET", target)
        assert answer.status == status, answer.body
        if body is not None:
            assert answer.body == body
        else:
            assert answer.fields["content-type"] == "text/html; charset=utf-8"
        head = await ask(app, "HEAD", target)
        assert (head.status, head.body) == (status, b"")
        assert head.fields == answer.fields

    run(program)


def test_types_and_validators(run: Any, site: Path) -> None:
    async def program() -> None:
        app = StaticFiles(site)
        answer = await ask(app, "GET", "/style.css")
        assert answer.fields["content-type"] == "text/css; charset=utf-8"
        assert answer.fields["accept-ranges"] == "bytes"
        assert "vary" not in answer.fields
        etag, date = answer.fields["etag"], answer.fields["last-modified"]
        assert etag.startswith('"')
        assert date == "Sun, 13 Sep 2020 12:26:40 GMT"
        for condition, status in (
            ({"If-None-Match": etag}, 304),
            ({"If-None-Match": f'"x", W/{etag}'}, 304),
            ({"If-None-Match": '"x"'}, 200),
            ({"If-Modified-Since": date}, 304),
            ({"If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 200),
            ({"If-Match": '"x"'}, 412),
            ({"If-Match": etag}, 200),
            ({"If-Unmodified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 412),
            ({"Range": "bytes=0-0", "If-Range": etag}, 206),
            ({"Range": "bytes=0-0", "If-Range": '"x"'}, 200),
        ):
            answer = await ask(app, "GET", "/style.css", condition)
            assert answer.status == status, condition
            if status == 304:
                assert (answer.body, answer.fields["etag"]) == (b"", etag)
                assert "content-type" not in answer.fields

    run(program)


def test_ranges(run: Any, site: Path) -> None:
    async def program() -> None:
        app = StaticFiles(site)
        large = (site / "large.bin").read_bytes()
        size = len(large)
        for value, begin, end in (
            ("bytes=0-0", 0, 1),
            ("bytes=2-4", 2, 5),
            ("bytes=500000-", 500_000, size),
            ("bytes=-3", size - 3, size),
            (f"bytes=-{2 * size}", 0, size),
        ):
            answer = await ask(app, "GET", "/large.bin", {"Range": value})
            assert (answer.status, answer.body) == (206, large[begin:end])
            assert answer.fields["content-range"] == f"bytes {begin}-{end - 1}/{size}"
            assert max(map(len, answer.pieces)) <= PIECE
        for value in ("bytes=a-b", "lines=1-2", "bytes=3-2"):
            assert (await ask(app, "GET", "/large.bin", {"Range": value})).body == large
        answer = await ask(app, "GET", "/large.bin", {"Range": f"bytes={size}-"})
        assert (answer.status, answer.fields["content-range"]) == (416, f"bytes */{size}")
        head = await ask(app, "HEAD", "/large.bin")
        assert head.fields["content-length"] == str(size)

    run(program)


def test_several_ranges(run: Any, site: Path) -> None:
    async def program() -> None:
        app = StaticFiles(site)
        large = (site / "large.bin").read_bytes()
        answer = await ask(app, "GET", "/large.bin", {"Range": "bytes=0-1,300000-600000,-1"})
        assert answer.status == 206
        kind, _, boundary = answer.fields["content-type"].partition("; boundary=")
        assert kind == "multipart/byteranges"
        parts = answer.body.split(b"--" + boundary.encode())
        assert (parts[0], parts[-1]) == (b"", b"--\r\n")
        bodies = [part.partition(b"\r\n\r\n")[2] for part in parts[1:-1]]
        expected = (large[:2], large[300_000:600_001], large[-1:])
        assert bodies == [body + b"\r\n" for body in expected]

    run(program)


def test_methods(run: Any, site: Path) -> None:
    async def program() -> None:
        app = StaticFiles(site)
        for method, status in (
            ("POST", 405),
            ("PUT", 405),
            ("DELETE", 405),
            ("OPTIONS", 204),
            ("BREW", 501),
        ):
            answer = await ask(app, method, "/old.txt")
            assert answer.status == status
            if status != 501:
                assert answer.fields["allow"] == "GET, HEAD, OPTIONS"

    run(program)


def test_precompressed_files(run: Any, site: Path) -> None:
    async def program() -> None:
        app = StaticFiles(site, precompressed=["br", "gzip"])
        accept = {"Accept-Encoding": "gzip, br;q=0.5"}
        answer = await ask(app, "GET", "/page.html", accept)
        assert gzip.decompress(answer.body) == b"page"
        assert answer.fields["content-encoding"] == "gzip"
        assert answer.fields["content-type"] == "text/html; charset=utf-8"
        assert answer.fields["vary"] == "Accept-Encoding"
        unchanged = await ask(
            app, "GET", "/page.html", {**accept, "If-None-Match": answer.fields["etag"]}
        )
        assert (unchanged.status, unchanged.fields["vary"]) == (304, "Accept-Encoding")
        for target, headers in (("/page.html", {}), ("/style.css", accept), ("/old.txt", accept)):
            answer = await ask(app, "GET", target, headers)
            assert answer.body == (site / target[1:]).read_bytes()
            assert "content-encoding" not in answer.fields
            assert answer.fields["vary"] == "Accept-Encoding"

    run(program)


def test_options_of_the_application(run: Any, site: Path) -> None:
    async def program() -> None:
        assert (await ask(StaticFiles(site, dotfiles=True), "GET", "/.secret")).status == 200
        assert (await ask(StaticFiles(site, symlinks="refuse"), "GET", "/inside")).status == 404
        follows = StaticFiles(site, symlinks="follow")
        assert (await ask(follows, "GET", "/above/secret.txt")).body == SECRET
        other = StaticFiles(site, index=["none", "old.txt"])
        assert (await ask(other, "GET", "/docs/sub/")).body == b"sub"
        with pytest.raises(ValueError, match="symlinks"):
            StaticFiles(site, symlinks="some")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="codings"):
            StaticFiles(site, precompressed=["rar"])
        with pytest.raises(FileNotFoundError):
            StaticFiles(site / "none")
        with pytest.raises(NotADirectoryError):
            StaticFiles(os.fsencode(site / "old.txt"))

    run(program)


def test_below_a_prefix(run: Any, site: Path) -> None:
    async def program() -> None:
        app = StaticFiles(site)
        for scope in (
            {"root_path": "/a b"},
            # As servers do that do not know the escaped path, or leave the prefix off.
            {"root_path": "/a b", "raw_path": None},
            {"root_path": "/a b", "path": "/docs/sub/old.txt"},
        ):
            answer = await ask(app, "GET", "/a%20b/docs/sub/old.txt", **scope)
            assert answer.body == b"sub", scope
        answer = await ask(app, "GET", "/a%20b/docs?q=1", root_path="/a b")
        assert (answer.status, answer.fields["location"]) == (301, "./docs/?q=1")
        assert (await ask(app, "GET", "/a%20b", root_path="/a b")).body == b"<h1>home</h1>"
        assert (await ask(app, "GET", "/a%20bc/old.txt", root_path="/a b")).status == 404
        # An escaped slash is a part of a name, wherever the prefix ends.
        assert (await ask(app, "GET", "/p/docs%2Findex.html", root_path="/p")).status == 404
        assert (await ask(app, "GET", "/p/../old.txt", root_path="/p")).status == 400

    run(program)


def test_other_protocols_are_refused(run: Any, site: Path) -> None:
    async def program() -> None:
        for kind in ("lifespan", "websocket"):
            with pytest.raises(ValueError, match=kind):
                await StaticFiles(site)({"type": kind}, None, None)  # type: ignore[arg-type]

    run(program)


def test_the_server_may_send_the_file(run: Any, site: Path) -> None:
    async def program() -> None:
        app = StaticFiles(site)
        extensions = {"extensions": {"http.response.pathsend": {}}}
        answer = await ask(app, "GET", "/inside", **extensions)
        assert answer.path == os.path.realpath(site / "old.txt")
        assert answer.fields["content-length"] == "10"
        answer = await ask(app, "GET", "/inside", {"Range": "bytes=1-2"}, **extensions)
        assert (answer.path, answer.body) == (None, b"12")
        assert (await ask(app, "HEAD", "/inside", **extensions)).path is None
        assert (await ask(app, "GET", "/none", **extensions)).path is None

    run(program)


def test_a_file_that_becomes_shorter(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"

    async def program() -> None:
        path.write_bytes(bytes(3 * PIECE))
        sent = 0

        async def receive() -> Any:
            await loop_event().wait()

        async def send(message: Any) -> None:
            nonlocal sent
            if piece := message.get("body"):
                sent += len(piece)
                os.truncate(path, PIECE)

        with pytest.raises(EOFError):
            await StaticFiles(tmp_path)(http_scope("GET", "/file", {}), receive, send)
        assert sent == PIECE

    run(program)


@pytest.mark.parametrize("version", ["2.3", "2.4"])
def test_a_client_that_leaves_stops_the_body(run: Any, tmp_path: Path, version: str) -> None:
    with open(tmp_path / "file", "wb") as file:
        # So long that reading it all would not end.
        file.truncate(1 << 40)

    async def program() -> None:
        sent = 0
        event: Any = loop_event()

        async def receive() -> Any:
            await event.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal sent
            sent += len(message.get("body", b""))
            if sent >= 10 * PIECE:
                event.set()
                if version == "2.4":
                    raise OSError("the client is gone")

        scope = http_scope("GET", "/file", {}, asgi={"version": "3.0", "spec_version": version})
        before = len(os.listdir("/proc/self/fd"))
        await StaticFiles(tmp_path)(scope, receive, send)
        assert sent >= 10 * PIECE
        # The engine's own descriptors may have come.
        assert len(os.listdir("/proc/self/fd")) <= before + 8
        assert not any(
            os.readlink(f"/proc/self/fd/{number}") == str(tmp_path / "file")
            for number in os.listdir("/proc/self/fd")
            if os.path.islink(f"/proc/self/fd/{number}")
        )

    run(program)


segments = st.sampled_from(
    ["..", ".", "", "docs", "sub", "old.txt", "above", "outside", "secret.txt", "inside", "loop"]
    + ["etc", "hostname", "%", "é", "\\", "..;", "a b", "\0", "/", "../", ".secret", "\ud800"]
)


def escaped(text: str, how: list[int]) -> str:
    """Escapes some of the characters: all that need it, and others as the numbers say."""
    out = []
    for index, byte in enumerate(text.encode(errors="surrogatepass")):
        plain = chr(byte)
        must = not (plain.isalnum() or plain in "-._~") or byte >= 128
        twice = how[index % len(how)] == 2
        out.append(f"%{byte:02x}" if must or how[index % len(how)] else plain)
        if twice and must:
            out[-1] = quote(out[-1])
    return "".join(out)


@given(st.lists(segments, max_size=6), st.lists(st.integers(0, 2), min_size=1, max_size=8), st.booleans())
def test_no_path_leads_outside(
    site: Path, names: list[str], how: list[int], below_prefix: bool
) -> None:
    prefix = "/some/prefix" if below_prefix else ""
    target = prefix + "/" + "/".join(escaped(name, how) for name in names)

    async def program() -> None:
        for raw in (target.encode(), None):
            more = {"raw_path": raw, "root_path": prefix}
            answer = await ask(StaticFiles(site), "GET", target, **more)
            assert answer.status in (200, 301, 400, 404)
            inside = {path.read_bytes() for path in site.rglob("*") if path.is_file()}
            if answer.status == 200:
                assert answer.body in inside and answer.body != SECRET
                assert answer.body not in (b"hidden", Path("/etc/hostname").read_bytes())

    asyncio.run(program())


@given(st.sampled_from([target for target in TARGETS if target[1] == 200]), st.data())
def test_escapes_do_not_matter(site: Path, target: tuple[str, int, bytes], data: Any) -> None:
    path = unquote(target[0].partition("?")[0])
    how = data.draw(st.lists(st.booleans(), min_size=1, max_size=8))
    raw = "/".join(escaped(name, [int(other) for other in how]) for name in path.split("/"))

    async def program() -> None:
        answer = await ask(StaticFiles(site), "GET", raw)
        assert (answer.status, answer.body) == (200, target[2])

    asyncio.run(program())


def test_mounted_in_starlette(site: Path) -> None:
    applications = pytest.importorskip("starlette.applications")
    from starlette.routing import Mount

    app = applications.Starlette(routes=[Mount("/files", laio.asgi.StaticFiles(site))])

    async def program() -> None:
        assert (await ask(app, "GET", "/files/docs/")).body == b"docs"
        assert (await ask(app, "GET", "/files/docs")).fields["location"] == "./docs/"
        assert (await ask(app, "GET", "/files/docs%2Findex.html")).status == 404
        answer = await ask(app, "GET", "/files/old.txt", {"Range": "bytes=1-2"})
        assert (answer.status, answer.body) == (206, b"12")
        assert (await ask(app, "GET", "/other")).status == 404

    asyncio.run(program())


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_the_same_answers_without_openat2(number: int) -> None:
    # The other tests of this file, in a process for which the calls fail. io_uring would make `openat2`
    # behind the filter's back.
    if forbidden := os.environ.get("LAIO_TEST_FORBIDDEN"):
        pytest.skip(f"{forbidden} is forbidden already")
    numbers = ",".join(map(str, forbid.OPENAT2 + forbid.IO_URING))
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "asyncio", __file__]
    done = subprocess.run(
        [sys.executable, forbid.__file__, numbers, str(number), sys.executable, *tests],
        env={**os.environ, "LAIO_TEST_FORBIDDEN": "openat2"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "OSError" in done.stderr and "seccomp" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
