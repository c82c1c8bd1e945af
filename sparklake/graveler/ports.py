"""What the core asks of the world: an object store, and a ref store.

Each port's contract is a test class that every implementation inherits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Protocol

from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import OPEN, Action, Guard, RepositorySettings
from sparklake.graveler.hook_runs import HookRuns
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.keys import Interval
from sparklake.graveler.records import Record

# --- objects --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredObject:
    """Is what a listing says of one object. `mtime` is in unix nanoseconds.

    `checksum` is the store's ETag without quotes, or "" where the store keeps none.
    """

    key: str
    size: int
    mtime: int
    checksum: str = ""


class Content(Protocol):
    """Is the bytes of an object, of which some parts may be read only when they are asked for.

    To ask for a part raises what an ObjectStore raises.
    """

    def __len__(self) -> int:
        """Returns how many bytes there are."""

    def __getitem__(self, part: slice, /) -> bytes:
        """Returns a part of the bytes."""


class ObjectStore(Protocol):
    """Holds immutable objects under one root. Keys are relative to it, with '/' between parts.

    Every method raises StoreUnreachableError, StorePermissionError or StoreError for the store's
    own failures, InvalidKeyError for a key that would leave the root, and MissingFileError where
    something to be read is not there.
    """

    @property
    def uri(self) -> str:
        """Returns the root, without a trailing '/'."""

    @property
    def verifies(self) -> bool:
        """Tells whether what it returns of a table has been verified against the table's id."""

    def get(self, key: str) -> bytes:
        """Returns the bytes of an object."""

    def get_many(self, keys: Sequence[str]) -> Iterator[Content]:
        """Yields the contents of objects in the order asked for; reads overlap where that pays.

        What fails is raised when it is that object's turn. An iterator that is closed half way
        begins no more reads.
        """

    def get_to_file(self, key: str, path: Path) -> None:
        """Makes a local file of an object, by a hard link where that is possible.

        `path` must not exist. The file must be treated as read-only.
        """

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Writes an object unless it exists; returns whether this call wrote it.

        Atomic: of several writers exactly one wins, and no reader sees part of an object. Durable
        on return.
        """

    def replace(self, key: str, body: bytes) -> None:
        """Writes an object in the place of what is there, which is for what no table is.

        Atomic: a reader sees the one or the other. Durable on return.
        """

    def put_many_if_absent(self, bodies: Mapping[str, bytes]) -> Sequence[str]:
        """Writes objects unless they exist, many at a time; all are durable on return.

        Returns the keys that this call wrote.
        """

    def put_files_if_absent(self, files: Mapping[str, Path]) -> Sequence[str]:
        """Writes each local file unless its key exists; all are durable on return.

        Returns the keys that this call wrote. A store may link what it is given: the files must
        never change afterwards.
        """

    def find(self, key: str) -> StoredObject | None:
        """Returns what is known of an object, or None when there is none."""

    def checksum(self, key: str) -> str:
        """Returns what tells the object's content: its ETag, or the MD5 of a file's bytes."""

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yields the objects whose key begins with a prefix, in no promised order."""

    def delete(self, key: str) -> None:
        """Deletes an object; one that is not there is no error."""


# --- refs -----------------------------------------------------------------------------------------


class LayerKind(str, Enum):
    """Is where a staging layer keeps its records."""

    ROWS = "rows"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Layer:
    """Is one layer of staged records and tombstones; a later layer has a higher id.

    A run names a metarange. A sealed layer takes no more writes.
    """

    id: int
    kind: LayerKind
    sealed: bool
    meta_range_id: MetaRangeId | None = None


@dataclass(frozen=True, slots=True)
class BranchState:
    """Is a branch at one moment: its head, and what is staged over it, newest layer first.

    A hidden one is left out where nobody asks for it. From `expires` on, in unix seconds, it may be
    pruned; `is_expired` is by the store's own clock.
    """

    name: str
    commit_id: CommitId
    layers: tuple[Layer, ...] = ()
    hidden: bool = False
    expires: int | None = None
    is_expired: bool = False
    guard: Guard = OPEN

    @property
    def may_be_pruned(self) -> bool:
        """Tells whether its time is over, and nothing protects it."""
        return self.is_expired and not self.guard.protected

    @property
    def content(self) -> tuple[CommitId, tuple[Layer, ...]]:
        """Returns what a reader sees of it: two states of equal content read the same."""
        return self.commit_id, self.layers


@dataclass(frozen=True, slots=True)
class RepositoryInfo:
    """Is what the lake knows of a repository.

    `uid` is new each time a repository is created, so that a re-created one never sees the state
    of its forerunner. `range_records` sets where its ranges end. `settings` are as of when it was
    looked up.
    """

    name: str
    uid: str
    storage_namespace: str
    default_branch: str
    range_records: int
    creation_date: int
    settings: RepositorySettings = field(default_factory=RepositorySettings)


