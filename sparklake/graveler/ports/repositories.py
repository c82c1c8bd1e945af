"""What the core asks of a ref store: repositories, and all that is mutable in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.ports.branches import Branches, BranchState, Staging
from sparklake.graveler.ports.history import Commits, Operations, TagInfo, Tags
from sparklake.graveler.ports.registers import HookRuns, Purges, Writes

if TYPE_CHECKING:
    from sparklake.graveler.ports.collections import Collections


@dataclass(frozen=True, slots=True)
class RepositoryInfo:
    """What the lake knows of a repository.

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
class RefsSnapshot:
    """All refs of a repository as of one moment, and all its commits, parents first.

    Branches and tags are in the byte order of their names, commits in that of generation and id.
    """

    branches: tuple[BranchState, ...]
    tags: tuple[TagInfo, ...]
    commits: tuple[Commit, ...]

    @property
    def named(self) -> tuple[BranchState | TagInfo, ...]:
        """The branches, then the tags."""
        return (*self.branches, *self.tags)


class Settings(Protocol):
    """Holds what can be set of one repository."""

    def get(self) -> RepositorySettings:
        """Return the settings as they are now; raise RepositoryNotFoundError."""

    def change(
        self, edit: Callable[[RepositorySettings], RepositorySettings]
    ) -> RepositorySettings:
        """Put what an edit makes of the settings in their place; return it.

        Edits come one after the other. When it returns, nothing that the new settings refuse is
        under way. Raises RepositoryNotFoundError.
        """


class RepositoryRefs(Protocol):
    """Holds all that is mutable in one repository."""

    def snapshot(self) -> RefsSnapshot:
        """Return all refs and all commits, whatever moves meanwhile."""

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
    @property
    def purges(self) -> Purges: ...
    @property
    def writes(self) -> Writes: ...
    @property
    def collections(self) -> Collections: ...


class RefStore(Protocol):
    """Holds the repositories of a lake."""

    def id(self) -> str:
        """Return what tells this ref store from every other one, for as long as it lives."""

    def create_repository(self, info: RepositoryInfo, first: Commit, who: str) -> None:
        """Create a repository, its first commit and its default branch in one transaction.

        Raises AlreadyExistsError for a name, NamespaceInUseError for a namespace that is taken.
        """

    def restore_repository(self, info: RepositoryInfo, refs: RefsSnapshot, who: str) -> None:
        """Create a repository that has refs and commit from the start, nothing staged.

        One transaction, which logs each ref. Among the branches is the default one. Raises what
        `create_repository` does.
        """

    def find_repository(self, name: str) -> RepositoryInfo | None:
        """Return a repository."""

    def list_repositories(self) -> Sequence[RepositoryInfo]:
        """Return all repositories in the byte order of their names."""

    def delete_repository(self, name: str, *, force: bool = False) -> None:
        """Forget a repository and its refs; its objects stay. Raises RepositoryNotFoundError.

        Raises ReadOnlyError for a read-only one, unless forced.
        """

    def refs(self, uid: str, *, force: bool = False) -> RepositoryRefs:
        """Return the refs of the repository with an instance uid.

        By force they can be changed in a read-only repository, too.
        """

    def close(self) -> None:
        """Give back connections; the store must not be used any more."""
