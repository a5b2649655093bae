"""Whose rights calls in the background have."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import laio

OTHER = 65534


def _outcome(call: Callable[[], object]) -> object:
    try:
        call()
    except OSError as error:
        return error.errno
    return None


async def _outcome_here(call: Awaitable[object]) -> object:
    try:
        await call
    except OSError as error:
        return error.errno
    return None


async def _compare(directory: str, stage: str) -> None:
    plain = os.path.join(directory, f"plain-{stage}")
    here = os.path.join(directory, f"laio-{stage}")
    assert _outcome(lambda: os.mkdir(plain)) == await _outcome_here(laio.os.mkdir(here))
    moved = _outcome(lambda: os.rename(plain, f"{plain}-moved"))
    assert moved == await _outcome_here(laio.os.rename(here, f"{here}-moved"))
    secret = os.path.join(directory, "secret")
    opened = _outcome(lambda: open(secret).close())
    assert opened == await _outcome_here(laio.Path(secret).read_bytes())
    if stage.startswith("changed"):
        assert opened == errno.EACCES


async def _all_threads(directory: str) -> None:
    """All threads of the process give up rights, and get them back."""
    await _compare(directory, "before")
    os.seteuid(OTHER)
    for round in range(3):
        await _compare(directory, f"changed-{round}")
    os.seteuid(0)
    await _compare(directory, "back")


async def _own_thread(directory: str) -> None:
    """Only this thread gives up rights, by the system call itself."""
    await _compare(directory, "before")
    assert ctypes.CDLL(None).syscall(122, OTHER) == 0  # setfsuid of x86-64, returns the one before
    await _compare(directory, "changed")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
@pytest.mark.parametrize("rights, scenario", [
    ("process", "_all_threads"),
    ("thread", "_all_threads"),
    ("thread", "_own_thread"),
])
def test_calls_have_the_rights_of(rights: str, scenario: str) -> None:
    if scenario == "_own_thread" and os.uname().machine != "x86_64":
        pytest.skip("the number of setfsuid is that of x86-64")
    # Others may look into it, unlike the directories of pytest.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        os.chmod(directory, 0o755)
        secret = Path(directory, "secret")
        secret.write_text("a")
        secret.chmod(0o600)
        source = f"import asyncio, laio, test_rights; laio.set_rights({rights!r}); "
        source += f"asyncio.run(test_rights.{scenario}({directory!r}))"
        here = Path(__file__).parent
        subprocess.run([sys.executable, "-c", source], check=True, cwd=here)


def test_rights_are_set_before_the_first_call() -> None:
    async def use() -> None:
        await laio.os.stat("/")

    asyncio.run(use())
    with pytest.raises(RuntimeError):
        laio.set_rights("thread")
    with pytest.raises(ValueError):
        laio.set_rights("both")  # type: ignore[arg-type]
