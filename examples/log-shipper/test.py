"""Both versions send the same bytes of logs that grow, and fail with the same messages: test.py BEFORE AFTER."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from shipping import Collector, start

BUFFER = 65536


def append_pieces(logs: list[Path], seed: int) -> None:
    """Appends lines in pieces that end anywhere; each log ends with a whole line."""
    choose = random.Random(seed)
    texts = {
        log: b"".join(b"%d %s\n" % (number, b"x" * choose.choice([0, 5, 80, 3000])) for number in range(200))
        for log in logs
    }
    texts[logs[0]] += b"long" * BUFFER + b"\n"
    files = {log: log.open("ab", 0) for log in logs}
    while texts:
        log = choose.choice(list(texts))
        length = choose.choice([1, 7, 100, 5000, 200_000])
        files[log].write(texts[log][:length])
        texts[log] = texts[log][length:]
        if not texts[log]:
            del texts[log]
    for file in files.values():
        file.close()


def shipped(program: Path, directory: Path) -> dict[str, bytes]:
    """What the collector has of logs that grow while the program follows them."""
    logs = [directory / f"log {number}" for number in range(5)]
    for number, log in enumerate(logs):
        log.write_bytes(b"first\nsecond\npart of" if number % 2 else b"")
    collector = Collector()
    shipper = start(program, collector, logs)
    append_pieces(logs, 1)
    sizes = {str(log): log.stat().st_size for log in logs}
    collector.wait_for(sizes)
    append_pieces(logs, 2)
    contents = {str(log): log.read_bytes() for log in logs}
    collector.wait_for({name: len(content) for name, content in contents.items()})
    shipper.terminate()
    _, message = shipper.communicate()
    collector.thread.join()
    assert (shipper.returncode, message) == (0, ""), (shipper.returncode, message)
    for name, content in contents.items():
        assert bytes(collector.logs[name]) == content, f"{program}: {name} differs"
    for frame in collector.frames:
        assert frame.endswith(b"\n") or len(frame) == BUFFER, f"{program}: a part of a line: {frame[-80:]!r}"
    return {Path(name).name: bytes(content) for name, content in collector.logs.items()}


def refused(program: Path, log: Path) -> tuple[int, str]:
    shipper = start(program, Collector(), [log])
    _, message = shipper.communicate()
    return shipper.returncode, message


def main() -> None:
    before, after = (Path(argument).absolute() for argument in sys.argv[1:3])
    results = []
    for program in (before, after):
        with tempfile.TemporaryDirectory() as directory:
            results.append(shipped(program, Path(directory)))
    assert results[0] == results[1], "the versions differ"
    for missing in (Path("/none/log"), Path("/proc/self/mem/log")):
        assert refused(before, missing) == refused(after, missing), missing
    assert refused(after, Path("/none/log")) == (1, "shipper: /none/log: no such file or directory\n")
    print(f"both versions sent the same {sum(map(len, results[0].values()))} bytes of {len(results[0])} logs")


main()
