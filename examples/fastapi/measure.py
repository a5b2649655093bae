"""Compares the versions. Medians of interleaved rounds; requests in a second as the ratio of two servers' rounds."""

from __future__ import annotations

import http.client
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from serving import served

ROUNDS = 7
CLIENTS = 4
BOUNDARY = "boundary"


def form(content: bytes) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    return head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


def request_many(address: str, method: str, path: str, body: bytes | None, count: int) -> None:
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"} if body else {}
    for _ in range(count):
        connection.request(method, path, body, kind)
        answer = connection.getresponse()
        assert answer.status in (200, 201), answer.status
        answer.read()
    connection.close()


def counts(process: int) -> tuple[int, float]:
    """The context switches and seconds of processor time of all threads."""
    switches, nanoseconds = 0, 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        nanoseconds += int((thread / "schedstat").read_text().split()[0])
        for line in (thread / "status").read_text().splitlines():
            if "ctxt_switches" in line:
                switches += int(line.split()[1])
    return switches, nanoseconds / 1e9


def measured(address: str, process: int, case: tuple[str, str, bytes | None, int]) -> tuple[float, float, float]:
    """Context switches and µs of processor time of the server for a request, and seconds for all requests."""
    method, path, body, count = case
    switches, seconds = counts(process)
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(request_many, address, method, path, body, count) for _ in range(CLIENTS)]:
            done.result()
    took = time.monotonic() - began
    switches_then, seconds_then = counts(process)
    requests = count * CLIENTS
    return (switches_then - switches) / requests, (seconds_then - seconds) / requests * 1e6, took


def main() -> None:
    cases = {
        "GET of 4 KiB": ("GET", "/files/small", None, 250),
        "GET of 1 MiB": ("GET", "/files/large", None, 50),
        "PUT of 4 KiB": ("PUT", "/files/put", form(os.urandom(4096)), 100),
        "PUT of 4 MiB": ("PUT", "/files/put", form(os.urandom(4 << 20)), 5),
        "the list of 100 files": ("GET", "/files", None, 25),
    }
    with ExitStack() as stack:
        servers = [stack.enter_context(served(version)) for version in ("before", "after")]
        for _, _, directory in servers:
            (directory / "small").write_bytes(os.urandom(4096))
            (directory / "large").write_bytes(os.urandom(1 << 20))
            for number in range(98):
                (directory / f"more{number}").write_bytes(b"x")
        for name, case in cases.items():
            rounds = [[measured(address, process, case) for address, process, _ in servers] for _ in range(ROUNDS)]
            switches, micros = (
                [statistics.median(row[version][number] for row in rounds) for version in (0, 1)] for number in (0, 1)
            )
            rate = statistics.median(before[2] / after[2] for before, after in rounds)
            print(
                f"{name}: context switches {switches[0]:.1f}, {switches[1]:.1f}; processor time µs {micros[0]:.0f}, "
                f"{micros[1]:.0f} ({micros[1] / micros[0]:.2f}); rate {rate:.2f}"
            )


if __name__ == "__main__":
    main()
