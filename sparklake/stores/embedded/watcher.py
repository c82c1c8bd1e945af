"""The watcher of a home's server: it stops a server without live users.

It imports no package and sleeps in the kernel until no process holds the lock of the users. Its
arguments are the files of that lock and of the start lock, the server's pid file, the descriptor of
a lock held while the program runs, and a command that stops an unused server.
"""

from __future__ import annotations

import fcntl
import os
import sys


def main(holders: str, start: str, pid_file: str, alive: str, *command: str) -> None:
    """Wait until the server has no users. Run the command unless the last one stopped it."""
    if os.fork():
        os._exit(0)  # Whoever starts this program waits for the parent only.
    while True:
        os.close(_locked(holders))
        gate = _locked(start)
        try:
            os.close(_locked(holders, fcntl.LOCK_NB))
            break
        except BlockingIOError:
            os.close(gate)  # A new user.
    try:
        with open(pid_file, encoding="utf-8") as lines:  # noqa: PTH123 - pathlib takes time
            is_ready = any(line.startswith("ready") for line in lines)
    except FileNotFoundError:
        is_ready = False
    # In this order: whoever starts a server afterwards must start a program like this, too.
    os.close(int(alive))
    os.close(gate)
    if is_ready:
        os.execv(command[0], command)  # noqa: S606 - the program is ours


def _locked(path: str, option: int = 0) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | option)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


if __name__ == "__main__":
    main(*sys.argv[1:])
