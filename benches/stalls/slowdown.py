#!/usr/bin/env python3
"""How much slower a server is while `laio stalls` watches it: ratios of requests in a second, in interleaved rounds.

    benches/stalls/slowdown.py LAIO ROUNDS SECONDS PORT -- SERVER…

The server answers HTTP on PORT of 127.0.0.1. Needs wrk. A round measures the server alone, with `laio stalls -p`, and with
`laio stalls -p --no-perf`, in an order that changes from round to round.
"""

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
        rates = {case: [] for case in CASES}
        for number in range(int(rounds)):
            order = list(CASES)[number % 3:] + list(CASES)[:number % 3]
            for case in order:
                rates[case].append(measure(laio, CASES[case], server.pid, seconds, port))
        for case, of_case in rates.items():
            ratios = [rate / alone for rate, alone in zip(of_case, rates["alone"])]
            print(f"{case:10} {statistics.median(of_case):10.0f} requests/s   ratio to alone: median "
                  f"{statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    finally:
        server.terminate()


def measure(laio, options, pid, seconds, port):
    watch = None
    if options is not None:
        command = [laio, "stalls", "--quiet", "-p", str(pid), *options]
        watch = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
    load = ["wrk", "-t1", "-c32", f"-d{seconds}s", f"http://127.0.0.1:{port}/"]
    output = subprocess.run(load, check=True, capture_output=True, text=True).stdout
    if watch:
        watch.terminate()
        watch.wait()
    return float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])


def wait_for(port):
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
    sys.exit(f"no server at port {port}")


main()
