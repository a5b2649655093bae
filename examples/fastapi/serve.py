"""Serves one version: FILES=DIRECTORY python serve.py before|after [PORT]. Prints its address."""

from __future__ import annotations

import importlib
import socket
import sys

import uvicorn

application = importlib.import_module(sys.argv[1]).app
listener = socket.create_server(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(application, log_level="warning")).run(sockets=[listener])
