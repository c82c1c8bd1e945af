"""Random histories of small trees, made by verbs, with a plain dict for each commit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparklake import Commit, Repository
from sparklake.errors import SparklakeError
from tests.support.lakes import put_sizes, stage_sizes

FOLDERS = ("a/", "a/b/", "c/", "")
PATHS = [f"{folder}{name}" for folder in FOLDERS for name in ("x", "y", "z")] + ["a/b.c", "ab"]
PREFIXES = ["", "a", "a/", "a/b", "a/b/", "c/", "x", "a/b/x", "none/", "c/x"]
BRANCHES = ("main", "dev", "fix")

Tree = Mapping[str, tuple[str, int]]


@dataclass
class Histories:
    """The commits by id in the order of their creation, and their trees, for brute force."""

    repo: Repository
    commits: dict[str, Commit] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)

    def note(self, commit: Commit) -> None:
        if commit.id not in self.commits:
            objects = self.repo.objects(commit.id)
            self.commits[commit.id] = commit
            self.trees[commit.id] = {each.path: (each.checksum, each.size) for each in objects}

    def part(self, commit_id: str | None, prefix: str, path: str | None) -> Tree:
        tree = self.trees[commit_id] if commit_id else {}
        return {
            name: each
            for name, each in tree.items()
            if (name.startswith(prefix) if path is None else name == path)
        }

    def log(
        self, start: str, prefix: str = "", path: str | None = None, *, first_parent: bool = False
    ) -> list[str]:
        """Return the log of a prefix or a path, computed from all trees."""
        waiting, visited, matches = [start], set(), []
        while waiting:
            each = self.commits[waiting.pop()]
            if each.id in visited:
                continue
            visited.add(each.id)
            parents = list(each.parents[: 1 if first_parent else None])
            mine = self.part(each.id, prefix, path)
            same = [name for name in parents if self.part(name, prefix, path) == mine]
            if not same and (parents or mine):
                matches.append(each.id)
            waiting += same[:1] or parents
        return sorted(matches, key=self.place)

    def blame(self, start: str, prefix: str) -> dict[str, str]:
        """Return the blame of each object, by a walk for its record alone."""
        blame = {}
        for path in sorted(self.part(start, prefix, None), key=str.encode):
            at, record = self.commits[start], self.trees[start][path]
            while True:
                same = [name for name in at.parents if self.trees[name].get(path) == record]
                if not same:
                    break
                at = self.commits[same[0]]
            blame[path] = at.id
        return blame

    def place(self, commit_id: str) -> tuple[int, int, str]:
        each = self.commits[commit_id]
        return -each.generation, -each.creation_date, each.id


def random_history(repo: Repository, chance: random.Random, steps: int = 30) -> Histories:
    """Make a history by puts, bulk staging, merges, reverts and cherry-picks on 3 branches."""
    histories = Histories(repo)
    for name in BRANCHES[1:]:
        repo.create_branch(name, "main")
    histories.note(repo.resolve("main"))
    for number in range(steps):
        branch = repo.branch(chance.choice(BRANCHES))
        other = chance.choice([each for each in BRANCHES if each != branch.name])
        step = chance.choice(["rows"] * 4 + ["run", "empty", "merge", "merge", "revert", "pick"])
        try:
            if step in ("rows", "run"):
                some = chance.sample(PATHS, chance.randint(1, 4))
                sizes = {path: chance.choice([None, 1, 2, 3]) for path in some}
                (put_sizes if step == "rows" else stage_sizes)(branch, sizes)
                branch.commit(f"{step} {number}")
            elif step == "empty":
                branch.commit(f"empty {number}", allow_empty=True)
            elif step == "merge":
                wins = chance.choice(["source-wins", "dest-wins"])
                repo.merge(other, branch.name, wins, f"merge {number}")
            elif step == "revert":
                branch.revert(branch.name, strategy="source-wins", parent_number=1)
            else:
                branch.cherry_pick(other, strategy="source-wins", parent_number=1)
        except SparklakeError:
            branch.reset()
        histories.note(branch.head)
    return histories
