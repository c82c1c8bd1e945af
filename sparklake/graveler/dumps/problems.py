"""Errors for several problems at once."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.errors import InvalidDumpError, SparklakeError

_MOST_SHOWN = 100


def raise_all(problems: Sequence[SparklakeError]) -> None:
    """Raise the only problem, or one error for all of them.

    Problems of one class are raised as this class, others as InvalidDumpError.
    """
    if not problems:
        return
    first = problems[0]
    if len(problems) == 1:
        raise first
    kinds = {type(each) for each in problems}
    raise (type(first) if len(kinds) == 1 else InvalidDumpError)(problem_text(problems)) from first


def problem_text(problems: Sequence[SparklakeError]) -> str:
    """Return the first problems and their number as one text."""
    if len(problems) == 1:
        return str(problems[0])
    more = len(problems) - _MOST_SHOWN
    shown = [f"({number}) {each}" for number, each in enumerate(problems[:_MOST_SHOWN], 1)]
    rest = f"; and {more:,} more" if more > 0 else ""
    return f"{len(problems):,} problems: {'; '.join(shown)}{rest}"