@dataclass(frozen=True, slots=True)
class TagInfo:
    """Is a name for one commit that never moves."""

    name: str
    commit_id: CommitId


@dataclass(frozen=True, slots=True)
class LayerCut:
    """Is what is taken out of staging layers: all that they hold in some intervals.

    `runs` says, by layer, what is left of the runs that reach into them.
    """

    within: Sequence[Interval]
    runs: Mapping[int, MetaRangeId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BranchMove:
    """Is a compare-and-swap of a branch: from an expected head to a new one, in one transaction.

    `commits` are written first, parents before their children. `applied_layers` are the staging
    layers that the new head contains: all of them must still be there, and exactly these are
    removed. With a cut, the new head contains only that of them, and the rest of it stays, under
    new ids: who has read these layers, or those that were put on them meanwhile, loses. `touched`
    is kept with the commits: what each may have changed, as far as it is known.
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


class RefVerb(str, Enum):
    """Is what the ref store itself writes into the log; a branch move brings its own verb."""

    CREATE_REPOSITORY = "create-repository"
    RESTORE_REPOSITORY = "restore-repository"
    CREATE_BRANCH = "create-branch"
    DELETE_BRANCH = "delete-branch"
    PRUNE_BRANCH = "prune-branch"
    CREATE_TAG = "create-tag"
    DELETE_TAG = "delete-tag"


@dataclass(frozen=True, slots=True)
class Operation:
    """Is one line of the append-only log of ref moves; None is a ref that is not there.

    `date` is in unix seconds.
    """

    sequence: int
    date: int
    who: str
    verb: str
    ref: str
    from_commit: CommitId | None
    to_commit: CommitId | None


@dataclass(frozen=True, slots=True)
class RefsSnapshot:
    """Is all refs of a repository as of one moment, and all its commits, parents first.

    Branches and tags are in the byte order of their names, commits in that of generation and id.
    """

    branches: tuple[BranchState, ...]
    tags: tuple[TagInfo, ...]
    commits: tuple[Commit, ...]

    @property
    def named(self) -> tuple[BranchState | TagInfo, ...]:
        """Returns the branches, then the tags."""
        return (*self.branches, *self.tags)


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
        """Creates a branch in constant time; raises AlreadyExistsError."""

    def find(self, name: str) -> BranchState | None:
        """Returns a branch and its layers as of one moment."""

    def list(self) -> Sequence[BranchState]:
        """Returns all branches in the byte order of their names."""

    def delete(self, name: str, who: str, *, if_expired: bool = False) -> None:
        """Deletes a branch and what is staged on it; raises RefNotFoundError.

        With `if_expired`, raises RaceLostError for a branch that may not be pruned.
        """

    def set_lifetime(self, name: str, lifetime: timedelta | None) -> BranchState:
        """Lets a branch expire that long from now, or never; raises RefNotFoundError."""

    def move(self, move: BranchMove) -> None:
        """Applies a compare-and-swap, all of it or nothing.

        Raises RaceLostError when the head is not the expected one or an applied layer is gone or
        not sealed, RefNotFoundError when there is no such branch. A move to where the branch is,
        which only removes layers, is not logged.
        """

    def turn(self, name: str, seconds: float) -> AbstractContextManager[None]:
        """Holds the turn of a branch, after those who asked for it before.

        It is advice, and keeps nobody from moving the branch. After some seconds of waiting it goes
        on without.
        """

    def is_turn_held(self, name: str) -> bool:
        """Tells whether someone holds the turn of a branch."""


class Tags(Protocol):
    """Holds the tags of one repository; what changes them raises ReadOnlyError where it must."""

    def create(self, name: str, commit_id: CommitId, who: str) -> TagInfo:
        """Creates a tag; raises AlreadyExistsError."""

    def find(self, name: str) -> TagInfo | None:
        """Returns a tag."""

    def list(self) -> Sequence[TagInfo]:
        """Returns all tags in the byte order of their names."""

    def delete(self, name: str, who: str) -> None:
        """Deletes a tag; raises RefNotFoundError."""


class Commits(Protocol):
    """Holds the commits of one repository. They are added by `Branches.move` alone."""

    def find(self, commit_id: CommitId) -> Commit | None:
        """Returns a commit."""

    def find_by_prefix(self, prefix: str, limit: int = 2) -> Sequence[Commit]:
        """Returns up to `limit` commits whose id begins with a prefix, in the order of ids."""

    def ancestry(self, commit_ids: Sequence[CommitId], limit: int) -> Sequence[Commit]:
        """Returns the given commits and their ancestors, nearest first, at most `limit`.

        One round trip. Nearest first means by the least number of steps from a given commit, then
        by id; every commit once.
        """

    def ancestry_down_to(self, commit_ids: Sequence[CommitId], least: int) -> Sequence[Commit]:
        """Returns the given commits, their ancestors down to a generation, and the parents of all.

        The parents of a commit of a lower generation are left out. One round trip; in any order,
        every commit once.
        """

    def touched(self, commit_ids: Sequence[CommitId]) -> Mapping[CommitId, bytes]:
        """Returns what is kept of what commits may have changed, of those of which something is."""

    def first_ancestor(self, commit_id: CommitId, steps: int) -> Commit | None:
        """Returns the commit that many first parents back, None past the first; one round trip."""


class Staging(Protocol):
    """Holds the staged records of a repository's branches.

    Values are stored records, as in a table. All methods raise RefNotFoundError for a branch that
    is not there, and RaceLostError for a layer that is gone: a commit or a reset took it since the
    branch was read, so read the branch again. What changes something raises ReadOnlyError or
    ProtectedError where the branch's guard refuses it as of the moment of the change.
    """

    def put(self, branch: str, records: Sequence[Record]) -> None:
        """Stages records and tombstones in the top layer, all of them or none.

        A fresh rows layer is opened when the top one is sealed or is a run.
        """

    def add_run(
        self, branch: str, meta_range_id: MetaRangeId, seen: BranchState | None = None
    ) -> Layer:
        """Seals what is below and puts a run on top of it.

        With the branch as `seal` returned it, raises RaceLostError when its head or its layers are
        others by now.
        """

    def seal(self, branch: str, action: Action | None = None) -> BranchState:
        """Seals all layers, so that later writes go into a fresh one; returns the branch.

        When it returns, no write into a sealed layer is under way. `action` is what it is done for.
        """

    def rows(self, layer_id: int, prefix: bytes = b"") -> Iterator[Record]:
        """Streams the records of a rows layer in key order, not all held in memory at once."""

    def row(self, layer_id: int, key: bytes) -> Record | None:
        """Returns one record of a rows layer."""

    def count(self, layer_id: int) -> int:
        """Returns the number of records in a rows layer."""

    def reset(self, branch: str) -> None:
        """Drops every layer of a branch."""

    def drop(
        self, branch: str, seen: BranchState, cut: LayerCut, run: MetaRangeId | None = None
    ) -> None:
        """Takes records out of the layers of a branch as `seal` returned it, and puts a run on top.

        A layer without records is dropped, and each other one gets a new id, so that a commit which
        has read it loses. Raises RaceLostError when the head or the layers are others by now.
        """


class Operations(Protocol):
    """Holds the log of ref moves of one repository; it outlives the refs."""

    def list(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Returns the latest operations, newest first; of one ref, or of all."""


class Settings(Protocol):
    """Holds what can be set of one repository."""

    def get(self) -> RepositorySettings:
        """Returns the settings as they are now; raises RepositoryNotFoundError."""

    def change(
        self, edit: Callable[[RepositorySettings], RepositorySettings]
    ) -> RepositorySettings:
        """Puts what an edit makes of the settings in their place; returns it.

        Edits come one after the other. When it returns, nothing that the new settings refuse is
        under way. Raises RepositoryNotFoundError.
        """


class RepositoryRefs(Protocol):
    """Holds all that is mutable in one repository."""

    def snapshot(self) -> RefsSnapshot:
        """Returns all refs and all commits, whatever moves meanwhile."""

    @property
    def branches(self) -> Branches: ...
    @property
    def tags(self) -> Tags: ...
    @property
    def commits(self) -> Commits: ...
    @property
    def staging(self) -> Staging: ...
    @property
    def operations(self) -> Operations: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def hook_runs(self) -> HookRuns: ...


class RefStore(Protocol):
    """Holds the repositories of a lake."""

    def id(self) -> str:
        """Returns what tells this ref store from every other one, for as long as it lives."""

    def create_repository(self, info: RepositoryInfo, first: Commit, who: str) -> None:
        """Creates a repository, its first commit and its default branch in one transaction.

        Raises AlreadyExistsError for a name, NamespaceInUseError for a namespace that is taken.
        """

    def restore_repository(self, info: RepositoryInfo, refs: RefsSnapshot, who: str) -> None:
        """Creates a repository that has refs and commits from the start, nothing staged.

        One transaction, which logs each ref. Among the branches is the default one. Raises what
        `create_repository` does.
        """

    def find_repository(self, name: str) -> RepositoryInfo | None:
        """Returns a repository."""

    def list_repositories(self) -> Sequence[RepositoryInfo]:
        """Returns all repositories in the byte order of their names."""

    def delete_repository(self, name: str, *, force: bool = False) -> None:
        """Forgets a repository and its refs; its objects stay. Raises RepositoryNotFoundError.

        Raises ReadOnlyError for a read-only one, unless forced.
        """

    def refs(self, uid: str, *, force: bool = False) -> RepositoryRefs:
        """Returns the refs of the repository with an instance uid.

        By force they can be changed in a read-only repository, too.
        """

    def close(self) -> None:
        """Gives back connections; the store must not be used any more."""
