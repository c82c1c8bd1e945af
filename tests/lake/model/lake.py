"""What a repository does, in plain dicts. Verbs raise the errors that the real ones raise.

A tree is a dict of path to content. A verb that makes a commit takes the one that was really made
and checks what it says of itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sparklake import Commit
from sparklake.errors import (
    AlreadyExistsError,
    AmbiguousRefError,
    DirtyBranchError,
    InvalidInputError,
    InvalidRefError,
    NoChangesError,
    NothingToDoError,
    ObjectNotFoundError,
    ProtectedError,
    RefNotFoundError,
    UnexpectedHeadError,
)
from tests.lake.model.history import History, LogOptions
from tests.lake.model.trees import (
    Changes,
    Content,
    Diff,
    Tree,
    below,
    changed,
    differences,
    merged,
    three_way,
)

MAIN = "main"

Operation = tuple[str, str, str | None, str | None]
"""Verb, ref, from and to."""


@dataclass
class LakeModel:
    history: History
    heads: dict[str, str]
    staged: dict[str, Changes]
    tags: dict[str, str] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)

    @classmethod
    def of(cls, first: Commit) -> LakeModel:
        made = cls(History({first.id: first}, {first.id: {}}), {MAIN: first.id}, {MAIN: {}})
        made.operations = [("create-repository", MAIN, None, first.id)]
        return made

    def dumped(self) -> LakeModel:
        """Returns what a dump of now is restored to: all but what is staged."""
        named = [*sorted(self.heads.items()), *sorted(self.tags.items())]
        return LakeModel(
            self.history.copy(),
            dict(self.heads),
            {name: {} for name in self.heads},
            dict(self.tags),
            [("restore-repository", name, None, commit_id) for name, commit_id in named],
        )

    @property
    def commits(self) -> dict[str, Commit]:
        return self.history.commits

    @property
    def trees(self) -> dict[str, Tree]:
        return self.history.trees

    def _move(self, verb: str, branch: str, to: str) -> None:
        """Moves a branch and notes it, unless it is there already."""
        head = self.heads[branch]
        self.heads[branch] = to
        if to != head:
            self.operations.append((verb, branch, head, to))

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
        self.heads[name], self.staged[name] = head, {}
        self.operations.append(("create-branch", name, None, head))

    def delete_branch(self, name: str) -> None:
        if name == MAIN:
            raise ProtectedError
        self.operations.append(("delete-branch", name, self.branch(name), None))
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
        self.operations.append(("create-tag", name, None, commit_id))
        return commit_id

    def delete_tag(self, name: str) -> None:
        if name not in self.tags:
            raise RefNotFoundError
        self.operations.append(("delete-tag", name, self.tags.pop(name), None))

    # --- staging ----------------------------------------------------------------------------------

    def stage(self, branch: str, changes: Changes) -> None:
        self.branch(branch)
        self.staged[branch].update(changes)

    def delete_prefix(self, branch: str, prefix: str) -> int:
        gone = below(self.tree(branch), prefix)
        self.stage(branch, dict.fromkeys(gone))
        return len(gone)

    def remove(self, branch: str, path: str, *, recursive: bool) -> int:
        self.branch(branch)
        tree = self.tree(branch)
        gone = [path] if path in tree else []
        if recursive:
            gone = [*below(tree, f"{path}/"), *gone]
        if not gone:
            raise ObjectNotFoundError
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
        self._take("commit", branch, [made], (head,), [after])

    def import_objects(self, branch: str, folder: str, objects: Tree, made: Commit | None) -> None:
        head = self.branch(branch)
        if self.staged[branch]:
            raise DirtyBranchError
        if not objects:
            raise InvalidInputError
        before, prefix = self.trees[head], f"{folder.rstrip('/')}/" if folder else ""
        after = {path: each for path, each in before.items() if not path.startswith(prefix)}
        after |= {prefix + path: each for path, each in objects.items()}
        if after == before:
            raise NoChangesError
        self._take("import", branch, [made], (head,), [after])

    def merge(self, source: str, dest: str, strategy: str | None, made: Commit | None) -> None:
        if source == dest:
            raise NoChangesError
        theirs, ours = self.resolve(source), self.branch(dest)
        if self.staged[dest]:
            raise DirtyBranchError
        base = self.history.base_tree(theirs, ours)
        if base == self.trees[theirs]:
            raise NoChangesError
        tree = merged(base, self.trees[theirs], self.trees[ours], strategy)
        label = {".lakefs.merge.strategy": strategy or "default"}
        self._take("merge", dest, [made], (ours, theirs), [tree], label)

    def replay(
        self,
        branch: str,
        refs: Sequence[str],
        number: int | None,
        strategy: str | None,
        made: Sequence[Commit],
        *,
        undo: bool,
        allow_empty: bool,
    ) -> None:
        """Reverts or cherry-picks commits one after the other; all of them, or none."""
        self.branch(branch)
        steps = [self._change(ref, number) for ref in refs]
        if not steps:
            raise InvalidInputError
        if self.staged[branch]:
            raise DirtyBranchError
        head = self.heads[branch]
        trees, tree = [], self.trees[head]
        for before, commit in steps:
            after = self.trees[commit]
            base, source = (after, before) if undo else (before, after)
            replayed = merged(base, source, tree, strategy)
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
        """Returns the tree before a commit, and its id."""
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

    def rebase(self, branch: str, onto: str, strategy: str | None, made: Sequence[Commit]) -> None:
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
        for commit, found in zip(made, trees, strict=True):
            assert commit.parents == (kept,)
            self.commits[commit.id], self.trees[commit.id] = commit, found
            kept = commit.id
        self._move("rebase", branch, kept)

    def _own(self, head: str, other: str) -> list[str]:
        """Returns the commits of a first-parent line that another commit does not stand on."""
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
        self.staged[branch] = {}
        self._move("hard-reset", branch, target)
        return target

    def undo(self, branch: str) -> str:
        """Moves a branch back to before the latest move of its name."""
        self.branch(branch)
        if self.staged[branch]:
            raise DirtyBranchError
        before = [source for _, ref, source, _ in self.operations if ref == branch][-1]
        if before is None:
            raise NothingToDoError
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
        """Moves a branch over a row of commits that were made of trees."""
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
        base = self.history.base_tree(source, dest)
        return three_way(base, self.trees[source], self.trees[dest])

    def log(self, ref: str, asked: LogOptions) -> list[str]:
        return self.history.log(self.resolve(ref), asked)

    def show(self, ref: str) -> tuple[str, int, int, int]:
        """Returns a commit and how many objects it added, removed and changed."""
        commit = self.resolve(ref)
        parents = self.commits[commit].parents
        before = self.trees[parents[0]] if parents else {}
        kinds = [kind for kind, _, _ in differences(before, self.trees[commit])]
        return commit, *map(kinds.count, ("added", "removed", "changed"))

    def folder(self, ref: str, prefix: str) -> list[str]:
        """Returns the paths right under a prefix, and the folders there, which end in '/'."""
        rests = (path[len(prefix) :].partition("/") for path in below(self.tree(ref), prefix))
        return list(dict.fromkeys(prefix + name + slash for name, slash, _ in rests))
