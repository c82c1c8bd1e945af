"""What the core asks of the branches in a ref store, and of what is staged on them."""

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
from sparklake.graveler.records import Record


class LayerKind(str, Enum):
    """Where a staging layer keeps its records."""

    ROWS = "rows"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of staged records and tombstones; a later layer has a higher id.

    A run names a metarange. A sealed layer takes no more writes.
    """

    id: int
    kind: LayerKind
    sealed: bool
    meta_range_id: MetaRangeId | None = None


@dataclass(frozen=True, slots=True)
class BranchState:
    """A branch at one moment: its head, and what is staged over it, newest layer first.

    A hidden one is left out where nobody asks for it. From `expires` on, in unix seconds, it may be
    pruned; `is_expired` is by the store's own clock. `fence` counts the garbage collections that
    have begun: who changes the branch to what names objects says as of which one it has begun.
    """

    name: str
    commit_id: CommitId
    layers: tuple[Layer, ...] = ()
    hidden: bool = False
    expires: int | None = None
    is_expired: bool = False
    guard: Guard = OPEN
    fence: int = 0

    @property
    def may_be_pruned(self) -> bool:
        """Whether its time is over, and nothing protects it."""
        return self.is_expired and not self.guard.protected

    @property
    def content(self) -> tuple[CommitId, tuple[Layer, ...]]:
        """What a reader sees of it: two states of equal content read the same."""
        return self.commit_id, self.layers


@dataclass(frozen=True, slots=True)
class LayerCut:
    """What is taken out of staging layers: all that they hold in some intervals.

    `runs` says, by layer, what is left of the runs that reach into them.
    """

    within: Sequence[Interval]
    runs: Mapping[int, MetaRangeId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BranchMove:
    """A compare-and-swap of a branch: from an expected head to a new one, in one transaction.

    `commits` are written first, parents before their children. `applied_layers` are the staging
    layers that the new head contains: all of them must still be there, and exactly these are
    removed. With a cut, the new head contains only that of them, and the rest of it stays, under
    new ids: who has read these layers, or those that were put on them meanwhile, loses. `touched`
    is kept with the commits: what each may have changed, as far as it is known. `fence` is that of
    a branch of the repository, read before anything that the new head names was read or written.
    """

    branch: str
    expected: CommitId
    to: CommitId
    verb: str
    who: str
    commits: tuple[Commit, ...] = ()
    applied_layers: tuple[int, ...] = ()
    cut: LayerCut | None = None
    touched: Mapping[CommitId, bytes] = field(default_factory=dict)
    fence: int = field(kw_only=True)


class Branches(Protocol):
    """Holds the branches of one repository.

    What changes one raises ReadOnlyError or ProtectedError where its guard refuses that as of the
    moment of the change.
    """

    def create(
        self,
        name: str,
        commit_id: CommitId,
        who: str,
        *,
        hidden: bool = False,
        lifetime: timedelta | None = None,
    ) -> BranchState:
        """Create a branch in constant time; raise AlreadyExistsError.

        Raises ExpiredError for an expired commit.
        """

    def find(self, name: str) -> BranchState | None:
        """Return a branch and its layers as of one moment."""

    def list(self) -> Sequence[BranchState]:
        """Return all branches in the byte order of their names."""

    def delete(self, name: str, who: str, *, if_expired: bool = False) -> None:
        """Delete a branch and what is staged on it; raise RefNotFoundError.

        With `if_expired`, raises RaceLostError for a branch that may not be pruned.
        """

    def set_lifetime(self, name: str, lifetime: timedelta | None) -> BranchState:
        """Let a branch expire that long from now, or never; raise RefNotFoundError."""

    def move(self, move: BranchMove) -> None:
        """Apply a compare-and-swap, all of it or nothing.

        Raises RaceLostError when the head is not the expected one or an applied layer is gone or
        not sealed, RefNotFoundError when there is no such branch, CollectionBegunError when the
        fence is another one by now, ExpiredError for a move to an expired commit that is none of
        its own. One of its own that had expired is as new from then on. A move to where the branch
        is, which only removes layers, is not logged.
        """

    def turn(self, name: str, seconds: float) -> AbstractContextManager[None]:
        """Hold the turn of a branch, after those who asked for it before.

        It is advice, and keeps nobody from moving the branch. After some seconds of waiting it goes
        on without.
        """

    def is_turn_held(self, name: str) -> bool:
        """Return whether someone holds the turn of a branch."""


class Staging(Protocol):
    """Holds the staged records of a repository's branches.

    Values are stored records, as in a table. All methods raise RefNotFoundError for a branch that
    is not there, and RaceLostError for a layer that is gone: a commit or a reset took it since the
    branch was read, so read the branch again. What changes something raises ReadOnlyError or
    ProtectedError where the branch's guard refuses it as of the moment of the change.

    `fence` is as in a BranchMove; it is None where nothing is staged that names an object.
    """

    def put(self, branch: str, records: Sequence[Record], *, fence: int | None) -> None:
        """Stage records and tombstones in the top layer, all of them or none.

        A fresh rows layer is opened when the top one is sealed or is a run.
        """

    def add_run(
        self,
        branch: str,
        meta_range_id: MetaRangeId,
        seen: BranchState | None = None,
        write: str | None = None,
        *,
        fence: int | None,
    ) -> Layer:
        """Seal what is below and put a run on top of it.

        With the branch as `seal` returned it, raises RaceLostError when its head or its layers are
        others by now. With the id of a write to the branch, that is done then; raises
        WriteEndedError where it is not open any more.
        """

    def seal(self, branch: str, action: Action | None = None) -> BranchState:
        """Seal all layers, so that later writes go into a fresh one; return the branch.

        When it returns, no write into a sealed layer is under way. `action` is what it is done for.
        """

    def rows(self, layer_id: int, prefix: bytes = b"") -> Iterator[Record]:
        """Stream the records of a rows layer in key order, not all held in memory at once."""

    def row(self, layer_id: int, key: bytes) -> Record | None:
        """Return one record of a rows layer."""

    def count(self, layer_id: int) -> int:
        """Return the number of records in a rows layer."""

    def reset(self, branch: str) -> None:
        """Drop every layer of a branch."""

    def drop(
        self,
        branch: str,
        seen: BranchState,
        cut: LayerCut,
        run: MetaRangeId | None = None,
        *,
        fence: int | None,
    ) -> None:
        """Take records out of the layers of a branch as `seal` returned it, and put a run on top.

        A layer without records is dropped, and each other one gets a new id, so that a commit which
        has read it loses. Raises RaceLostError when the head or the layers are others by now.
        """
