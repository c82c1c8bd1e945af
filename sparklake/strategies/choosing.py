"""Parsing of merge strategies and rules."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.classify import Strategy
from sparklake.strategies.decisions import Function
from sparklake.strategies.path_globs import glob_pattern
from sparklake.strategies.resolution import (
    NO_STRATEGY,
    Chosen,
    NamedStrategy,
    PickledStrategy,
    Resolution,
    Rule,
)

ENTRY_POINTS = "sparklake.strategies"
"""The entry-point group for strategies of packages."""

_HERE = "sparklake.strategies"
BUILT_IN = {
    "newest-wins": f"{_HERE}.built_in:newest_wins",
    "larger-wins": f"{_HERE}.built_in:larger_wins",
    "union-lines": f"{_HERE}.built_in:union_lines",
    "keep-both": f"{_HERE}.both:keep_both",
}
"""The targets of the built-in strategies, besides the members of Strategy."""

_MAX_LABEL_BYTES = 16 * 1024
_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

StrategyLike = Strategy | str | Function | None
"""A strategy as passed by users: a name, `module:function`, or a function."""

RulesLike = Mapping[str, StrategyLike] | Sequence[tuple[str, StrategyLike]] | None
"""Strategies by globs over paths, in order of precedence."""


def parse_resolution(
    strategy: StrategyLike = None,
    rules: RulesLike = None,
    delta: bool = True,
    schema_check: bool = True,
) -> Resolution:
    """Return the resolution of a strategy and rules."""
    pairs: Any = rules.items() if isinstance(rules, Mapping) else rules or ()
    if not isinstance(pairs, Iterable):
        raise InvalidInputError(f"rules must be pairs of a glob and a strategy, not {rules!r}")
    rest = tuple(_rule(each) for each in pairs)
    resolution = Resolution(parse_strategy(strategy), rest, delta, schema_check)
    size = len(resolution.label.encode())
    if size > _MAX_LABEL_BYTES:
        raise InvalidInputError(
            f"the rules take {size:,} bytes of the commit's metadata, more than "
            f"{_MAX_LABEL_BYTES:,}: use fewer and wider globs, or one function as the "
            "strategy"
        )
    return resolution


def parse_strategy(strategy: StrategyLike) -> Chosen:
    """Parse a strategy, and import it if it is given by name."""
    if strategy is None or isinstance(strategy, Strategy):
        return strategy
    if isinstance(strategy, str):
        parsed_strategy = named_strategy(strategy)
        if isinstance(parsed_strategy, NamedStrategy):
            parsed_strategy.load()
        return parsed_strategy
    if not callable(strategy):
        raise InvalidInputError(f"{strategy!r} is not a merge strategy: use a name or a function")
    name = getattr(strategy, "__qualname__", type(strategy).__qualname__)
    module = getattr(strategy, "__module__", None) or type(strategy).__module__
    # The name goes into the metadata of a commit, which are UTF-8.
    label = f"{module}:{name}".encode(errors="backslashreplace").decode()
    carried = PickledStrategy(label, strategy)
    try:
        pickle.dumps(carried)
    except Exception as error:  # Objects inside of a user's function may raise any error.
        raise InvalidInputError(
            f"the merge strategy {carried.name!r} cannot be sent to tasks: "
            f"{type(error).__name__}: {error}"
        ) from error
    return carried


def named_strategy(name: str) -> Chosen:
    """Return the strategy with a name, without importing it."""
    if name == NO_STRATEGY:
        return None
    if name in {each.value for each in Strategy}:
        return Strategy(name)
    if name in BUILT_IN:
        return NamedStrategy(name, BUILT_IN[name])
    if _TARGET.fullmatch(name):
        return NamedStrategy(name, name)
    offered = entry_point_targets()
    if name in offered:
        return NamedStrategy(name, offered[name])
    names = ", ".join(strategy_names())
    raise InvalidInputError(
        f"{name!r} is not a merge strategy: choose {names}, or pass a function as module:function"
    )


def strategy_names() -> list[str]:
    """Return the names of all strategies, including those of installed packages."""
    offered = sorted(entry_point_targets())
    return [*(each.value for each in Strategy), *BUILT_IN, NO_STRATEGY, *offered]


def check_rule(text: str) -> None:
    """Verify the syntax of `GLOB=STRATEGY`. Imports nothing."""
    glob, name = rule_pair(text)
    glob_pattern(glob)
    named_strategy(name)


def rule_pair(text: str) -> tuple[str, str]:
    """Return the glob and the strategy of `GLOB=STRATEGY`."""
    glob, _, name = text.rpartition("=")
    if not (glob and name):
        raise InvalidInputError(f"{text!r} is not GLOB=STRATEGY, such as 'tables/**=source-wins'")
    return glob, name


def _rule(pair: object) -> Rule:
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
        raise InvalidInputError(f"a rule must be a glob and a strategy, not {pair!r}")
    glob, strategy = pair
    glob_pattern(glob)
    return Rule(glob, parse_strategy(strategy))


@cache
def entry_point_targets() -> dict[str, str]:
    """Return the targets of installed packages' strategies, by name."""
    points = entry_points(group=ENTRY_POINTS)
    return {each.name: each.value.partition("[")[0].strip() for each in points}
