"""The live files of a table after its commits, as far as commits show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparklake.delta_log.actions import Action, FileKey
from sparklake.delta_log.delta_commits import DeltaCommit, UnmergeableTableError, standing


@dataclass(slots=True)
class FileStates:
    """The known states of dest's files: of all files that its commits touch.

    `before` are files that were live before the sides diverged, as far as a side removes them.
    """

    state: dict[FileKey, bool] = field(default_factory=dict)
    live: dict[str, FileKey] = field(default_factory=dict)
    """The live file of each path. A path is live once in a table, with any deletion vector."""
    before: set[FileKey] = field(default_factory=set)
    last: dict[FileKey, DeltaCommit] = field(default_factory=dict)
    """The last commit of dest that added or removed each file."""
    standing: set[int] = field(default_factory=set)
    """The versions of dest's commits that dest has not undone."""
    passed: set[str] = field(default_factory=set)
    """The origins of source's commits before the next one."""
    in_source: set[FileKey] = field(default_factory=set)
    """Files that source's commits before the next one leave live, as far as they show."""
    ours: set[FileKey] = field(default_factory=set)
    """Files whose state comes from repeated commits."""

    @staticmethod
    def of(*sides: Sequence[DeltaCommit]) -> FileStates:
        """Return the file states after the commits of the sides. Dest's come last."""
        files = FileStates()
        for side in sides:
            seen: set[FileKey] = set()
            for commit in side:
                files.before.update(key for key in commit.removes if key not in seen)
                seen.update(commit.removes, commit.adds)
        for commit in sides[-1]:
            files.take(commit)
            files.last.update(dict.fromkeys((*commit.removes, *commit.adds), commit))
        files.standing.update(each.version for each in standing(sides[-1]))
        return files

    def take(self, commit: DeltaCommit) -> None:
        """Apply a commit after all others."""
        removes, adds = commit.removes, commit.adds
        self.state.update(dict.fromkeys(removes, False))
        self.state.update(dict.fromkeys(adds, True))
        for each in removes:
            if self.live.get(each.path) == each:
                del self.live[each.path]
        self.live.update((each.path, each) for each in adds)

    def is_live(self, key: FileKey) -> bool:
        """Return whether a file is live in dest."""
        return self.state.get(key, key in self.before)

    def check(self, commit: DeltaCommit) -> None:
        """Raise UnmergeableTableError for a commit that cannot follow all others."""
        removes = set(commit.removes)
        gone = [each.path for each in removes if not self.is_live(each)]
        if gone:
            raise UnmergeableTableError(
                "source removed or rewrote files that dest has removed, rewritten or never had",
                gone,
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

        It did if that change precedes the commit in source, if dest's change undid the
        commit, or if dest undid the change itself.
        """
        did = self.last[key]
        return (
            did.origin in self.passed
            or commit.origin in did.undone
            or did.version not in self.standing
        )

    def repeat(self, commit: DeltaCommit) -> None:
        """Apply a repeated commit; raise UnmergeableTableError."""
        self.check(commit)
        self.take(commit)
        self.ours.update(commit.adds, commit.removes)

    def pass_by(self, commit: DeltaCommit) -> None:
        """Go past a commit of source, repeated or not."""
        self.passed.add(commit.origin)
        self.in_source.difference_update(commit.removes)
        self.in_source.update(commit.adds)


def live_after(
    commits: Iterable[Sequence[Action]], before: Mapping[FileKey, Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the `add` fields of files that are live after consecutive commits.

    `before` are the live files before them.
    """
    found = dict(before)
    for actions in commits:
        for each in actions:
            if each.get("remove") is not None:
                found.pop(FileKey.of(each["remove"]), None)
        for each in actions:
            if each.get("add") is not None:
                found[FileKey.of(each["add"])] = each["add"]
    return list(found.values())
