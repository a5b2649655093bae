#!/usr/bin/env python3
"""How many known waits `laio stalls` attributes to their call and file, with perf and without.

    benches/stalls/attribution.py LAIO KNOWN_WAITS [COUNT]

LAIO is the command, KNOWN_WAITS the example of the crate laio-stalls. A wait counts as attributed if the report has a
wait with that call and subject, of the same thread, which covers half of its time at least. Needs FUSE and the rights of
root: it runs in mount and network namespaces of its own, whose name server is KNOWN_WAITS.
"""

import collections
import json
import os
import subprocess
import sys
import tempfile

# The waits that the goal is about, in nanoseconds.
LEAST = 2_000_000

# The names that stand for one way in the table, in the order of the program.
WAYS = ["read of a pipe", "open of a FIFO", "flock", "lock of a mutex", "sleep", "wait for a child", "poll",
        "connect", "open on FUSE", "read on FUSE", "fsync on FUSE", "page fault of a mapped file", "getaddrinfo", "no processor"]

# Set in the namespaces.
INSIDE = "LAIO_ATTRIBUTION_INSIDE"

NAMESPACE = """
ip link set lo up
echo nameserver 127.0.0.1 > "$0"
mount --bind "$0" /etc/resolv.conf
exec "$@"
"""


def main():
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        with tempfile.NamedTemporaryFile() as names:
            shell = ["unshare", "-mn", "sh", "-ec", NAMESPACE, names.name]
            sys.exit(subprocess.run([*shell, sys.executable, *sys.argv]).returncode)
    laio, program = sys.argv[1:3]
    count = sys.argv[3] if len(sys.argv) > 3 else "1000"
    for means, options in [("perf", []), ("sampling", ["--no-perf"])]:
        with tempfile.TemporaryDirectory() as directory:
            truth, report = f"{directory}/truth", f"{directory}/report"
            command = [laio, "stalls", "--quiet", "--json", "--output", report, *options]
            subprocess.run([*command, "--", program, count, truth], check=True)
            compare(means, [line.rstrip("\n").split("\t") for line in open(truth)], json.load(open(report)))


def compare(means, truth, report):
    waits = report["waits"]
    moments = [(report["started_ns"] + start, length, waits[index]) for start, length, index in report["moments"]]
    moments = [moment for moment in moments if moment[2]["thread"] == "known"]
    expected, attributed, error = collections.Counter(), collections.Counter(), []
    for number, (start, length, calls, subject) in enumerate(truth):
        start, length, way = int(start), int(length), WAYS[number % len(WAYS)]
        if length < LEAST:
            continue
        expected[way] += 1
        found = [other for other in moments if covers(other, start, length, calls.split("|"), subject)]
        if found:
            attributed[way] += 1
            error.append(abs(sum(other[1] for other in found) - length))
    print(f"{means}: {sum(attributed.values())} of {sum(expected.values())} waits of 2 ms and more, "
          f"{100 * sum(attributed.values()) / sum(expected.values()):.1f} %")
    for way in WAYS:
        print(f"  {way:30} {attributed[way]:4} of {expected[way]:4}")
    error.sort()
    idle = sum(wait["count"] for wait in waits if wait["thread"] == "known" and wait["call"].startswith("epoll"))
    print(f"  error of the length, ms: median {error[len(error) // 2] / 1e6:.2f}, p95 "
          f"{error[len(error) * 95 // 100] / 1e6:.2f}; idle waits reported: {idle}")
    print(f"  {json.dumps(report['means'])}")


def covers(moment, start, length, calls, subject):
    begin, lasted, wait = moment
    shared = min(start + length, begin + lasted) - max(start, begin)
    return wait["call"] in calls and subject in wait["subject"] and shared * 2 >= length


main()
