"""Resolution of a task's conflicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from sparklake.errors import (
    ExpiredError,
    InvalidKeyError,
    InvalidRowsError,
    MissingFileError,
    SparklakeError,
    StrategyError,
)
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.entries import check_entry, encode_entry, entry_identity
from sparklake.graveler.ids import CommitId
from sparklake.graveler.keys import object_key
from sparklake.graveler.records import Record, encode_record
from sparklake.metadata import registry
from sparklake.rows.merges import KeptObject
from sparklake.strategies.content_types import is_same_content
from sparklake.strategies.decisions import Both, Decision, Take, conflict_batch, find_path
from sparklake.strategies.functions import FunctionStrategy
from sparklake.strategies.object_access import NewObject, Objects
from sparklake.strategies.resolution import Chosen, Resolution, strategy_name
from sparklake.strategies.row_strategy import Rows

MAX_CONFLICTS_REPORTED = 10_000

MAX_KEPT = 100_000
"""The number of objects that a merge may keep under other paths. The driver places each of them."""

_TAKES = {each.value: each for each in Take}


@dataclass
class Judge:
    """Applies a resolution to the conflicts of one task.

    Unresolved conflicts get dest's value, and the first ones are reported. Conflicts in the
    metadata of tables also get dest's value, because the driver merges them. So do `deferred`
    conflicts, which a merge of rows must resolve. With `only_previews`, strategies store no
    objects.
    """

    resolution: Resolution
    storage_namespace: str
    only_previews: bool = False
    conflicts: int = 0
    unresolved: int = 0
    reported: list[Conflict] = field(default_factory=list)
    kept_objects: list[KeptObject] = field(default_factory=list)
    deferred: list[Conflict] = field(default_factory=list)

    def decide(self, conflicts: Sequence[Conflict]) -> list[bytes | None]:
        """Return the resolved stored values. Sides of the same content keep dest's."""
        same = {row for row, each in enumerate(conflicts) if is_same_content(each)}
        self.conflicts += len(conflicts) - len(same)
        decisions: list[Decision] = [Take.DEST] * len(conflicts)
        rest = [row for row in self._of_no_log(conflicts) if row not in same]
        for strategy, rows in self._shared_out(conflicts, rest):
            answers = self._answers(strategy, [conflicts[row] for row in rows])
            for row, answer in zip(rows, answers, strict=True):
                decisions[row] = answer
        return [
            self._settled(conflict, decision)
            for conflict, decision in zip(conflicts, decisions, strict=True)
        ]

    def _of_no_log(self, conflicts: Sequence[Conflict]) -> list[int]:
        """Return the positions of conflicts outside the tables' metadata to merge."""
        folders = (registry.find_folder(each.key) for each in conflicts)
        unites = self.resolution.unites
        return [row for row, each in enumerate(folders) if each is None or not unites(each)]

    def _shared_out(
        self, conflicts: Sequence[Conflict], places: Sequence[int]
    ) -> list[tuple[Chosen, Sequence[int]]]:
        """Group the positions of conflicts by strategy."""
        if not self.resolution.rules:
            return [(self.resolution.strategy, places)] if places else []
        # Keyed by identity, because a function may not be hashable.
        strategies: dict[int, Chosen] = {}
        rows: defaultdict[int, list[int]] = defaultdict(list)
        for row in places:
            each = self.resolution.chosen(conflicts[row].key)
            strategies[id(each)] = each
            rows[id(each)].append(row)
        return [(strategies[name], each) for name, each in rows.items()]

    def _answers(self, strategy: Chosen, conflicts: Sequence[Conflict]) -> Sequence[Decision]:
        if strategy is None:
            return [Take.CONFLICT] * len(conflicts)
        if isinstance(strategy, Strategy):
            side = Take.SOURCE if strategy is Strategy.SOURCE_WINS else Take.DEST
            return [side] * len(conflicts)
        if isinstance(strategy, Rows):
            return self._deferred(conflicts)
        expired = self.resolution.expired_base
        try:
            return _asked(strategy, conflicts, self._objects)
        except StrategyError as error:
            if expired is not None and isinstance(error.__cause__, MissingFileError):
                raise _base_expired(conflicts[0], expired) from error
            raise

    def _deferred(self, conflicts: Sequence[Conflict]) -> list[Decision]:
        room = MAX_CONFLICTS_REPORTED - len(self.deferred)
        self.deferred += conflicts[:room]
        return [Take.DEST if at < room else Take.CONFLICT for at in range(len(conflicts))]

    def _settled(self, conflict: Conflict, decision: Decision) -> bytes | None:
        if decision is Take.BASE and conflict.ancestors_disagree:
            # The value of the base is unknown, and it may not be absent.
            decision = Take.CONFLICT
        if decision is Take.SOURCE:
            return conflict.source
        if decision is Take.BASE:
            if conflict.base is not None and self.resolution.expired_base is not None:
                raise _base_expired(conflict, self.resolution.expired_base)
            return conflict.base
        if decision is Take.DELETE:
            return None
        if isinstance(decision, NewObject):
            return new_record(conflict.key, decision)[1]
        if isinstance(decision, Both) and conflict.source is not None:
            self._keep(conflict.key, decision, conflict.source)
        if decision is Take.CONFLICT:
            self.unresolved += 1
            if len(self.reported) < MAX_CONFLICTS_REPORTED:
                self.reported.append(conflict)
        return conflict.dest

    def _keep(self, key: bytes, decision: Both, stored: bytes) -> None:
        if len(self.kept_objects) == MAX_KEPT:
            raise too_many_kept()
        path = decision.path
        source_key = path if isinstance(path, bytes) else object_key(path)
        self.kept_objects.append(KeptObject(key, source_key, stored))

    @cached_property
    def _objects(self) -> Objects:
        return Objects(self.storage_namespace, self.only_previews)


