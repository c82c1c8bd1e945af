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
from sparklake.strategies.functions import FunctionStrategy, NamedStrategy, PickledStrategy
from sparklake.strategies.path_globs import glob_pattern
from sparklake.strategies.resolution import NO_STRATEGY, Chosen, Resolution, Rule
from sparklake.strategies.row_strategy import (
    RowFunction,
    Rows,
    Then,
    checked_rows,
    is_rows,
    parse_rows,
    parse_then,
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

_ROWS_RULE = re.compile(r"(?P<glob>.+)=(?P<rows>rows\(.*\))", re.DOTALL)

StrategyLike = Strategy | str | Function | Rows | None
"""A strategy as passed by users: a name, `module:function`, or a function."""

RulesLike = Mapping[str, StrategyLike] | Sequence[tuple[str, StrategyLike]] | None
"""Strategies by globs over paths, in order of precedence."""


def parse_resolution(
    strategy: StrategyLike = None,
    rules: RulesLike = None,
    unite_tables: bool = True,
    schema_check: bool = True,
) -> Resolution:
    """Return the resolution of a strategy and rules."""
    pairs: Any = rules.items() if isinstance(rules, Mapping) else rules or ()
    if not isinstance(pairs, Iterable):
        raise InvalidInputError(f"rules must be pairs of a glob and a strategy, not {rules!r}")
    rest = tuple(_rule(each) for each in pairs)
    default = parse_strategy(strategy)
    if isinstance(default, Rows):
        raise _default_of_rows(default.name)
    resolution = Resolution(default, rest, unite_tables, schema_check)
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
    if strategy is None or isinstance(strategy, Strategy | Rows):
        return strategy
    if isinstance(strategy, str):
        parsed_strategy = named_strategy(strategy)
        function = parsed_strategy.then if isinstance(parsed_strategy, Rows) else parsed_strategy
        if isinstance(function, NamedStrategy):
            function.load()
        return parsed_strategy
    return _pickled(strategy)


def rows(
    *key: str, columns: bool = False, then: Strategy | str | RowFunction | None = None
) -> Rows:
    """Return a strategy that merges the rows of a table by the given key columns.

    Without columns, the key is the table property `sparklake.key` (Delta, Iceberg). With
    `columns=True`, changes to different columns of a row merge. `then` resolves the remaining
    conflicts: `source-wins`, `dest-wins`, `newest(COLUMN)`, or a function of a batch of conflicts.

    Raises:
        InvalidInputError: A column is given twice, or `then` is unknown.
    """
    if then is None or isinstance(then, str):
        parsed: Then = parse_then(then.value if isinstance(then, Strategy) else then, _row_function)
        if isinstance(parsed, NamedStrategy):
            parsed.load()
    else:
        parsed = _pickled(then)
    return checked_rows(key, columns, parsed)


def _row_function(name: str) -> FunctionStrategy:
    if name not in BUILT_IN and not is_rows(name):
        strategy = named_strategy(name)
        if isinstance(strategy, NamedStrategy):
            return strategy
    raise InvalidInputError(
        f"{name!r} does not resolve conflicting rows: choose source-wins, dest-wins, "
        "newest(COLUMN) or a function as module:function"
    )


def _pickled(strategy: Any) -> PickledStrategy:
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
    if is_rows(name):
        return parse_rows(name, _row_function)
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
    """Return all strategy names, including those of installed packages."""
    offered = sorted(entry_point_targets())
    return [*(each.value for each in Strategy), *BUILT_IN, NO_STRATEGY, *offered]


def check_rule(text: str) -> None:
    """Verify the syntax of `GLOB=STRATEGY`. Imports nothing."""
    glob, name = rule_pair(text)
    glob_pattern(glob)
    named_strategy(name)


def rule_pair(text: str) -> tuple[str, str]:
    """Return the glob and the strategy of `GLOB=STRATEGY`.

    A strategy for rows may contain `=`. Any other starts after the last one.
    """
    match = _ROWS_RULE.fullmatch(text)
    glob, name = (match["glob"], match["rows"]) if match else text.rpartition("=")[::2]
    if not (glob and name):
        raise InvalidInputError(f"{text!r} is not GLOB=STRATEGY, such as 'tables/**=source-wins'")
    return glob, name


def check_default(name: str) -> None:
    """Verify the syntax of a default strategy. Imports nothing."""
    if isinstance(named_strategy(name), Rows):
        raise _default_of_rows(name)


def _default_of_rows(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} needs the folder of a table: use it in a rule, such as 'tables/orders/={name}'"
    )


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
