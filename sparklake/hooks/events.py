"""Events that hooks receive, and the results of hooks."""

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

    from sparklake.engine.rows import Rows
    from sparklake.udfs.objects.rows import ObjectInfo
    from sparklake.udfs.read import DiffRow


class EventName(str, Enum):
    """What hooks are declared on; the names are lakeFS's."""

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
        """Whether a failure keeps the verb from happening."""
        return self.value.startswith("pre-")

    @property
    def is_of_tags(self) -> bool:
        """Whether the ref is a tag."""
        return self.value.endswith("-tag")


class EventTree(Protocol):
    """A tree of an event: for a move of a branch the one that is to be published."""

    @property
    def id(self) -> MetaRangeId:
        """The id of its metarange."""

    def objects(self, prefix: str = "") -> Rows[ObjectInfo]:
        """Return its objects."""

    def stat(self, path: str) -> ObjectInfo:
        """Return one object; raise ObjectNotFoundError."""

    def exists(self, path: str) -> bool:
        """Return whether there is an object at a path."""

    def read_bytes(self, path: str) -> bytes:
        """Return the content of one object."""

    def read(self, path: str, format: str = "parquet", **options: Any) -> DataFrame:  # noqa: A002
        """Return the table under a path as a DataFrame; raise ObjectNotFoundError."""

    def changes(self, prefix: str = "") -> Rows[DiffRow]:
        """Return what the event changes; nothing for an event of a name alone."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something about to happen to a ref, or that has just happened.

    `ref` is the branch or tag, `head` the commit that it is at before, None where it is not there
    yet. `commits` are those about to be made, the last of which becomes the head; of an event of a
    name there are none. `source` is the commit that is merged, or that a new name is given to.
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
        """The commit that becomes the head."""
        return self.commits[-1] if self.commits else None

    @property
    def commit_id(self) -> CommitId | None:
        """The commit that is made or named."""
        return self.commits[-1].id if self.commits else self.source or self.head


@dataclass(frozen=True, slots=True)
class HookCall:
    """What a Python hook is given: an event, and what is declared of the hook.

    `args` is what the file says of it in `properties.args`.
    """

    event: Event
    action: str
    hook: str
    args: Mapping[str, Any]

    @property
    def tree(self) -> EventTree:
        """The tree that is to be published."""
        return self.event.tree

    @property
    def commit(self) -> Commit | None:
        """The commit that is to become the head."""
        return self.event.commit


def event_document(event: Event, action: str, hook: str) -> dict[str, Any]:
    """Return an event as shell hooks and webhooks get it: lakeFS's fields, and ours."""
    made = event.commit
    said: dict[str, Any] = {
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
    if made is not None:
        said |= {
            "commit_message": made.message,
            "committer": made.committer,
            "commit_metadata": dict(made.metadata),
            "commit_parents": list(made.parents),
            "meta_range_id": made.meta_range_id,
        }
    return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a hook; one that is not allowed has failed without being run."""

    status: HookStatus
    output: str = ""
    is_allowed: bool = True


def passed(output: str = "") -> Outcome:
    """Return that a hook has nothing against it."""
    return Outcome(HookStatus.PASSED, output)


def failed(output: str) -> Outcome:
    """Return that a hook refuses, or that it could not be asked."""
    return Outcome(HookStatus.FAILED, output)
