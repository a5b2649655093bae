"""The two versions of the application, as servers with a directory of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(version: str) -> Iterator[tuple[str, int, Path]]:
    """The address of a server, its process, and its directory."""
    with tempfile.TemporaryDirectory() as directory:
        server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("serve.py")), version],
            env={**os.environ, "FILES": directory},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout
        try:
            yield server.stdout.readline().strip(), server.pid, Path(directory)
        finally:
            server.terminate()
            server.wait()
