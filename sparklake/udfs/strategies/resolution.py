"""How the conflicts of a merge are decided, as one value that travels with its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any

from sparklake.delta_log.names import LAST_CHECKPOINT, LOG_FOLDER, commit_key, table_folder
from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.ids import CommitId
from sparklake.udfs.strategies.decisions import Function
from sparklake.udfs.strategies.globs import matches

NO_STRATEGY = "none"
DEFAULT_LABEL = "default"
"""What lakeFS calls a merge without a strategy."""


@dataclass(frozen=True, slots=True)
class Named:
    """A strategy that each task imports: `target` is `module:function`."""

    name: str
    target: str

    def load(self) -> Function:
        """Return the function; raise InvalidInputError where it cannot be had."""
        return imported(self.target)


@dataclass(frozen=True, slots=True)
class Carried:
    """A strategy that travels along: by value, where tasks could not import it."""

    name: str
    function: Function

    def load(self) -> Function:
        """Return the function."""
        return self.function

    def __reduce__(self) -> tuple[Callable[[str, bytes], Carried], tuple[str, bytes]]:
        # Not at the top: few merges need it.
        import cloudpickle

        return _unpacked, (self.name, cloudpickle.dumps(self.function))


Chosen = Strategy | Named | Carried | None
"""What decides a conflict; None leaves it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What decides the conflicts on the paths that a glob matches."""

    glob: str
    strategy: Chosen


@dataclass(frozen=True, slots=True)
class Resolution:
    """How conflicts are decided: by the first rule that matches, or else by one strategy.

    With `delta`, the logs of Delta tables are united before anything else is asked. Of an
    `expired_base` nothing can be taken or read.
    """

    strategy: Chosen = None
    rules: tuple[Rule, ...] = ()
    delta: bool = True
    expired_base: CommitId | None = None

    def chosen(self, key: bytes) -> Chosen:
        """Return what decides a conflict on a key."""
        for rule in self.rules:
            if matches(rule.glob, key):
                return rule.strategy
        return self.strategy

    def unites(self, folder: bytes) -> bool:
        """Return whether the log of a Delta table in a folder is united, and not merged by keys.

        Only a rule that names the folder of logs itself is for its files.
        """
        first = commit_key(folder, 0)
        named = (rule.glob for rule in self.rules if LOG_FOLDER.rstrip("/") in rule.glob)
        return self.delta and not any(matches(glob, first) for glob in named)

    def side(self, folder: bytes) -> Strategy | None:
        """Return which side wins the table whose log is in a folder: all kinds of its files."""
        table = table_folder(folder)
        names = (LAST_CHECKPOINT.encode(), b"part-0.parquet")
        first, *rest = map(self.chosen, (commit_key(folder, 0), *(table + each for each in names)))
        if isinstance(first, Strategy) and all(each is first for each in rest):
            return first
        return None

    @property
    def settles_all(self) -> bool:
        """Whether no conflict can be left, nor a strategy fail."""
        every = (self.strategy, *(rule.strategy for rule in self.rules))
        return all(isinstance(each, Strategy) for each in every)

    @property
    def asks_functions(self) -> bool:
        """Whether functions decide conflicts, which may take what base has."""
        every = (self.strategy, *(rule.strategy for rule in self.rules))
        return any(isinstance(each, Named | Carried) for each in every)

    @property
    def label(self) -> str:
        """What a commit says of it; of a single strategy, what lakeFS says."""
        if not self.rules:
            return DEFAULT_LABEL if self.strategy is None else strategy_name(self.strategy)
        said = [f"{rule.glob}={strategy_name(rule.strategy)}" for rule in self.rules]
        return "; ".join([*said, f"else {strategy_name(self.strategy)}"])


def strategy_name(chosen: Chosen) -> str:
    """Return what a strategy is called."""
    if chosen is None:
        return NO_STRATEGY
    return chosen.value if isinstance(chosen, Strategy) else chosen.name


@cache
def imported(target: str) -> Function:
    """Return the function of `module:function`; raise InvalidInputError."""
    module, _, name = target.partition(":")
    try:
        found: Any = attrgetter(name)(import_module(module))
    except Exception as error:  # whatever a module of others does when it is imported
        raise InvalidInputError(
            f"the merge strategy {target!r} cannot be imported: {type(error).__name__}: {error}; "
            "put its module where Python finds it, on executors too"
        ) from error
    if not callable(found):
        raise InvalidInputError(
            f"the merge strategy {target!r} is no function, but a {type(found).__name__}"
        )
    return found  # type: ignore[no-any-return]


def _unpacked(name: str, packed: bytes) -> Carried:
    import cloudpickle

    # From the driver of this merge, as its task is.
    return Carried(name, cloudpickle.loads(packed))
