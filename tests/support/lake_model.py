"""What a repository does, in plain dicts. Verbs raise the errors that the real ones raise.

A tree is a dict of path to content. A verb that makes a commit takes the one that was really made
and checks what it says of itself. The merge base is the best common ancestor, as in sparklake:
several that are no ancestors of each other, as criss-cross merges make them, are merged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sparklake import Commit
from sparklake.errors import (
    AlreadyExistsError,
    AmbiguousRefError,
    DirtyBranchError,
    InvalidInputError,
    InvalidRefError,
    MergeConflictError,
    NoChangesError,
    NothingToDoError,
    ObjectNotFoundError,
    ProtectedError,
    RefNotFoundError,
)
from tests.support.recursive import Tree as BaseTree
from tests.support.recursive import base_tree

MAIN = "main"

Diff = list[tuple[str, str, int]]
"""Type, path and size of each row, by path."""


@dataclass(frozen=True)
class Content:
    """Is all by which two objects are the same: one of them elsewhere, or later, is no change."""

    body: bytes
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def checksum(self) -> str:
        return hashlib.md5(self.body).hexdigest()


Tree = dict[str, Content]
Changes = dict[str, "Content | None"]


@dataclass
class LakeModel:
    commits: dict[str, Commit]
    trees: dict[str, Tree]
    heads: dict[str, str]
    staged: dict[str, Changes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    came_from: dict[str, str | None] = field(default_factory=lambda: {MAIN: None})

    @classmethod
    def of(cls, first: Commit) -> LakeModel:
        return cls({first.id: first}, {first.id: {}}, {MAIN: first.id}, {MAIN: {}})

    # --- refs -------------------------------------------------------------------------------------

    def resolve(self, ref: str) -> str:
        if ref.endswith("$"):
            raise InvalidRefError
        base, steps, committed = re.fullmatch(r"([^~^@]+)([~^0-9]*)(@?)", ref).groups()  # type: ignore[union-attr]
        found = self._base(base)
        if committed and base not in self.heads:
            raise InvalidRefError
        for kind, digits in re.findall(r"([~^])([0-9]*)", steps):
            count = int(digits or 1)
            for number in [1] * count if kind == "~" else [count] if count else []:
                parents = self.commits[found].parents
                if number > len(parents):
                    raise RefNotFoundError
                found = parents[number - 1]
        return found

    def _base(self, base: str) -> str:
        for names in (self.heads, self.tags):
            if base in names:
                return names[base]
        fitting = [each for each in self.commits if each.startswith(base)]
        if len(fitting) > 1:
            raise AmbiguousRefError
        if not fitting:
            raise RefNotFoundError
        return fitting[0]

    def tree(self, ref: str) -> Tree:
        """Returns what a ref shows: of a branch also what is staged, of `branch$` it alone."""
        if ref.endswith("$"):
            self._base(ref[:-1])
            if ref[:-1] not in self.heads:
                raise InvalidRefError
            return changed({}, self.staged[ref[:-1]])
        found = self.trees[self.resolve(ref)]
        return changed(found, self.staged[ref]) if ref in self.heads else found

    def create_branch(self, name: str, source: str) -> None:
        if name in self.tags:
            raise AlreadyExistsError
        head = self.resolve(source)
        if name in self.heads:
            raise AlreadyExistsError
        self.heads[name], self.staged[name], self.came_from[name] = head, {}, None

    def delete_branch(self, name: str) -> None:
        if name == MAIN:
            raise ProtectedError
        self.branch(name)
        del self.heads[name], self.staged[name]

    def branch(self, name: str) -> str:
        if name not in self.heads:
            raise RefNotFoundError
        return self.heads[name]

    def create_tag(self, name: str, ref: str) -> str:
        if name in self.heads:
            raise AlreadyExistsError
        commit_id = self.resolve(ref)
        if name in self.tags:
            raise AlreadyExistsError
        self.tags[name] = commit_id
        return commit_id

    def delete_tag(self, name: str) -> None:
        if name not in self.tags:
            raise RefNotFoundError
        del self.tags[name]

    # --- staging ----------------------------------------------------------------------------------

    def stage(self, branch: str, changes: Changes) -> None:
        self.branch(branch)
        self.staged[branch].update(changes)

    def delete_prefix(self, branch: str, prefix: str) -> int:
        gone = below(self.tree(branch), prefix)
        self.stage(branch, dict.fromkeys(gone))
        return len(gone)

    def transfer(
        self, branch: str, source: str, dest: str, ref: str | None, *, removing: bool, force: bool
    ) -> int:
        """Moves or copies; a folder ends with a slash, and so does where it goes."""
        is_folder = source.endswith("/")
        overlaps = is_folder and (source.startswith(dest) or dest.startswith(source))
        if removing and (overlaps or source == dest):
            raise InvalidInputError
        self.branch(branch)
        there = self.tree(ref or branch)
        old = [path for path in there if path == source or (is_folder and path.startswith(source))]
        moved = {dest + path.removeprefix(source): there[path] for path in old}
        if not force and moved.keys() & self.tree(branch).keys():
            raise AlreadyExistsError
        if not old:
            raise ObjectNotFoundError
        self.stage(branch, {**(dict.fromkeys(old) if removing else {}), **moved})
        return len(old)

    def reset(self, branch: str) -> None:
        self.branch(branch)
        self.staged[branch] = {}

    def reset_part(self, branch: str, part: Callable[[str], bool]) -> None:
        self.branch(branch)
        staged = self.staged[branch]
        self.staged[branch] = {path: each for path, each in staged.items() if not part(path)}

    # --- history ----------------------------------------------------------------------------------

    def commit(self, branch: str, made: Commit | None, *, allow_empty: bool) -> None:
        head = self.branch(branch)
        before, after = self.trees[head], self.tree(branch)
        self.staged[branch] = {}
        if before == after and not allow_empty:
            raise NoChangesError
        self._take(branch, made, (head,), after)

    def merge(self, source: str, dest: str, strategy: str | None, made: Commit | None) -> None:
        if source == dest:
            raise NoChangesError
        theirs, ours = self.resolve(source), self.branch(dest)
        if self.staged[dest]:
            raise DirtyBranchError
        base = self.base_tree(theirs, ours)
        if base == self.trees[theirs]:
            raise NoChangesError
        tree = merged(base, self.trees[theirs], self.trees[ours], strategy)
        self._take(dest, made, (ours, theirs), tree)

    def replay(
        self,
        branch: str,
        ref: str,
        number: int | None,
        strategy: str | None,
        made: Commit | None,
        *,
        undo: bool,
    ) -> None:
        """Reverts or cherry-picks."""
        self.branch(branch)
        commit = self.resolve(ref)
        parents = self.commits[commit].parents
        if number is None and len(parents) > 1:
            raise InvalidInputError
        if number is not None and number > len(parents):
            raise InvalidInputError
        if self.staged[branch]:
            raise DirtyBranchError
        before: Tree = self.trees[parents[(number or 1) - 1]] if parents else {}
        after, ours = self.trees[commit], self.heads[branch]
        base, theirs = (after, before) if undo else (before, after)
        tree = merged(base, theirs, self.trees[ours], strategy)
        if tree == self.trees[ours]:
            raise NoChangesError
        self._take(branch, made, (ours,), tree)

    def rebase(
        self, branch: str, onto: str, strategy: str | None, made: list[Commit] | None
    ) -> None:
        target, head = self.resolve(onto), self.branch(branch)
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
            after = merged(before, self.trees[each], tree, strategy)
            if after != tree or before == self.trees[each]:
                trees.append(after)
            tree = after
        assert made is not None
        for commit, found in zip(made, trees, strict=True):
            assert commit.parents == (kept,)
            self.commits[commit.id], self.trees[commit.id] = commit, found
            kept = commit.id
        self.heads[branch], self.came_from[branch] = kept, head

    def _own(self, head: str, other: str) -> list[str]:
        contained, own = self.ancestry(other), []
        line: str | None = head
        while line is not None and line not in contained:
            parents = self.commits[line].parents
            if not parents[1:] or not contained.issuperset(parents[1:]):
                own.append(line)
            line = parents[0] if parents else None
        return own[::-1]

    def hard_reset(self, branch: str, ref: str, *, force: bool) -> str:
        head = self.branch(branch)
        if self.staged[branch] and not force:
            raise DirtyBranchError
        target = self.resolve(ref)
        self.staged[branch] = {}
        if target != head:
            self.came_from[branch] = head
        self.heads[branch] = target
        return target

    def undo(self, branch: str) -> str:
        head = self.branch(branch)
        if self.staged[branch]:
            raise DirtyBranchError
        before = self.came_from[branch]
        if before is None:
            raise NothingToDoError
        self.heads[branch], self.came_from[branch] = before, head
        return before

    def base_tree(self, left: str, right: str) -> BaseTree:
        history = {each: commit.parents for each, commit in self.commits.items()}
        return base_tree(history, self.trees, [left], [right])

    def merge_bases(self, left: str, right: str) -> list[str]:
        common = self.ancestry(left) & self.ancestry(right)
        best = [
            each
            for each in common
            if not any(each in self.ancestry(other) - {other} for other in common)
        ]
        return sorted(best, key=lambda each: (-self.commits[each].generation, each))

    def ancestry(self, commit_id: str) -> set[str]:
        found: set[str] = set()
        waiting = [commit_id]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting.extend(self.commits[each].parents)
        return found

    def log(self, ref: str) -> list[str]:
        commits = [self.commits[each] for each in self.ancestry(self.resolve(ref))]
        commits.sort(key=lambda each: (-each.generation, -each.creation_date, each.id))
        return [each.id for each in commits]

    def _take(self, branch: str, made: Commit | None, parents: tuple[str, ...], tree: Tree) -> None:
        assert made is not None
        assert made.parents == parents
        assert made.generation == 1 + max(self.commits[each].generation for each in parents)
        # Two branches may come to one commit: the same parents, tree, words and second.
        assert self.trees.get(made.id, tree) == tree
        self.came_from[branch] = self.heads[branch]
        self.commits[made.id], self.trees[made.id], self.heads[branch] = made, tree, made.id

    # --- reading ----------------------------------------------------------------------------------

    def find(self, ref: str, path: str) -> Content:
        tree = self.tree(ref)
        if path not in tree:
            raise ObjectNotFoundError
        return tree[path]

    def diff(self, left: str, right: str) -> Diff:
        return differences(self.trees[self.resolve(left)], self.trees[self.resolve(right)])

    def diff_uncommitted(self, branch: str) -> Diff:
        return differences(self.trees[self.branch(branch)], self.tree(branch))

    def three_way_diff(self, source: str, dest: str) -> Diff:
        """Returns what a merge of source would change in dest: the table, row by row."""
        base = self.base_tree(source, dest)
        return three_way(base, self.trees[source], self.trees[dest])


def three_way(base: BaseTree, source: Tree, dest: Tree) -> Diff:
    """Returns what a merge would change in dest: the table, row by row."""
    rows = []
    for kind, path, size in differences(dest, source):
        if source.get(path) == base.get(path):
            continue
        rows.append((kind if dest.get(path) == base.get(path) else "conflict", path, size))
    return rows


def merged(base: BaseTree, source: Tree, dest: Tree, strategy: str | None) -> Tree:
    rows = three_way(base, source, dest)
    conflicts = [row for row in rows if row[0] == "conflict"]
    if conflicts and strategy is None:
        raise MergeConflictError("", conflicts, len(conflicts))
    taken = [path for kind, path, _ in rows if kind != "conflict" or strategy == "source-wins"]
    return changed(dest, {path: source.get(path) for path in taken})


def changed(tree: Mapping[str, Content], changes: Mapping[str, Content | None]) -> Tree:
    after = {**tree, **changes}
    return {path: content for path, content in after.items() if content is not None}


def below(tree: Mapping[str, Content], prefix: str) -> Tree:
    return {path: tree[path] for path in sorted(tree, key=str.encode) if path.startswith(prefix)}


def differences(left: Mapping[str, Content], right: Mapping[str, Content]) -> Diff:
    rows = []
    for path in sorted({*left, *right}, key=str.encode):
        before, after = left.get(path), right.get(path)
        if before != after:
            kind = "added" if before is None else "removed" if after is None else "changed"
            rows.append((kind, path, len((after or before or Content(b"")).body)))
    return rows
