"""Both versions answer the same, and differ in few lines."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

import httpx
from serving import served

# Of the fields of a response, those that both must have. Dates and entity tags are those of other files.
FIELDS = ("content-type", "content-length", "content-range", "accept-ranges", "location")


def answers(address: str, directory: Path, uploads: dict[str, bytes]) -> list[Any]:
    """What a version answers to the same requests."""
    seen: list[Any] = []
    with httpx.Client(base_url=address, timeout=120) as client:

        def ask(method: str, path: str, **options: Any) -> None:
            answer = client.request(method, path, **options)
            fields = {name: answer.headers[name] for name in FIELDS if name in answer.headers}
            seen.append((method, path, answer.status_code, fields, answer.content))

        for name, content in uploads.items():
            ask("PUT", f"/files/{name}", files={"file": (name, content)})
        assert all(status == 201 for _, _, status, _, _ in seen), seen
        assert {path.name: path.read_bytes() for path in directory.iterdir()} == uploads
        ask("GET", "/files")
        for name, content in uploads.items():
            ask("GET", f"/files/{name}")
            assert seen[-1][2] == 200 and seen[-1][4] == content, name
            ask("HEAD", f"/files/{name}")
        ask("GET", "/files/large.bin", headers={"Range": "bytes=1000000-1999999"})
        ask("GET", "/files/large.bin", headers={"Range": "bytes=-1"})
        for name in ("none", ".hidden", "a%2Fb"):
            ask("DELETE", f"/files/{name}")
            ask("GET", f"/files/{name}")
        ask("PUT", "/files/.hidden", files={"file": ("x", b"x")})
        ask("PUT", "/files/no-file")
        ask("POST", "/files/page.html")
        ask("PUT", "/files/page.html", files={"file": ("x", b"replaced")})
        ask("GET", "/files/page.html")
        ask("DELETE", "/files/page.html")
        ask("GET", "/files/page.html")
        ask("GET", "/files")
    assert sorted(path.name for path in directory.iterdir()) == sorted(set(uploads) - {"page.html"})
    return seen


def main() -> None:
    uploads = {
        "page.html": b"<p>text</p>",
        "empty.txt": b"",
        "with space.json": b"{}",
        "small.bin": os.urandom(5000),
        # More than Starlette keeps in memory.
        "large.bin": os.urandom(5_000_001),
    }
    results = []
    for version in ("before", "after"):
        with served(version) as (address, _, directory):
            results.append(answers(address, directory, uploads))
    for before, after in zip(*results, strict=True):
        assert before == after, f"before: {before}\nafter: {after}"

    sources = [Path(__file__).with_name(name).read_text().splitlines()[1:] for name in ("before.py", "after.py")]
    changed = [line for line in difflib.ndiff(*sources) if line[0] in "-+"]
    assert sorted(changed) == [
        "+ from laio.asgi import StaticFiles",
        "+ from laio.compat import aiofiles",
        "- from fastapi.staticfiles import StaticFiles",
        "- import aiofiles",
        "- import aiofiles.os",
    ], changed
    print(f"both versions gave the same {len(results[0])} answers")


main()
