"""Ports of the ref store for branches and their staging layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Protocol

from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import OPEN, Action, Guard
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.ports.once import OnceRecord
from sparklake.graveler.records import Record


class LayerKind(str, Enum):
    """The storage of a staging layer's records."""

    ROWS = "rows"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of staged records and tombstones. Newer layers have higher ids.

    A run refers to a metarange. A sealed layer accepts no more writes.
    """

    id: int
    kind: LayerKind
    sealed: bool
    meta_range_id: MetaRangeId | None = None


@dataclass(frozen=True, slots=True)
class BranchState:
    """A branch at one moment: its head, and its staging layers, newest first.

    A hidden branch is listed only on request. It may be pruned after `expires`, in unix seconds.
    `is_expired` uses the store's own clock. `fence` counts the started garbage collections. A
    change that adds references to objects carries the fence at which it started. `head` is the
    commit, if it was read along.
    """

    name: str
    commit_id: CommitId
    layers: tuple[Layer, ...] = ()
    hidden: bool = False
    expires: int | None = None
    is_expired: bool = False
    guard: Guard = OPEN
    fence: int = 0
    head: Commit | None = field(default=None, compare=False, repr=False)

    @property
    def may_be_pruned(self) -> bool:
        return self.is_expired and not self.guard.protected

    @property
    def content(self) -> tuple[CommitId, tuple[Layer, ...]]:
        """The visible content. States with equal content have the same objects."""
        return self.commit_id, self.layers

    @property
    def runs(self) -> frozenset[int]:
        """The ids of the staged runs."""
        return frozenset(each.id for each in self.layers if each.kind is LayerKind.RUN)


@dataclass(frozen=True, slots=True)
class LayerCut:
    """The removal of all records in intervals from staging layers.

    `runs` is the remainder of each run that the intervals overlap, by layer id.
    """

    within: Sequence[Interval]
    runs: Mapping[int, MetaRangeId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BranchMove:
    """A compare-and-swap of a branch from an expected head to a new one.

    One transaction applies it. `commits` are written first, parents before children.
    `applied_layers` are the staging layers that the new head contains: all of them must still
    exist, and exactly these are removed.

    With a cut, the new head contains only the cut part of these layers. The remainder stays under
    new ids, so an operation that has read these layers, or layers added on top since, loses the
    race. `change_summaries` has the known change summaries of the commits. `fence` is the fence of
    a branch of the repository, read before anything that the new head refers to was read or
    written. `once` is recorded with the move. `latest` is the sequence of the branch's latest
    operation: the move fails if there is a later one, even if the head is the expected one again.
    `runs` are the staged runs known to the mover: the move fails if there are others. A run may be
    a write of a table, which is valid only over the state it was based on, so the head below it may
    not change unnoticed. None skips this check, for a head with equal content.
    """

    branch: str
    expected: CommitId
    to: CommitId
    verb: str
    who: str
    commits: tuple[Commit, ...] = ()
    applied_layers: tuple[int, ...] = ()
    cut: LayerCut | None = None
    change_summaries: Mapping[CommitId, bytes] = field(default_factory=dict)
    fence: int = field(kw_only=True)
    once: OnceRecord | None = None
    latest: int | None = None
    runs: frozenset[int] | None = None


class Branches(Protocol):
    """The branches of one repository.

    A change raises ReadOnlyError or ProtectedError if the branch's guard rejects it at that moment.
    """

    def create(
        self,
        name: str,
        commit_id: CommitId,
        who: str,
        *,
        hidden: bool = False,
        lifetime: timedelta | None = None,
        once: OnceRecord | None = None,
    ) -> BranchState:
        """Create a branch in constant time.

        Raises AlreadyExistsError, or ExpiredError for an expired commit.
        """

    def find(self, name: str) -> BranchState | None:
        """Return a branch and its layers as of one moment."""

    def list(self) -> Sequence[BranchState]:
        """Return all branches, with their heads, in the byte order of their names."""

    def delete(
        self, name: str, who: str, *, discard_staged: bool = False, if_expired: bool = False
    ) -> None:
        """Delete a branch.

        Raises RefNotFoundError for a missing branch, and DirtyBranchError for one with staged
        changes, unless they are discarded. With `if_expired`, raises RaceLostError for a branch
        that may not be pruned.
        """

    def rename(
        self, name: str, new_name: str, who: str, *, once: OnceRecord | None = None
    ) -> BranchState:
        """Rename a branch, with its layers, expiry, and rules of its exact name.

        Rules of patterns apply by the new name. If these protect less, a rule of the new name adds
        the missing actions. Raises RefNotFoundError, or AlreadyExistsError for a used name.
        """

    def set_lifetime(self, name: str, lifetime: timedelta | None) -> BranchState:
        """Set when a branch expires, from now; None is never. Raises RefNotFoundError."""

    def move(self, move: BranchMove) -> None:
        """Apply a compare-and-swap atomically.

        Raises RaceLostError for an unexpected head, and for an applied layer that is missing or not
        sealed. Raises RefNotFoundError for a missing branch, CollectionStartedError for a different
        fence, and ExpiredError for a move to an expired commit outside of `commits`. An expired
        commit in `commits` becomes valid again. A move to the same head, which only removes layers,
        is not logged.
        """

    def turn(self, name: str, seconds: float) -> AbstractContextManager[None]:
        """Hold a branch's queue slot, in FIFO order of requests.

        The slot is advisory and blocks no move of the branch. After `seconds` of waiting, the
        caller continues without it.
        """

    def is_turn_held(self, name: str) -> bool:
        """Return whether the queue slot of a branch is held."""


class Staging(Protocol):
    """The staged records of a repository's branches.

    Values are stored records, as in a table. All methods raise RefNotFoundError for a missing
    branch, and RaceLostError for a missing layer: a commit or a reset removed it since the branch
    was read, so read the branch again. A change raises ReadOnlyError or ProtectedError if the
    branch's guard rejects it at that moment.

    `fence` is as in a BranchMove. It is None if nothing is staged that refers to an object. `once`
    is recorded with the change.
    """

    def put(
        self,
        branch: str,
        records: Sequence[Record],
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> None:
        """Stage records and tombstones in the top layer, atomically.

        Opens a new rows layer when the top layer is sealed or is a run.
        """

    def add_run(
        self,
        branch: str,
        meta_range_id: MetaRangeId,
        expected: BranchState | None = None,
        write: str | None = None,
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> Layer:
        """Seal the layers below, and add a run on top.

        `expected` is the branch as `seal` returned it: raises RaceLostError if its head or layers
        differ now. `write` is the id of a write to finish: raises WriteFinishedError if it is not
        open.
        """

    def seal(self, branch: str, action: Action | None = None) -> BranchState:
        """Seal all layers, so later writes open a new one; return the branch.

        On return no write into a sealed layer is in progress. The guard checks `action`.
        """

    def rows(self, layer_id: int, *prefixes: bytes) -> Iterator[Record]:
        """Stream the records of a rows layer in key order, with bounded memory.

        With prefixes, only records whose keys start with one of them are read.
        """

    def row(self, layer_id: int, key: bytes) -> Record | None:
        """Return one record of a rows layer."""

    def count(self, layer_id: int) -> int:
        """Return the number of records in a rows layer."""

    def reset(self, branch: str, *, once: OnceRecord | None = None) -> None:
        """Drop every layer of a branch."""

    def drop(
        self,
        branch: str,
        expected: BranchState,
        cut: LayerCut,
        run: MetaRangeId | None = None,
        *,
        fence: int | None,
        once: OnceRecord | None = None,
    ) -> None:
        """Remove records from a branch's layers, and add a run on top.

        `expected` is the branch as `seal` returned it: raises RaceLostError if its head or layers
        differ now. An empty layer is dropped. Each other layer gets a new id, so a commit of the
        old one loses the race.
        """
