#!/usr/bin/env python3
"""How much slower a server is while `laio stalls` watches it, in interleaved rounds: requests in a second, and the processor
time of the server for a request, which says more on a busy machine. Also the processor time of the watch itself.

    benches/stalls/slowdown.py LAIO ROUNDS SECONDS PORT -- SERVER…

The server answers HTTP on PORT of 127.0.0.1. Needs wrk. A round measures the server alone, with `laio stalls -p`, and with
`laio stalls -p --no-perf`, in an order that changes from round to round.
"""

import glob
import os
import re
import socket
import statistics
import subprocess
import sys
import time

CASES = {"alone": None, "perf": [], "sampling": ["--no-perf"]}


def main():
    laio, rounds, seconds, port = sys.argv[1:5]
    server = subprocess.Popen(sys.argv[6:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(int(port))
        results = {case: [] for case in CASES}
        for number in range(int(rounds)):
            order = list(CASES)[number % 3:] + list(CASES)[:number % 3]
            for case in order:
                results[case].append(measure(laio, CASES[case], server.pid, seconds, port))
        for case, of_case in results.items():
            ratios = [[ours / alone for ours, alone in zip(mine, others)]
                      for mine, others in [(m[:2], o[:2]) for m, o in zip(of_case, results["alone"])]]
            rate, cost, watch = (statistics.median(values) for values in zip(*of_case))
            print(f"{case:9} {rate:7.0f} requests/s, {cost:5.1f} µs of processor time each; the watch has "
                  f"{100 * watch:.1f} % of a processor")
            for name, values in (("requests/s", [r[0] for r in ratios]), ("processor time", [r[1] for r in ratios])):
                print(f"          {name}: ratio to alone {statistics.median(values):.3f}, "
                      f"{min(values):.3f} to {max(values):.3f}")
    finally:
        server.terminate()


def measure(laio, options, pid, seconds, port):
    watch = None
    if options is not None:
        command = [laio, "stalls", "--quiet", "-p", str(pid), *options]
        watch = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
    load = ["wrk", "-t1", "-c32", f"-d{seconds}s", f"http://127.0.0.1:{port}/"]
    before, begin = used(pid), time.monotonic()
    watched = used(watch.pid) if watch else 0
    output = subprocess.run(load, check=True, capture_output=True, text=True).stdout
    lasted, cost = time.monotonic() - begin, used(pid) - before
    watched = (used(watch.pid) - watched) / lasted if watch else 0
    if watch:
        watch.terminate()
        watch.wait()
    requests = int(re.search(r"(\d+) requests in", output)[1])
    return requests / lasted, 1e6 * cost / requests, watched


def used(pid):
    """The processor time of a process and of its children, in seconds."""
    total = 0
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            words = open(stat).read().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        if pid in (int(stat.split("/")[2]), int(words[1])):
            total += int(words[11]) + int(words[12])
    return total / os.sysconf("SC_CLK_TCK")


def wait_for(port):
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
    sys.exit(f"no server at port {port}")


main()
