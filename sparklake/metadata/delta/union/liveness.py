"""The live files of a table, as far as its commits record them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparklake.metadata.delta.actions import Action, FileKey, fields_of
from sparklake.metadata.delta.delta_commits import DeltaCommit
from sparklake.metadata.union.commits import standing
from sparklake.metadata.union.conflicts import UnmergeableTableError


@dataclass(slots=True)
class FileStates:
    """The states of the files in dest's commits.

    `before` are files that a side removes and that were live before the sides diverged.
    """

    state: dict[FileKey, bool] = field(default_factory=dict)
    live: dict[str, FileKey] = field(default_factory=dict)
    """The live file of each path: at most one, with any deletion vector."""
    before: set[FileKey] = field(default_factory=set)
    last: dict[FileKey, DeltaCommit] = field(default_factory=dict)
    """The last commit of dest to add or remove each file."""
    standing: set[int] = field(default_factory=set)
    """The versions of dest's effective commits."""
    passed: set[str] = field(default_factory=set)
    """The origins of source's commits before the next one."""
    in_source: set[FileKey] = field(default_factory=set)
    """Live files after source's commits before the next one, as far as they show."""
    ours: set[FileKey] = field(default_factory=set)
    """Files in repeated commits."""

    @staticmethod
    def of(*sides: Sequence[DeltaCommit]) -> FileStates:
        """Return the states after the commits of all sides, dest last."""
        files = FileStates()
        for side in sides:
            touched: set[FileKey] = set()
            for commit in side:
                files.before.update(key for key in commit.removes if key not in touched)
                touched.update(commit.removes, commit.adds)
        for commit in sides[-1]:
            files.take(commit)
            files.last.update(dict.fromkeys((*commit.removes, *commit.adds), commit))
        files.standing.update(each.version for each in standing(sides[-1]))
        return files

    def take(self, commit: DeltaCommit) -> None:
        removes, adds = commit.removes, commit.adds
        self.state.update(dict.fromkeys(removes, False))
        self.state.update(dict.fromkeys(adds, True))
        for each in removes:
            if self.live.get(each.path) == each:
                del self.live[each.path]
        self.live.update((each.path, each) for each in adds)

    def is_live(self, key: FileKey) -> bool:
        return self.state.get(key, key in self.before)

    def check(self, commit: DeltaCommit) -> None:
        """Reject a commit in conflict with the state after all others.

        Removing a removed file conflicts, even if another file replaced it, because its rows would
        exist twice. Appends never conflict, as in Delta's WriteSerializable.
        """
        removes = set(commit.removes)
        absent = [each.path for each in removes if not self.is_live(each)]
        if absent:
            raise UnmergeableTableError(
                "source removed or rewrote files that dest removed, rewrote or never had", absent
            )
        others = [each for each in commit.adds if each not in self.ours]
        twice = [
            each.path
            for each in others
            if self.live.get(each.path) not in {None, *removes}
            and not (self.is_live(each) and self._had(each, commit))
        ]
        if twice:
            raise UnmergeableTableError("both sides added the same files", twice)
        lost = [
            each.path
            for each in others
            if self.state.get(each) is False and not self._had(each, commit)
        ]
        if lost:
            raise UnmergeableTableError("dest removed files that source added again", lost)
        absent = [each.path for each in others if each in self.in_source and not self.is_live(each)]
        if absent:
            raise UnmergeableTableError("source re-added files that dest does not have", absent)

    def _had(self, key: FileKey, commit: DeltaCommit) -> bool:
        """Return whether source knew dest's last change of a file before a commit.

        It did if the change precedes the commit in source, if it undid the commit, or if dest
        undid the change itself.
        """
        change = self.last[key]
        return (
            change.origin in self.passed
            or commit.origin in change.undone
            or change.version not in self.standing
        )

    def repeat(self, commit: DeltaCommit) -> None:
        self.check(commit)
        self.take(commit)
        self.ours.update(commit.adds, commit.removes)

    def pass_by(self, commit: DeltaCommit) -> None:
        """Advance past a commit of source, repeated or not."""
        self.passed.add(commit.origin)
        self.in_source.difference_update(commit.removes)
        self.in_source.update(commit.adds)


def live_after(
    commits: Iterable[Sequence[Action]], before: Mapping[FileKey, Mapping[str, Any]]
) -> dict[FileKey, Mapping[str, Any]]:
    """Return the `add` fields of live files after consecutive commits on the files `before`."""
    live = dict(before)
    for actions in commits:
        for fields in fields_of(actions, "remove"):
            live.pop(FileKey.of(fields), None)
        live.update((FileKey.of(fields), fields) for fields in fields_of(actions, "add"))
    return live
