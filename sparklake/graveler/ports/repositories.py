"""Ports of the ref store: repositories and their mutable state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.ids import CommitId
from sparklake.graveler.ports.branches import Branches, BranchState, Staging
from sparklake.graveler.ports.commits import Commits, Operations, TagInfo, Tags
from sparklake.graveler.ports.once import OnceKeys
from sparklake.graveler.ports.registers import HookRuns, Purges, Writes

if TYPE_CHECKING:
    from sparklake.graveler.ports.collections import Collections


@dataclass(frozen=True, slots=True)
class RepositoryInfo:
    """The lake's record of a repository.

    `uid` is new each time a repository is created, so a re-created repository never sees the state
    of the previous one. `range_records` sets where its ranges end. `settings` are as of the lookup.
    """

    name: str
    uid: str
    storage_namespace: str
    default_branch: str
    range_records: int
    creation_date: int
    settings: RepositorySettings = field(default_factory=RepositorySettings)


@dataclass(frozen=True, slots=True)
class RefsSnapshot:
    """All refs of a repository at one moment, and all its commits, parents first.

    Branches and tags are in the byte order of their names. Commits are in the order of generation
    and id.
    """

    branches: tuple[BranchState, ...]
    tags: tuple[TagInfo, ...]
    commits: tuple[Commit, ...]

    @property
    def named(self) -> tuple[BranchState | TagInfo, ...]:
        """The branches, then the tags."""
        return (*self.branches, *self.tags)


class SettingsStore(Protocol):
    """The settings of one repository."""

    def get(self) -> RepositorySettings:
        """Return the current settings. Raises RepositoryNotFoundError."""

    def change(
        self, edit: Callable[[RepositorySettings], RepositorySettings]
    ) -> RepositorySettings:
        """Replace the settings with an edit of them; return the new settings.

        Edits are serialized. On return, no operation rejected by the new settings is in progress.
        """


class RepositoryRefs(Protocol):
    """The mutable state of one repository."""

    def snapshot(self) -> RefsSnapshot:
        """Return all refs and all commits in one consistent snapshot."""

    @property
    def tree_sweeps(self) -> int:
        """The number of finished tree sweeps, as of the latest read.

        After a sweep, a tree file of the same id may reference different objects.
        """

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
    def settings(self) -> SettingsStore: ...
    @property
    def hook_runs(self) -> HookRuns: ...
    @property
    def purges(self) -> Purges: ...
    @property
    def writes(self) -> Writes: ...
    @property
    def once_keys(self) -> OnceKeys: ...
    @property
    def collections(self) -> Collections: ...


class RefStore(Protocol):
    """The repositories of a lake."""

    def id(self) -> str:
        """Return the permanent, unique id of this ref store."""

    def create_repository(self, info: RepositoryInfo, first: Commit, who: str) -> None:
        """Create a repository, its first commit and its default branch in one transaction.

        Raises AlreadyExistsError for a used name, NamespaceInUseError for a used namespace.
        """

    def restore_repository(
        self,
        info: RepositoryInfo,
        refs: RefsSnapshot,
        who: str,
        collected: Collection[CommitId] = (),
    ) -> None:
        """Create a repository with refs and commits, and nothing staged.

        Runs in one transaction and logs each ref. The branches must include the default one. The
        `collected` commits are expired and have no trees. Raises the errors of
        `create_repository`.
        """

    def find_repository(self, name: str) -> RepositoryInfo | None:
        """Return a repository."""

    def list_repositories(self) -> Sequence[RepositoryInfo]:
        """Return all repositories in the byte order of their names."""

    def delete_repository(self, name: str, *, force: bool = False) -> None:
        """Delete a repository and its refs; its objects stay.

        Raises RepositoryNotFoundError, or ReadOnlyError unless forced.
        """

    def refs(self, uid: str, *, force: bool = False) -> RepositoryRefs:
        """Return the refs of the repository with an instance uid.

        With `force`, refs of a read-only repository can be changed, too.
        """

    def close(self) -> None:
        """Close all connections. The store must not be used afterwards."""
