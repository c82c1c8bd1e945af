"""What a repository does, in plain dicts. Verbs raise the errors that the real ones raise."""

from __future__ import annotations

from sparklake.errors import ObjectNotFoundError
from tests.scenarios.model.history import LogOptions
from tests.scenarios.model.model_transactions import TransactionsModel
from tests.scenarios.model.trees import Content, Diff, below, differences, three_way


class LakeModel(TransactionsModel):
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
        """Return what a merge of source would change in dest: the table, row by row."""
        base = self.history.base_tree(source, dest)
        return three_way(base, self.trees[source], self.trees[dest])

    def log(self, ref: str, asked: LogOptions) -> list[str]:
        return self.history.log(self.resolve(ref), asked)

    def show(self, ref: str) -> tuple[str, int, int, int]:
        """Return a commit and how many objects it added, removed and changed."""
        commit = self.resolve(ref)
        parents = self.commits[commit].parents
        before = self.trees[parents[0]] if parents else {}
        kinds = [kind for kind, _, _ in differences(before, self.trees[commit])]
        return commit, *map(kinds.count, ("added", "removed", "changed"))

    def folder(self, ref: str, prefix: str) -> list[str]:
        """Return the paths right under a prefix, and the folders there, which end in '/'."""
        rests = (path[len(prefix) :].partition("/") for path in below(self.tree(ref), prefix))
        return list(dict.fromkeys(prefix + name + slash for name, slash, _ in rests))
