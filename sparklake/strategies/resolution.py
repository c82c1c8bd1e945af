"""The strategy and rules of a merge, as one value for its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any

from sparklake.delta_log.file_names import LAST_CHECKPOINT, LOG_FOLDER, commit_key, folder_of_log
from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.ids import CommitId
from sparklake.strategies.decisions import Function
from sparklake.strategies.path_globs import matches

NO_STRATEGY = "none"
DEFAULT_LABEL = "default"
"""lakeFS's name of a merge without a strategy."""


@dataclass(frozen=True, slots=True)
class NamedStrategy:
    """A strategy imported by each task. `target` is `module:function`."""

    name: str
    target: str

    def load(self) -> Function:
        """Import the function."""
        return imported(self.target)


@dataclass(frozen=True, slots=True)
class PickledStrategy:
    """A pickled strategy, by value if tasks cannot import it."""

    name: str
    function: Function

    def load(self) -> Function:
        """Return the function."""
        return self.function

    def __reduce__(self) -> tuple[Callable[[str, bytes], PickledStrategy], tuple[str, bytes]]:
        # Lazy import: few merges need cloudpickle.
        import cloudpickle

        return _unpacked, (self.name, cloudpickle.dumps(self.function))


FunctionStrategy = NamedStrategy | PickledStrategy

Chosen = Strategy | FunctionStrategy | None
"""A strategy, or None to leave the conflict."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The strategy for conflicts on paths that match a glob."""

    glob: str
    strategy: Chosen


@dataclass(frozen=True, slots=True)
class Resolution:
    """How conflicts are resolved: by the first matching rule, or else the default strategy.

    With `delta`, the logs of Delta tables are merged before any strategy applies. With
    `schema_check`, a Parquet table must not get files with different types. The objects of an
    `expired_base` can be neither selected nor read.
    """

    strategy: Chosen = None
    rules: tuple[Rule, ...] = ()
    delta: bool = True
    schema_check: bool = True
    expired_base: CommitId | None = None

    def chosen(self, key: bytes) -> Chosen:
        """Return the strategy for a conflict on a key."""
        for rule in self.rules:
            if matches(rule.glob, key):
                return rule.strategy
        return self.strategy

    def unites(self, folder: bytes) -> bool:
        """Return whether a Delta log is merged. Rules that mention its folder exclude it."""
        first = commit_key(folder, 0)
        globs = (rule.glob for rule in self.rules if LOG_FOLDER.rstrip("/") in rule.glob)
        return self.delta and not any(matches(glob, first) for glob in globs)

    def side(self, folder: bytes) -> Strategy | None:
        """Return the winning side for the whole table of a log folder, if any."""
        table = folder_of_log(folder)
        names = (LAST_CHECKPOINT.encode(), b"part-0.parquet")
        first, *rest = map(self.chosen, (commit_key(folder, 0), *(table + each for each in names)))
        if isinstance(first, Strategy) and all(each is first for each in rest):
            return first
        return None

    @property
    def settles_all(self) -> bool:
        """Whether every conflict is resolved and no strategy can fail."""
        every = (self.strategy, *(rule.strategy for rule in self.rules))
        return all(isinstance(each, Strategy) for each in every)

    @property
    def asks_functions(self) -> bool:
        """Whether functions resolve conflicts and may select base's object."""
        every = (self.strategy, *(rule.strategy for rule in self.rules))
        return any(isinstance(each, FunctionStrategy) for each in every)

    @property
    def label(self) -> str:
        """The label in the commit metadata. For a single strategy, it equals lakeFS's."""
        if not self.rules:
            return DEFAULT_LABEL if self.strategy is None else strategy_name(self.strategy)
        labels = [f"{rule.glob}={strategy_name(rule.strategy)}" for rule in self.rules]
        return "; ".join([*labels, f"else {strategy_name(self.strategy)}"])


def strategy_name(strategy: Chosen) -> str:
    """Return the name of a strategy."""
    if strategy is None:
        return NO_STRATEGY
    return strategy.value if isinstance(strategy, Strategy) else strategy.name


@cache
def imported(target: str) -> Function:
    """Import `module:function`, cached."""
    module, _, name = target.partition(":")
    try:
        function: Any = attrgetter(name)(import_module(module))
    except Exception as error:  # The import of a user's module may raise any error.
        raise InvalidInputError(
            f"the merge strategy {target!r} cannot be imported: {type(error).__name__}: "
            f"{error}; install its module where Python finds it, also on executors"
        ) from error
    if not callable(function):
        raise InvalidInputError(
            f"the merge strategy {target!r} is not a function, but a {type(function).__name__}"
        )
    return function  # type: ignore[no-any-return]


def _unpacked(name: str, packed: bytes) -> PickledStrategy:
    import cloudpickle

    # The bytes come from the driver of this merge, like the task itself.
    return PickledStrategy(name, cloudpickle.loads(packed))
