"""Verbs that make commits, and that move branches, in plain dicts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sparklake import Commit
from sparklake.errors import (
    DirtyBranchError,
    InvalidInputError,
    NoChangesError,
    NothingToDoError,
    UnexpectedHeadError,
)
from tests.scenarios.model.model_staging import StagingModel
from tests.scenarios.model.strategies import Decided, Resolution, decided, merged, part_of
from tests.scenarios.model.trees import Diff, Tree, changed, differences, imported, size_of


@dataclass(frozen=True)
class MergeTerms:
    resolution: Resolution
    squash: bool = False
    allow_empty: bool = False
    paths: list[str] | None = None


Preview = tuple[list[tuple[int, int]], int, Diff]
"""Objects and bytes that are added, changed and removed; how many conflicts are left; all rows."""


class CommitsModel(StagingModel):
    def commit(
        self, branch: str, made: Commit | None, *, allow_empty: bool, paths: list[str] | None = None
    ) -> None:
        part = part_of(paths) if paths is not None else None
        self.branch(branch)
        if paths == []:
            raise InvalidInputError
        head = self.open(branch, "commit")
        staged = self.staged[branch]
        taken = {path: each for path, each in staged.items() if part is None or part(path)}
        before, after = self.trees[head], changed(self.trees[head], taken)
        if part is None or before != after or allow_empty:
            # To commit nothing takes away the staged changes that are none.
            self.staged[branch] = {path: staged[path] for path in staged.keys() - taken.keys()}
        if before == after and not allow_empty:
            raise NoChangesError
        self._take("commit", branch, [made], (head,), [after])

    def import_objects(self, branch: str, folder: str, objects: Tree, made: Commit | None) -> None:
        head = self.open(branch, "commit")
        if self.staged[branch]:
            raise DirtyBranchError
        if not objects:
            raise InvalidInputError
        before, prefix = self.trees[head], f"{folder.rstrip('/')}/" if folder else ""
        after = {path: each for path, each in before.items() if not path.startswith(prefix)}
        after |= {
            prefix + path: imported(each, before.get(prefix + path))
            for path, each in objects.items()
        }
        if after == before:
            raise NoChangesError
        self._take("import", branch, [made], (head,), [after])

    def merge(self, source: str, dest: str, terms: MergeTerms, made: Commit | None) -> None:
        theirs, ours, choice = self._sides(source, dest, terms, is_write=True)
        tree = choice.applied(self.trees[ours])
        one_parent = terms.squash or terms.paths is not None
        if one_parent and tree == self.trees[ours] and not terms.allow_empty:
            raise NoChangesError
        self._check_apart(dest, self.trees[ours], tree)
        label = {".lakefs.merge.strategy": terms.resolution.label}
        if one_parent:
            label["merge-origin"] = theirs
        if terms.paths is not None:
            label["merge-paths"] = json.dumps(terms.paths, ensure_ascii=False)
        parents = (ours,) if one_parent or theirs == ours else (ours, theirs)
        self._take("merge", dest, [made], parents, [tree], label)

    def _check_apart(self, branch: str, before: Tree, after: Tree) -> None:
        """Check that no staged change would hide a change from one tree to another."""
        for path, staged in self.staged[branch].items():
            if before.get(path) != after.get(path) != staged:
                raise DirtyBranchError

    def preview(self, source: str, dest: str, terms: MergeTerms) -> Preview:
        """Return what a merge would change, what it would leave, and all conflicts."""
        _, ours, choice = self._sides(source, dest, terms, is_write=False)
        tree = self.trees[ours]
        counts: dict[str, list[int]] = {"added": [], "changed": [], "removed": []}
        after = changed(tree, choice.changes)
        for kind, _, size in differences(tree, after):
            counts[kind].append(size)
        kept = choice.beside(after)
        counts["added"] += [size_of(each) for path, each in kept.items() if path not in after]
        conflicts = [row for row in choice.rows if row[0] == "conflict"]
        numbers = [(len(sizes), sum(sizes)) for sizes in counts.values()]
        one_parent = terms.squash or terms.paths is not None
        changes = any(counts.values()) or choice.left
        if one_parent and not changes and not terms.allow_empty:
            raise NoChangesError
        return numbers, len(choice.left), conflicts

    def _sides(
        self, source: str, dest: str, terms: MergeTerms, *, is_write: bool
    ) -> tuple[str, str, Decided]:
        """Return both commits of a merge, and what it decides."""
        if terms.paths == []:
            raise InvalidInputError
        if is_write:
            self.branch(dest)
        if source == dest:
            raise NoChangesError
        theirs = self.resolve(source)
        ours = self.open(dest) if is_write else self.branch(dest)
        base = self.history.base_tree(theirs, ours)
        if base == self.trees[theirs] and not terms.allow_empty:
            raise NoChangesError
        part = None if terms.paths is None else part_of(terms.paths)
        trees = self.trees[theirs], self.trees[ours]
        return theirs, ours, decided(base, *trees, terms.resolution, part)

    def replay(
        self,
        branch: str,
        refs: Sequence[str],
        number: int | None,
        resolution: Resolution,
        made: Sequence[Commit],
        *,
        undo: bool,
        allow_empty: bool,
    ) -> None:
        """Revert or cherry-picks commits one after the other; all of them, or none."""
        self.branch(branch)
        steps = [self._change(ref, number) for ref in refs]
        if not steps:
            raise InvalidInputError
        self.open(branch, None if undo else "commit")
        if self.staged[branch]:
            raise DirtyBranchError
        head = self.heads[branch]
        trees, tree = [], self.trees[head]
        for before, commit in steps:
            after = self.trees[commit]
            base, source = (after, before) if undo else (before, after)
            replayed = merged(base, source, tree, resolution)
            if replayed == tree and not allow_empty:
                raise NoChangesError
            tree = replayed
            trees.append(tree)
        verb = "revert" if undo else "cherry-pick"
        self._take(verb, branch, made, (head,), trees)
        if not undo:
            for each, (_, origin) in zip(made, steps, strict=True):
                self._check_picked(each, self.commits[origin])

    def _change(self, ref: str, number: int | None) -> tuple[Tree, str]:
        """Return the tree before a commit, and its id."""
        commit = self.resolve(ref)
        parents = self.commits[commit].parents
        if number is None and len(parents) > 1:
            raise InvalidInputError
        if number is not None and number > len(parents):
            raise InvalidInputError
        return self.trees[parents[(number or 1) - 1]] if parents else {}, commit

    def _check_picked(self, made: Commit, origin: Commit) -> None:
        assert made.message == origin.message
        source = {"cherry-pick-origin": origin.id, "cherry-pick-committer": origin.committer}
        assert made.metadata == {**origin.metadata, **source}

    def rebase(
        self, branch: str, onto: str, resolution: Resolution, made: Sequence[Commit]
    ) -> None:
        self.branch(branch)
        target, head = self.resolve(onto), self.open(branch, "commit")
        self.open(branch, "reset")  # It abandons the previous commits.
        if self.staged[branch]:
            raise DirtyBranchError
        own = self._own(head, target)
        line = [target, *own]
        if line[-1] == head and all(
            self.commits[each].parents[:1] == (below,)
            for each, below in zip(own, line, strict=False)
        ):
            raise NoChangesError
        trees: list[Tree] = []
        tree, kept = self.trees[target], target
        for each in own:
            parents = self.commits[each].parents
            if not trees and parents[:1] == (kept,):
                tree, kept = self.trees[each], each
                continue
            before: Tree = self.trees[parents[0]] if parents else {}
            after = merged(before, self.trees[each], tree, resolution)
            if after != tree or before == self.trees[each]:
                trees.append(after)
            tree = after
        for commit, found in zip(made, trees, strict=True):
            assert commit.parents == (kept,)
            self.commits[commit.id], self.trees[commit.id] = commit, found
            kept = commit.id
        self._move("rebase", branch, kept)

    def _own(self, head: str, other: str) -> list[str]:
        """Return the commits of a first-parent line that another commit does not stand on."""
        contained, own = self.history.ancestry(other), []
        line: str | None = head
        while line is not None and line not in contained:
            parents = self.commits[line].parents
            if not parents[1:] or not contained.issuperset(parents[1:]):
                own.append(line)
            line = parents[0] if parents else None
        return own[::-1]

    def hard_reset(self, branch: str, ref: str, expected: str | None, *, force: bool) -> str:
        head = self.branch(branch)
        if expected is not None and self.resolve(expected) != head:
            raise UnexpectedHeadError
        if self.staged[branch] and not force:
            raise DirtyBranchError
        target = self.resolve(ref)
        self.open(branch, "reset")
        self.staged[branch] = {}
        self._move("hard-reset", branch, target)
        return target

    def undo(self, branch: str) -> str:
        """Move a branch back to before the latest move of its name."""
        self.branch(branch)
        if self.staged[branch]:
            raise DirtyBranchError
        before = [source for _, ref, source, _ in self.operations if ref == branch][-1]
        if before is None:
            raise NothingToDoError
        self.open(branch, "reset")
        self._move("undo", branch, before)
        return before

    def _take(
        self,
        verb: str,
        branch: str,
        made: Sequence[Commit | None],
        parents: tuple[str, ...],
        trees: Sequence[Tree],
        metadata: dict[str, str] | None = None,
    ) -> None:
        """Move a branch over a row of commits that were made of trees."""
        for commit, tree in zip(made, trees, strict=True):
            assert commit is not None
            assert commit.parents == parents
            assert commit.generation == 1 + max(self.commits[each].generation for each in parents)
            assert (metadata or {}).items() <= commit.metadata.items()
            # Two branches may come to one commit: the same parents, tree, words and second.
            assert self.trees.get(commit.id, tree) == tree
            self.commits[commit.id], self.trees[commit.id] = commit, tree
            parents = (commit.id,)
        self._move(verb, branch, parents[0])
