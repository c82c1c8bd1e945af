"""From what users name to how conflicts are decided."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from sparklake.arguments import rule_pair
from sparklake.errors import InvalidInputError
from sparklake.graveler.classification import Strategy
from sparklake.udfs.strategies.decisions import Function
from sparklake.udfs.strategies.globs import glob_pattern
from sparklake.udfs.strategies.resolution import (
    NO_STRATEGY,
    Carried,
    Chosen,
    Named,
    Resolution,
    Rule,
)

ENTRY_POINTS = "sparklake.strategies"
"""Is the group of entry points under which packages offer strategies."""

_HERE = "sparklake.udfs.strategies"
BUILT_IN = {
    "newest-wins": f"{_HERE}.sides:newest_wins",
    "larger-wins": f"{_HERE}.sides:larger_wins",
    "union-lines": f"{_HERE}.lines:union_lines",
    "keep-both": f"{_HERE}.both:keep_both",
}
"""Is where the strategies are that come along, besides those of class Strategy."""

_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

StrategyLike = Strategy | str | Function | None
"""Is a strategy as users give it: a name, `module:function`, or a function."""

RulesLike = Mapping[str, StrategyLike] | Sequence[tuple[str, StrategyLike]] | None
"""Is strategies by globs over paths, in their order."""


def parse_resolution(strategy: StrategyLike = None, rules: RulesLike = None) -> Resolution:
    """Returns how conflicts are decided; raises InvalidInputError."""
    pairs = rules.items() if isinstance(rules, Mapping) else rules or ()
    return Resolution(parse_strategy(strategy), tuple(_rule(each) for each in pairs))


def parse_strategy(strategy: StrategyLike) -> Chosen:
    """Returns what decides; raises InvalidInputError for a name that means nothing here."""
    if strategy is None or isinstance(strategy, Strategy):
        return strategy
    if isinstance(strategy, str):
        chosen = named_strategy(strategy)
        if isinstance(chosen, Named):
            chosen.load()
        return chosen
    if not callable(strategy):
        raise InvalidInputError(f"{strategy!r} is no merge strategy: give a name or a function")
    name = getattr(strategy, "__qualname__", type(strategy).__qualname__)
    module = getattr(strategy, "__module__", None) or type(strategy).__module__
    carried = Carried(f"{module}:{name}", strategy)
    try:
        pickle.dumps(carried)
    except Exception as error:  # whatever a function of others holds
        raise InvalidInputError(
            f"the merge strategy {carried.name!r} cannot travel to tasks: "
            f"{type(error).__name__}: {error}"
        ) from error
    return carried


def named_strategy(name: str) -> Chosen:
    """Returns the strategy of a name, not yet imported; raises InvalidInputError."""
    if name == NO_STRATEGY:
        return None
    if name in {each.value for each in Strategy}:
        return Strategy(name)
    if name in BUILT_IN:
        return Named(name, BUILT_IN[name])
    if _TARGET.fullmatch(name):
        return Named(name, name)
    offered = _offered()
    if name in offered:
        return Named(name, offered[name].value.partition("[")[0].strip())
    known = ", ".join(
        [*(each.value for each in Strategy), *BUILT_IN, NO_STRATEGY, *sorted(offered)]
    )
    raise InvalidInputError(
        f"{name!r} is no merge strategy: choose {known}, or name a function as module:function"
    )


def check_rule(text: str) -> None:
    """Raises InvalidInputError for what is no `GLOB=STRATEGY`; imports nothing."""
    glob, name = rule_pair(text)
    glob_pattern(glob)
    named_strategy(name)


def _rule(pair: object) -> Rule:
    if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
        raise InvalidInputError(f"a rule is a glob and a strategy, not {pair!r}")
    glob, strategy = pair
    glob_pattern(glob)
    return Rule(glob, parse_strategy(strategy))


@cache
def _offered() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=ENTRY_POINTS)}
