"""Rules on refs: branches, tags, moves without a commit, dump and restore."""

from __future__ import annotations

from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sparklake.errors import MissingFileError, NamespaceInUseError
from tests.scenarios.model.machine import BRANCHES, TAGS, Machine, attempt, datas, prefixes
from tests.support.lakes import refs_of


class RefRules(Machine):
    @rule(name=st.sampled_from(BRANCHES), hidden=st.sampled_from([False, False, True]), data=datas)
    def create_branch(self, name: str, hidden: bool, data: st.DataObject) -> None:
        ref = self.ref(data)
        self.both(
            lambda: self.repo.create_branch(name, ref, hidden=hidden),
            lambda _: self.model.create_branch(name, ref, hidden=hidden),
        )
        self.touched.add(name)

    @rule(delete=st.sampled_from([False, False, True]), name=st.sampled_from(TAGS), data=datas)
    def tag(self, delete: bool, name: str, data: st.DataObject) -> None:
        if delete:
            self.both(lambda: self.repo.delete_tag(name), lambda _: self.model.delete_tag(name))
            return
        ref = self.ref(data)
        self.both(
            lambda: self.repo.create_tag(name, ref).commit_id,
            lambda _: self.model.create_tag(name, ref),
        )

    @rule(
        what=st.sampled_from(["branch", "discard", "reset", "prefix", "dump", "dump", "lose"]),
        prefix=prefixes,
        data=datas,
    )
    def drop(self, what: str, prefix: str, data: st.DataObject) -> None:
        """Do what undoes much, in one rule so that it comes seldom."""
        if what == "dump":
            self.dump()
            return
        if what == "lose":
            self.lose_and_restore()
            return
        name = self.branch(data)
        if what == "branch":
            self.both(
                lambda: self.repo.delete_branch(name), lambda _: self.model.delete_branch(name)
            )
        elif what == "discard":
            self.both(
                lambda: self.repo.delete_branch(name, discard_staged=True),
                lambda _: self.model.delete_branch(name, discard_staged=True),
            )
        elif what == "reset":
            self.both(lambda: self.repo.branch(name).reset(), lambda _: self.model.reset(name))
        else:
            self.both(
                lambda: self.repo.branch(name).delete_prefix(prefix),
                lambda _: self.model.delete_prefix(name, prefix),
            )

    @rule(
        back=st.booleans(),
        force=st.booleans(),
        expects=st.sampled_from(["nothing", "nothing", "the head", "any"]),
        data=datas,
    )
    def move(self, back: bool, force: bool, expects: str, data: st.DataObject) -> None:
        branch = self.branch(data)
        if back:
            self.both(lambda: self.repo.branch(branch).undo().id, lambda _: self.model.undo(branch))
            return
        ref = self.ref(data)
        expected = branch if expects == "the head" else self.ref(data) if expects == "any" else None
        self.both(
            lambda: self.repo.branch(branch).hard_reset(ref, expected, force).id,
            lambda _: self.model.hard_reset(branch, ref, expected, force=force),
        )

    def dump(self) -> None:
        made, dumped = self.repo.dump_refs(), self.model.dumped()
        counts = (made.branches, made.tags, made.commits)
        assert counts == (len(dumped.heads), len(dumped.tags), len(dumped.commits))
        assert made.dirty == tuple(sorted(name for name, each in self.model.staged.items() if each))
        self.dumped = dumped

    def lose_and_restore(self) -> None:
        """Go on from the latest dump, as if the database were lost; first, as if it were not."""
        name, before = f"lake-{uuid4().hex}", refs_of(self.repo)
        _, refusal = attempt(lambda: self.lake.restore_repository(name, self.namespace))
        expected = MissingFileError if self.dumped is None else NamespaceInUseError
        assert type(refusal) is expected
        assert refs_of(self.repo) == before
        if self.dumped is None:
            return
        self.lake.delete_repository(self.repo.name)
        self.repo = self.lake.restore_repository(name, self.namespace)
        # What it is restored to once, it can be restored to again.
        self.model = self.dumped.dumped()
        self.touched = set(self.model.heads)
