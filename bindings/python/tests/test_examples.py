"""The programs in `examples`, and those in the documentation."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
PAGES = [PACKAGE / "README.md", PACKAGE / "../../docs/python.md"]


def programs() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        if page.exists():
            blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
            found += [(f"{page.name}-{index}", block) for index, block in enumerate(blocks)]
    return found


def start(*command: str | Path, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-X", "dev", *command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*command: str | Path, cwd: Path) -> str:
    with start(*command, cwd=cwd) as process:
        output, errors = process.communicate()
    # On a busy machine asyncio says that a step took long.
    lines = [line for line in errors.splitlines() if not line.startswith("Executing <")]
    assert (process.returncode, lines) == (0, [])
    return output


@pytest.mark.parametrize("program", [pytest.param(text, id=name) for name, text in programs()])
def test_a_program_of_the_documentation(program: str, tmp_path: Path) -> None:
    for needed in re.findall(r"^(?:from|import) (fastapi|starlette|uvicorn)", program, re.M):
        pytest.importorskip(needed)
    (tmp_path / "static").mkdir()
    # It makes what it needs, and ends by itself.
    run("-c", program, cwd=tmp_path)


def test_tree_hash(tmp_path: Path) -> None:
    files = {"a/b": b"x" * 3_000_000, "c": b"", "d": b"text"}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    lines = [
        f"{hashlib.sha256(data).hexdigest()} {tmp_path}/{name}\n" for name, data in files.items()
    ]
    whole = hashlib.sha256("".join(lines).encode()).hexdigest()
    output = run(PACKAGE / "examples/tree_hash.py", tmp_path, cwd=tmp_path)
    assert output == "".join(lines) + f"{whole} all\n"


def test_csv_sum(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('name,size\n"x,\ny",1.5\nz,2\n')
    (tmp_path / "b.csv").write_text("size\r\n10\r\n")
    output = run(PACKAGE / "examples/csv_sum.py", "size", "a.csv", "b.csv", cwd=tmp_path)
    assert [line.split() for line in output.splitlines()] == [
        ["3.5", "a.csv"],
        ["10", "b.csv"],
        ["13.5", "all"],
    ]


def test_watched(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file")
    example = PACKAGE / "examples/watched.py"
    with start(example, "open", "file", cwd=tmp_path) as process:
        assert process.stderr is not None
        warning = process.stderr.readline()
        assert warning.startswith("the event loop has not turned for"), warning
        (tmp_path / "file").write_bytes(b"text")
        output, _ = process.communicate()
    assert output.startswith("4 bytes, stalls: "), output


def test_follow_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    with start(PACKAGE / "examples/follow_log.py", "log", cwd=tmp_path) as process:
        assert process.stdout is not None
        try:
            # It says when it stands at the end of the file.
            assert process.stdout.readline() == "follows log\n"
            with log.open("a") as file:
                file.write("first\nsec")
                file.flush()
                assert process.stdout.readline() == "first\n"
                file.write("ond\n")
                file.flush()
                assert process.stdout.readline() == "second\n"
            log.write_text("new\n")
            assert process.stdout.readline() == "new\n"
        finally:
            # It does not end by itself.
            process.kill()
