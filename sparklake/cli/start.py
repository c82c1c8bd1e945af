"""The entry point of the `sparklake` command. It handles Ctrl-C before it imports anything."""

from __future__ import annotations

import os
import signal


def main() -> int:
    """Run the command of this process; return its exit code."""
    interrupts: list[int] = []
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    # Lazy imports: an interrupt of an import would show its stack.
    from sparklake.errors import InterruptError
    from sparklake.interrupts import EARLY_HANDLERS

    def end(*_: object) -> None:
        # Nothing is open yet.
        os.write(2, f"error: {InterruptError()}\n".encode())
        os._exit(InterruptError.exit_code)

    if is_ours:
        EARLY_HANDLERS.append(end)
        signal.signal(signal.SIGINT, end)
    if interrupts:
        end()

    from sparklake.cli.main import main as run

    return run()
