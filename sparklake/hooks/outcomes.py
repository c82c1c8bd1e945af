"""What came of running a hook."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.graveler.ports.registers import HookStatus


@dataclass(frozen=True, slots=True)
class Outcome:
    """Is what came of a hook; one that is not allowed has failed without being run."""

    status: HookStatus
    output: str = ""
    is_allowed: bool = True


def passed(output: str = "") -> Outcome:
    """Returns that a hook has nothing against it."""
    return Outcome(HookStatus.PASSED, output)


def failed(output: str) -> Outcome:
    """Returns that a hook refuses, or that it could not be asked."""
    return Outcome(HookStatus.FAILED, output)
