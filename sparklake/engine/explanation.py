"""Says what a plan will do, before it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparklake.engine.choice import Runners
from sparklake.graveler.planning.packing import pack
from sparklake.graveler.planning.plan import Plan

TWO_WAY = ("left", "right")
THREE_WAY = ("base", "source", "dest")
LAYERED = ("committed",)
"""What the sides of plans are called. Those that follow are staged layers, the newest first."""


Cut = Callable[[Plan, int], Plan]
"""Cuts the pieces of a plan for tasks that read about a number of records."""


@dataclass(frozen=True, slots=True)
class SideLoad:
    """What will be read of one side; `bytes` are raw ones, as they are once decoded."""

    name: str
    ranges: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Says what a verb will do: which engine will run it, what is copied by id, what is read."""

    verb: str
    engine: str
    reason: str
    copied: int
    opened: int
    records: int
    bytes: int
    tasks: int
    sides: tuple[SideLoad, ...]


def explained(
    verb: str, plan: Plan, cut: Cut, runners: Runners, names: Sequence[str]
) -> Explanation:
    """Return what a plan will do. `cut` makes its pieces what its tasks will take."""
    choice = runners.choice(plan.records)
    plan = cut(plan, choice.task_records)
    loads = [
        SideLoad(_name(names, at), len(side.ranges), side.records, side.bytes)
        for at, side in enumerate(plan.streams)
    ]
    return Explanation(
        verb=verb,
        engine=choice.engine,
        reason=choice.reason,
        copied=sum(len(piece.ranges) for piece in plan.stretches_copied),
        opened=len(plan.opened),
        records=plan.records,
        bytes=plan.bytes,
        tasks=len(pack(plan, choice.task_records)),
        sides=tuple(loads),
    )


def _name(names: Sequence[str], at: int) -> str:
    return names[at] if at < len(names) else f"layer {at + 1 - len(names)}"
