"""Runs each test that takes `run` on asyncio, on uvloop and on trio."""

import asyncio
import os

import pytest
from hypothesis import settings

# The same random programs each time, unless LAIO_EXAMPLES asks for a number of others.
settings.register_profile("fixed", derandomize="LAIO_EXAMPLES" not in os.environ, deadline=None)
settings.load_profile("fixed")


def _run_in_asyncio(function, *args):
    return asyncio.run(function(*args))


def _run_in_uvloop(function, *args):
    uvloop = pytest.importorskip("uvloop")
    return uvloop.run(function(*args))


def _run_in_trio(function, *args):
    trio = pytest.importorskip("trio")
    return trio.run(function, *args)


_RUNNERS = {"asyncio": _run_in_asyncio, "uvloop": _run_in_uvloop, "trio": _run_in_trio}


@pytest.fixture(params=_RUNNERS, scope="session")
def run(request):
    """A function that calls a coroutine function with arguments, in an event loop of its own."""
    return _RUNNERS[request.param]


@pytest.fixture(params=["asyncio", "uvloop"], scope="session")
def run_asyncio(request):
    """As `run`, for what works in asyncio only."""
    return _RUNNERS[request.param]
