"""Refs and what guards them, in plain dicts. Verbs raise the errors that the real ones raise.

A tree is a dict of path to content. A verb that makes a commit takes the one that was really made
and checks what it says of itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TypeVar

from sparklake import Commit
from sparklake.errors import (
    AlreadyExistsError,
    AmbiguousRefError,
    DirtyBranchError,
    InvalidRefError,
    ProtectedError,
    ReadOnlyError,
    RefNotFoundError,
)
from sparklake.graveler.guards import TRANSACTION_PREFIX
from tests.scenarios.model.history import History
from tests.scenarios.model.trees import Changes, Tree, changed

MAIN = "main"

Model = TypeVar("Model", bound="RefsModel")

Operation = tuple[str, str, str | None, str | None]
"""Verb, ref, from and to."""


@dataclass
class RefsModel:
    history: History
    heads: dict[str, str]
    staged: dict[str, Changes]
    tags: dict[str, str] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    read_only: bool = False
    protection: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls: type[Model], first: Commit) -> Model:
        made = cls(History({first.id: first}, {first.id: {}}), {MAIN: first.id}, {MAIN: {}})
        made.operations = [("create-repository", MAIN, None, first.id)]
        return made

    def dumped(self: Model) -> Model:
        """Return what a dump of now is restored to: all but what is staged."""
        named = [*sorted(self.heads.items()), *sorted(self.tags.items())]
        return replace(
            self,
            history=self.history.copy(),
            heads=dict(self.heads),
            staged={name: {} for name in self.heads},
            tags=dict(self.tags),
            hidden=set(self.hidden),
            operations=[("restore-repository", name, None, commit_id) for name, commit_id in named],
        )

    @property
    def commits(self) -> dict[str, Commit]:
        return self.history.commits

    @property
    def trees(self) -> dict[str, Tree]:
        return self.history.trees

    def _move(self, verb: str, branch: str, to: str) -> None:
        """Move a branch and notes it, unless it is there already."""
        head = self.heads[branch]
        self.heads[branch] = to
        if to != head:
            self.operations.append((verb, branch, head, to))

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
        """Return what a ref shows: of a branch also what is staged, of `branch$` it alone."""
        if ref.endswith("$"):
            self._base(ref[:-1])
            if ref[:-1] not in self.heads:
                raise InvalidRefError
            return changed({}, self.staged[ref[:-1]])
        found = self.trees[self.resolve(ref)]
        return changed(found, self.staged[ref]) if ref in self.heads else found

    def open(self, branch: str, action: str | None = None) -> str:
        """Return the head of a branch that is to be changed, if it may be."""
        head = self.branch(branch)
        self.check_writable()
        rules = {} if branch.startswith(TRANSACTION_PREFIX) else self.protection
        if any(fnmatchcase(branch, each) and action in rules[each] for each in rules):
            raise ProtectedError
        return head

    def check_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError

    def create_branch(self, name: str, source: str, *, hidden: bool = False) -> None:
        if name in self.tags:
            raise AlreadyExistsError
        head = self.resolve(source)
        self.check_writable()
        if name in self.heads:
            raise AlreadyExistsError
        self.heads[name], self.staged[name] = head, {}
        if hidden:
            self.hidden.add(name)
        self.operations.append(("create-branch", name, None, head))

    def delete_branch(self, name: str, *, discard_staged: bool = False) -> None:
        if name == MAIN:
            raise ProtectedError
        head = self.open(name, "delete")
        if self.staged[name] and not discard_staged:
            raise DirtyBranchError
        self.operations.append(("delete-branch", name, head, None))
        del self.heads[name], self.staged[name]
        self.hidden.discard(name)

    def branch(self, name: str) -> str:
        if name not in self.heads:
            raise RefNotFoundError
        return self.heads[name]

    def create_tag(self, name: str, ref: str) -> str:
        if name in self.heads:
            raise AlreadyExistsError
        commit_id = self.resolve(ref)
        self.check_writable()
        if name in self.tags:
            raise AlreadyExistsError
        self.tags[name] = commit_id
        self.operations.append(("create-tag", name, None, commit_id))
        return commit_id

    def delete_tag(self, name: str) -> None:
        self.check_writable()
        if name not in self.tags:
            raise RefNotFoundError
        self.operations.append(("delete-tag", name, self.tags.pop(name), None))
