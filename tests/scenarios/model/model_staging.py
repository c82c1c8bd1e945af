"""What is staged, in plain dicts."""

from __future__ import annotations

from collections.abc import Callable

from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NoChangesError,
    ObjectNotFoundError,
)
from tests.scenarios.model.model_refs import RefsModel
from tests.scenarios.model.strategies import part_of
from tests.scenarios.model.trees import Changes, below, differences


class StagingModel(RefsModel):
    def stage(self, branch: str, changes: Changes) -> None:
        self.open(branch, "stage")
        self.staged[branch].update(changes)

    def delete_prefix(self, branch: str, prefix: str) -> int:
        gone = below(self.tree(branch), prefix)
        self.stage(branch, dict.fromkeys(gone))
        return len(gone)

    def remove(self, branch: str, path: str, *, recursive: bool) -> int:
        if recursive:
            self.open(branch, "stage")
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
        """Move or copies; a folder ends with a slash, and so does where it goes."""
        self.branch(branch)
        is_folder = source.endswith("/")
        overlaps = is_folder and (source.startswith(dest) or dest.startswith(source))
        if removing and (overlaps or source == dest):
            raise InvalidInputError
        self.open(branch, "stage")
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
        self.open(branch, "reset")
        self.staged[branch] = {}

    def reset_part(self, branch: str, part: Callable[[str], bool]) -> None:
        self.open(branch, "reset")
        staged = self.staged[branch]
        self.staged[branch] = {path: each for path, each in staged.items() if not part(path)}

    def restore(self, branch: str, ref: str, paths: list[str]) -> tuple[int, int, int]:
        """Stage what makes some paths what they are at a ref; return what that changes."""
        self.branch(branch)
        if not paths:
            raise InvalidInputError
        head, part = self.trees[self.open(branch, "stage")], part_of(paths)
        there = self.trees[self.resolve(ref)]
        rows = [row for row in differences(head, there) if part(row[1])]
        staged = self.staged[branch]
        if not rows and not any(map(part, staged)):
            raise NoChangesError if any(map(part, there)) else ObjectNotFoundError
        kept = {path: each for path, each in staged.items() if not part(path)}
        self.staged[branch] = kept | {path: there.get(path) for _, path, _ in rows}
        kinds = [kind for kind, _, _ in rows]
        return kinds.count("added"), kinds.count("changed"), kinds.count("removed")
