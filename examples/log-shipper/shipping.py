"""A collector, and the log shippers that send to it."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path


class Collector:
    """Takes the frames of one shipper: ``LENGTH NAME\\n``, then lines of that log."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.changed = threading.Condition()
        self.logs: dict[str, bytearray] = {}
        self.frames: list[bytes] = []
        self.keeps = True
        self.counts: dict[str, int] = {}
        self.on_frame: Callable[[str, bytes], None] | None = None
        self.thread = threading.Thread(target=self._collect, daemon=True)
        self.thread.start()

    def _collect(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb", 1 << 20) as stream:
            while head := stream.readline():
                length, name = head.decode().rstrip("\n").split(" ", 1)
                lines = stream.read(int(length))
                if self.on_frame:
                    self.on_frame(name, lines)
                with self.changed:
                    self.counts[name] = self.counts.get(name, 0) + len(lines)
                    if self.keeps:
                        self.logs.setdefault(name, bytearray()).extend(lines)
                        self.frames.append(lines)
                    self.changed.notify_all()

    def wait_for(self, counts: dict[str, int], seconds: float = 120) -> None:
        """Waits until so many bytes of each log have come; a time-out is a failure."""
        with self.changed:
            done = self.changed.wait_for(
                lambda: all(self.counts.get(name, 0) >= count for name, count in counts.items()), seconds
            )
        assert done, f"the lines did not come: {self.counts} of {counts}"


def start(program: Path, collector: Collector, logs: list[Path], **options: object) -> subprocess.Popen[str]:
    """Starts a shipper, whose messages are a pipe."""
    command = [str(program), str(collector.port), *map(str, logs)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload,no-any-return]
