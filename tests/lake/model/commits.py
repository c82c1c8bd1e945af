"""Rules that make commits."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sparklake import Commit
from tests.lake.model.machine import (
    SOURCES,
    STRATEGIES,
    Machine,
    changes,
    datas,
    strategies,
)
from tests.lake.model.trees import Changes


class CommitRules(Machine):
    @rule(allow_empty=st.sampled_from([False, False, True]), data=datas)
    def commit(self, allow_empty: bool, data: st.DataObject) -> None:
        self.commit_on(self.branch(data), allow_empty=allow_empty)

    @rule(changes=changes, data=datas)
    def stage_and_commit(self, changes: Changes, data: st.DataObject) -> None:
        branch = self.branch(data)
        self.stage_on(branch, changes)
        self.commit_on(branch, allow_empty=False)

    @rule(
        number=st.integers(0, len(SOURCES) - 1),
        folder=st.sampled_from(["", "a", "b/", "nothing"]),
        data=datas,
    )
    def import_objects(self, number: int, folder: str, data: st.DataObject) -> None:
        branch, source = self.branch(data), str(self.folder / f"source-{number}")
        self.both(
            lambda: self.repo.branch(branch).import_objects(source, folder, "import"),
            lambda made: self.model.import_objects(branch, folder, SOURCES[number], made),
            compare=False,
        )

    @rule(strategy=strategies, data=datas)
    def merge(self, strategy: str | None, data: st.DataObject) -> None:
        self.merge_into(self.ref(data), self.branch(data), strategy)

    @rule(theirs=changes, ours=changes, strategy=strategies, data=datas)
    def diverge_and_merge(
        self, theirs: Changes, ours: Changes, strategy: str | None, data: st.DataObject
    ) -> None:
        heads = st.sampled_from(sorted(self.model.heads))
        source, dest = data.draw(heads), data.draw(heads)
        for branch, each in ((source, theirs), (dest, ours)):
            self.stage_on(branch, each)
            self.commit_on(branch, allow_empty=False)
        self.merge_into(source, dest, strategy)
        self.touched |= {source, dest}

    @rule(theirs=changes, ours=changes, strategy=st.sampled_from(STRATEGIES[1:]), data=datas)
    def cross(self, theirs: Changes, ours: Changes, strategy: str, data: st.DataObject) -> None:
        """Merges two branches into each other as they were: they have two best ancestors then."""
        heads = st.sampled_from(sorted(self.model.heads))
        one, other = data.draw(heads), data.draw(heads)
        for branch, each in ((one, ours), (other, theirs)):
            self.stage_on(branch, each)
            self.commit_on(branch, allow_empty=True)
        before = self.model.heads[one], self.model.heads[other]
        self.merge_into(before[1], one, strategy)
        self.merge_into(before[0], other, strategy)
        self.merge_into(one, other, strategy)
        self.touched |= {one, other}

    @rule(strategy=strategies, data=datas)
    def rebase(self, strategy: str | None, data: st.DataObject) -> None:
        branch, onto = self.branch(data), self.ref(data)
        self.both(
            lambda: self.repo.branch(branch).rebase(onto, strategy),
            lambda made: self.model.rebase(branch, onto, strategy, made or []),
            compare=False,
        )

    @rule(
        undo=st.booleans(),
        count=st.sampled_from([0, 1, 1, 1, 1, 2, 2, 3]),
        number=st.sampled_from([None, None, 1, 2]),
        strategy=strategies,
        allow_empty=st.booleans(),
        data=datas,
    )
    def replay(self, undo: bool, count: int, data: st.DataObject, **terms: Any) -> None:
        """Reverts or cherry-picks some commits."""
        branch, refs = self.branch(data), [self.ref(data) for _ in range(count)]

        def real() -> list[Commit]:
            found = self.repo.branch(branch)
            verb = found.revert if undo else found.cherry_pick
            return verb(
                *refs,
                parent_number=terms["number"],
                strategy=terms["strategy"],
                allow_empty=terms["allow_empty"],
            )

        self.both(
            real,
            lambda made: self.model.replay(branch, refs, made=made or [], undo=undo, **terms),
            compare=False,
        )
