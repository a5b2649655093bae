#!/usr/bin/env python3
"""Asks nginx and laio for the same paths of the sites in examples/sites, and compares what answers.

    benches/nginx/compare.py LAIO [SITE…] [-v]

Needs nginx and php-fpm (Debian: nginx-light, php-fpm), which it starts on ports of the loopback interface with
files in a temporary directory. Counts the differences by their reasons, which `reasons.toml` has, and prints those
without one; -v prints every path. Exits with 1 if a difference has no reason, or a reason no difference.
"""

import glob
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import urllib.parse

sys.dont_write_bytecode = True
import sites  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples" / "sites"


class Application(http.server.BaseHTTPRequestHandler):
    """Answers as an application behind a proxy, and says which path it got."""

    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = json.dumps({"script": "application", "uri": path, "query": query}).encode()
        self.send_response(200)
        self.send_header("X-Answered-By", "program")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait(check, what):
    for _ in range(300):
        if check():
            return
        time.sleep(0.1)
    sys.exit(f"{what} does not start")


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def ask(port, target):
    """Returns the status, the fields and the body of the answer to a path, which is sent as it is."""
    with socket.create_connection(("127.0.0.1", port), 20) as one:
        one.sendall(f"GET {target} HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := one.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if fields.get("transfer-encoding") == "chunked":
        rest, body = body, b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return int(lines[0].split()[1]), fields, body


def answered(port, target):
    """Returns what answered: a refusal, a redirect and its target, a file by its name, a program by its script."""
    status, fields, body = ask(port, target)
    if "x-answered-by" in fields:
        values = json.loads(body)
        query = f"?{values['query']}" if values["query"] else ""
        return f"{status} program {values['script']}{query}"
    if 300 <= status < 400:
        location = urllib.parse.urlsplit(fields["location"])
        query = f"?{location.query}" if location.query else ""
        return f"{status} to {location.path}{query}"
    if status == 200:
        text = body.decode("utf-8", "replace")
        return "200 text of a script" if text.startswith("<?php") else f"200 {text.strip()}"
    return str(status)


def configured(source, directory, changes):
    text = source.read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    made = directory / source.name
    made.write_text(text)
    return made


class Servers:
    """What runs for one site."""

    def __init__(self, laio, site, directory):
        self.children = []
        self.application = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Application)
        threading.Thread(target=self.application.serve_forever, daemon=True).start()
        self.ports = {"nginx": free_port(), "laio": free_port()}
        php = directory / "php.sock"
        changes = {
            f"/srv/{site}": str(directory / site),
            "/run/php/php-fpm.sock": str(php),
            "127.0.0.1:8000": f"127.0.0.1:{self.application.server_address[1]}",
        }
        self.run_php(directory, php)
        own = {**changes, "127.0.0.1:80;": f"127.0.0.1:{self.ports['nginx']};"}
        self.run_nginx(configured(HERE / f"{site}.conf", directory, own), directory)
        toml = configured(EXAMPLES / f"{site}.toml", directory, changes)
        listen = f"127.0.0.1:{self.ports['laio']}"
        options = ["--config", toml, "--listen", listen, "--log", "off", "--workers", "1"]
        self.start([laio, "serve", *options], directory)
        wait(lambda: php.exists() and all(map(listens, self.ports.values())), "a server")

    def start(self, command, directory):
        log = open(directory / "messages", "ab")
        self.children.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=directory))

    def run_php(self, directory, php):
        fpm = sorted(glob.glob("/usr/sbin/php-fpm*")) or sys.exit("php-fpm is not installed")
        config = directory / "php-fpm.conf"
        config.write_text(
            f"[global]\ndaemonize=no\nerror_log={directory}/php.log\n[www]\nuser=www-data\ngroup=www-data\n"
            f"listen={php}\nlisten.mode=0666\npm=static\npm.max_children=2\n"
        )
        self.start([fpm[-1], "-F", "-y", config], directory)

    def run_nginx(self, site, directory):
        config = directory / "nginx.conf"
        config.write_text(
            f"user root; daemon off; worker_processes 1; pid {directory}/nginx.pid;\n"
            f"error_log {directory}/nginx.log;\nevents {{}}\nhttp {{\n include mime.types;\n"
            f" default_type application/octet-stream;\n access_log off;\n include {site};\n}}\n"
        )
        for name in ("fastcgi_params", "mime.types"):
            shutil.copy(f"/etc/nginx/{name}", directory)
        self.start(["nginx", "-c", config, "-p", directory], directory)

    def stop(self):
        self.application.shutdown()
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.wait()


def compare(laio, site, reasons, every):
    """Returns how many paths differ, and how many of them without a reason."""
    with tempfile.TemporaryDirectory(prefix="laio-nginx-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        sites.make(site, directory / site, (HERE / "echo.php").read_text())
        servers = Servers(laio, site, directory)
        try:
            both = servers.ports.values()
            rows = [(path, *(answered(port, path) for port in both)) for path in sites.paths(site)]
        finally:
            servers.stop()
    unexplained, counts = 0, dict.fromkeys(reasons, 0)
    for path, nginx, own in rows:
        if nginx == own:
            if every:
                print(f"  {path}: {own}")
            continue
        names = (name for name, rule in reasons.items() if fits(rule, path, nginx, own))
        reason = next(names, None)
        counts[reason] = counts.get(reason, 0) + 1
        unexplained += reason is None
        if every or reason is None:
            print(f"  {path}: nginx {nginx}; laio {own} ({reason or 'WITHOUT A REASON'})")
    same = sum(nginx == own for _, nginx, own in rows)
    reasons = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    print(f"{site}: {len(rows)} paths, {same} the same; {reasons}")
    return counts, unexplained


def fits(rule, path, nginx, own):
    texts = {"path": path, "nginx": nginx, "laio": own}
    return all(re.search(pattern, texts[key]) for key, pattern in rule.items() if key in texts)


def main():
    words = [word for word in sys.argv[1:] if word != "-v"]
    if not words:
        sys.exit(__doc__)
    laio, wanted = os.path.abspath(words[0]), words[1:] or sorted(sites.FILES)
    reasons = tomllib.loads((HERE / "reasons.toml").read_text())
    total, wrong = dict.fromkeys(reasons, 0), 0
    for site in wanted:
        counts, unexplained = compare(laio, site, reasons, "-v" in sys.argv)
        wrong += unexplained
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    unused = [name for name in reasons if not total[name]] if wanted == sorted(sites.FILES) else []
    for name in unused:
        print(f"the reason {name!r} explains nothing")
    sys.exit(1 if wrong or unused else 0)


if __name__ == "__main__":
    main()
