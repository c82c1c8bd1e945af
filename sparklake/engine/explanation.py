"""Explanations of plans before they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count

from sparklake.engine.choice import Runners
from sparklake.graveler import kernel_choice
from sparklake.graveler.planning.packing import pack_tasks
from sparklake.graveler.planning.plan import Plan

TWO_WAY = ("left", "right")
THREE_WAY = ("base", "source", "dest")
LAYERED = ("committed",)
"""The names of a plan's sides. Further sides are staged layers, newest first."""

Cut = Callable[[Plan, int], Plan]
"""A function to cut a plan's pieces into tasks of about a number of records."""


@dataclass(frozen=True, slots=True)
class SideLoad:
    """The read load of one side. `bytes` are raw, decoded bytes."""

    name: str
    ranges: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cost of a verb. `copied` ranges are not read, and `kernels` are this process's."""

    verb: str
    engine: str
    reason: str
    copied: int
    opened: int
    records: int
    bytes: int
    tasks: int
    sides: tuple[SideLoad, ...]
    kernels: str = field(default_factory=kernel_choice.description)


def explained(
    verb: str, plan: Plan, cut: Cut, runners: Runners, names: Sequence[str]
) -> Explanation:
    """Explain a plan, with its pieces cut as its tasks will be."""
    choice = runners.choice(plan.records)
    plan = cut(plan, choice.task_records)
    layers = (f"layer {at}" for at in count(1))
    loads = [
        SideLoad(name, len(side.ranges), side.records, side.bytes)
        for name, side in zip(chain(names, layers), plan.streams, strict=False)
    ]
    return Explanation(
        verb=verb,
        engine=choice.engine,
        reason=choice.reason,
        copied=sum(len(piece.ranges) for piece in plan.stretches_copied),
        opened=len(plan.opened),
        records=plan.records,
        bytes=plan.bytes,
        tasks=len(pack_tasks(plan, choice.task_records)),
        sides=tuple(loads),
    )
