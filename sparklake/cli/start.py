"""The entry point of the `sparklake` command. It handles Ctrl-C before it imports anything."""

from __future__ import annotations

import os
import signal

_early: list[object] = []
"""The handler of SIGINT until the command handles interrupts, if it is ours."""


def main() -> int:
    """Run the command of this process; return its exit code."""
    interrupts: list[int] = []
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    # Lazy imports: an interrupt of an import would show its stack.
    from sparklake.errors import InterruptError

    def end(*_: object) -> None:
        # Nothing is open yet.
        os.write(2, f"error: {InterruptError()}\n".encode())
        os._exit(InterruptError.exit_code)

    if is_ours:
        _early.append(end)
        signal.signal(signal.SIGINT, end)
    if interrupts:
        end()

    from sparklake.cli.main import main as run

    return run()


def hand_over_interrupts() -> None:
    """Have an interrupt raise KeyboardInterrupt from now on, as usual."""
    if signal.getsignal(signal.SIGINT) in _early:
        signal.signal(signal.SIGINT, signal.default_int_handler)
