"""Events and outcomes of hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from sparklake.graveler.commits import Commit
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports.registers import HookStatus
from sparklake.graveler.times import text_of_second

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparklake.engine.lazy_rows import Rows
    from sparklake.rows.diffs import DiffRow
    from sparklake.rows.objects import ObjectInfo


class EventName(str, Enum):
    """The events of hooks, with lakeFS's names."""

    PRE_COMMIT = "pre-commit"
    POST_COMMIT = "post-commit"
    PRE_MERGE = "pre-merge"
    POST_MERGE = "post-merge"
    PRE_REVERT = "pre-revert"
    POST_REVERT = "post-revert"
    PRE_CHERRY_PICK = "pre-cherry-pick"
    POST_CHERRY_PICK = "post-cherry-pick"
    PRE_CREATE_BRANCH = "pre-create-branch"
    POST_CREATE_BRANCH = "post-create-branch"
    PRE_DELETE_BRANCH = "pre-delete-branch"
    POST_DELETE_BRANCH = "post-delete-branch"
    PRE_CREATE_TAG = "pre-create-tag"
    POST_CREATE_TAG = "post-create-tag"
    PRE_DELETE_TAG = "pre-delete-tag"
    POST_DELETE_TAG = "post-delete-tag"

    @property
    def is_before(self) -> bool:
        """Whether a failed hook prevents the verb."""
        return self.value.startswith("pre-")

    @property
    def is_of_tags(self) -> bool:
        """Whether the ref is a tag."""
        return self.value.endswith("-tag")


class EventTree(Protocol):
    """The tree of an event. For a branch move, it is the tree to publish."""

    @property
    def id(self) -> MetaRangeId:
        """The id of the metarange."""

    def objects(self, prefix: str = "") -> Rows[ObjectInfo]:
        """Return the objects."""

    def stat(self, path: str) -> ObjectInfo:
        """Return one object, or raise ObjectNotFoundError."""

    def exists(self, path: str) -> bool:
        """Return whether an object exists at a path."""

    def read_bytes(self, path: str) -> bytes:
        """Return the content of one object."""

    def read(self, path: str, format: str = "parquet", **options: Any) -> DataFrame:  # noqa: A002
        """Return the table under a path as a DataFrame, or raise ObjectNotFoundError."""

    def changes(self, prefix: str = "") -> Rows[DiffRow]:
        """Return the changes of the event. Empty without new commits."""


@dataclass(frozen=True, slots=True)
class Event:
    """An upcoming or finished change of a ref.

    `ref` is the branch or tag. `head` is its previous commit, or None for a new ref. `commits` are
    the new commits, if any, the last of which becomes the head. `source` is the merged commit, or
    the target of a new ref.
    """

    name: EventName
    run_id: str
    repository: str
    storage_namespace: str
    ref: str
    who: str
    date: int
    tree: EventTree = field(repr=False)
    head: CommitId | None = None
    source: CommitId | None = None
    commits: Sequence[Commit] = ()

    @property
    def commit(self) -> Commit | None:
        """The commit that becomes the head, or None."""
        return self.commits[-1] if self.commits else None

    @property
    def commit_id(self) -> CommitId | None:
        """The new or named commit."""
        return self.commits[-1].id if self.commits else self.source or self.head


@dataclass(frozen=True, slots=True)
class HookCall:
    """The argument of a Python hook: an event and the hook's declaration.

    `args` is `properties.args` in the hook file.
    """

    event: Event
    action: str
    hook: str
    args: Mapping[str, Any]

    @property
    def tree(self) -> EventTree:
        return self.event.tree

    @property
    def commit(self) -> Commit | None:
        """The commit that becomes the head, or None."""
        return self.event.commit


def event_document(event: Event, action: str, hook: str) -> dict[str, Any]:
    """Return an event as JSON, with lakeFS's fields and sparklake's."""
    commit = event.commit
    document: dict[str, Any] = {
        "event_type": event.name.value,
        "event_time": text_of_second(event.date, "T"),
        "run_id": event.run_id,
        "action_name": action,
        "hook_id": hook,
        "repository_id": event.repository,
        "storage_namespace": event.storage_namespace,
        "tag_id" if event.name.is_of_tags else "branch_id": event.ref,
        "who": event.who,
        "commit_id": event.commit_id,
        "head": event.head,
        "source_ref": event.source,
    }
    if commit is not None:
        document |= {
            "commit_message": commit.message,
            "committer": commit.committer,
            "commit_metadata": dict(commit.metadata),
            "commit_parents": list(commit.parents),
            "meta_range_id": commit.meta_range_id,
        }
    return {name: value for name, value in document.items() if value is not None}


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The outcome of a hook. A disallowed hook fails without running."""

    status: HookStatus
    output: str = ""
    is_allowed: bool = True


def passed(output: str = "") -> HookOutcome:
    return HookOutcome(HookStatus.PASSED, output)


def failed(output: str) -> HookOutcome:
    return HookOutcome(HookStatus.FAILED, output)
