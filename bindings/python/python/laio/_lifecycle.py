"""What is done in other interpreters, in forked children, and at the end of the process."""

import atexit
import os

from . import _laio

# How long the end of the process waits for calls that hang in the kernel, in seconds.
END_TIMEOUT = 1.0

_laio.claim_process()
os.register_at_fork(after_in_child=_laio.after_fork)
atexit.register(_laio.shut_down, END_TIMEOUT)