def _base_expired(conflict: Conflict, commit_id: CommitId) -> ExpiredError:
    path = find_path(conflict.key) or conflict.key
    return ExpiredError(
        f"the merge base {commit_id[:12]} has expired, so its object at {path!r} can no longer "
        "be used. Choose source or dest for this path with a rule",
        commit_id,
    )


def too_many_kept() -> StrategyError:
    """Return the error for too many objects kept under other paths."""
    return StrategyError(
        f"more than {MAX_KEPT:,} conflicts keep both objects. Resolve some of them with another "
        "rule"
    )


def _asked(
    strategy: FunctionStrategy, conflicts: Sequence[Conflict], objects: Objects
) -> list[Decision]:
    """Return the validated decisions of a function. All its errors become StrategyError."""
    try:
        function = strategy.load()
        returned = function(conflict_batch(conflicts, objects.storage_namespace), objects)
        answers = _listed(returned)
    except Exception as error:  # A user's function may raise any error.
        what = (
            str(error) if isinstance(error, SparklakeError) else f"{type(error).__name__}: {error}"
        )
        raise _failure(strategy, conflicts, f"failed: {what}") from error
    if len(answers) != len(conflicts):
        words = f"returned {len(answers)} decisions for {len(conflicts)} conflicts"
        raise _failure(strategy, conflicts, words)
    return [_checked(strategy, *pair) for pair in zip(conflicts, answers, strict=True)]


def _listed(returned: object) -> list[Any]:
    if isinstance(returned, pa.Array | pa.ChunkedArray):
        return list(returned.to_pylist())
    if isinstance(returned, list | tuple):
        return list(returned)
    raise TypeError(f"it must return a list of decisions or an Arrow array, not {type(returned)}")


def _checked(strategy: FunctionStrategy, conflict: Conflict, answer: object) -> Decision:
    if isinstance(answer, str) and answer in _TAKES:
        return _TAKES[answer]
    if isinstance(answer, NewObject):
        _check_new(strategy, conflict, answer)
        return answer
    if isinstance(answer, Both):
        _check_both(strategy, conflict, answer)
        return answer
    names = ", ".join(_TAKES)
    words = f"decided {answer!r}: it must be one of {names}, a new object or Both"
    raise _failure(strategy, [conflict], words)


def _check_new(strategy: FunctionStrategy, conflict: Conflict, answer: NewObject) -> None:
    try:
        new_record(conflict.key, answer)
    except (InvalidRowsError, UnicodeEncodeError) as error:
        raise _failure(strategy, [conflict], f"wrote an invalid object: {error}") from error


def new_record(key: bytes, new: NewObject) -> Record:
    """Return the record of a new object at a key."""
    check_entry(key, new.entry)
    # Not `entry_record`, because an existing key may not be UTF-8.
    return encode_record(key, entry_identity(new.entry), encode_entry(new.entry))


def _check_both(strategy: FunctionStrategy, conflict: Conflict, answer: Both) -> None:
    if conflict.source is None or conflict.dest is None:
        raise _failure(strategy, [conflict], "decided to keep both, but one side has no object")
    try:
        target = answer.path if isinstance(answer.path, bytes) else object_key(answer.path)
        encode_record(target, b"0", b"")
    except (InvalidKeyError, AttributeError, TypeError) as error:
        words = f"decided to keep an object under {answer.path!r}: {error}"
        raise _failure(strategy, [conflict], words) from error
    if target == conflict.key:
        raise _failure(strategy, [conflict], "decided to keep both objects under one path")


def _failure(strategy: FunctionStrategy, conflicts: Sequence[Conflict], what: str) -> StrategyError:
    some = ", ".join(repr(find_path(each.key) or each.key) for each in conflicts[:3])
    rest = f" and {len(conflicts) - 3:,} more" if len(conflicts) > 3 else ""
    return StrategyError(
        f"the merge strategy {strategy_name(strategy)!r}, called for {some}{rest}, {what}. Correct "
        "the strategy, or choose another one for these paths with a rule"
    )
