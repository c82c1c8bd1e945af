"""Rules that make commits."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sparklake import Commit
from tests.scenarios.model.machine import (
    CONTENTS,
    SOURCES,
    STRATEGIES,
    Machine,
    changes,
    choices,
    datas,
    paths,
    resolutions,
    shown,
    terms,
)
from tests.scenarios.model.model_commits import MergeTerms, Preview
from tests.scenarios.model.strategies import Resolution
from tests.scenarios.model.trees import Changes, Content

# Each side has something else: a conflict, unless one of them is what there was.
clashes = st.dictionaries(
    paths, st.permutations([None, *CONTENTS]).map(lambda each: each[:2]), min_size=1, max_size=4
)


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
        changes=changes,
        paths=choices,
        allow_empty=st.sampled_from([False, False, True]),
        data=datas,
    )
    def commit_a_part(
        self, changes: Changes, paths: list[str], allow_empty: bool, data: st.DataObject
    ) -> None:
        branch = self.branch(data)
        self.stage_on(branch, changes)
        self.commit_on(branch, allow_empty=allow_empty, paths=paths)

    @rule(
        number=st.integers(0, len(SOURCES) - 1),
        folder=st.sampled_from(["", "a", "b/", "nothing"]),
        data=datas,
    )
    def import_objects(self, number: int, folder: str, data: st.DataObject) -> None:
        branch, source = self.branch(data), str(self.folder / f"source-{number}")
        self.both(
            lambda: (
                self.repo.branch(branch)
                .import_objects(source, folder, "import", replace=True)
                .commit
            ),
            lambda made: self.model.import_objects(branch, folder, SOURCES[number], made),
            compare=False,
        )

    @rule(terms=terms, data=datas)
    def merge(self, terms: MergeTerms, data: st.DataObject) -> None:
        source, dest = self.ref(data), self.branch(data)
        self.preview(source, dest, terms)
        self.merge_into(source, dest, terms)

    @rule(theirs=changes, ours=changes, clashes=clashes, terms=terms, data=datas)
    def diverge_and_merge(
        self,
        theirs: Changes,
        ours: Changes,
        clashes: dict[str, list[Content | None]],
        terms: MergeTerms,
        data: st.DataObject,
    ) -> None:
        """Merge two branches of which each has changed something, some of it otherwise."""
        source, dest = (data.draw(st.permutations(sorted(self.model.heads))) * 2)[:2]
        for branch, each, side in ((source, theirs, 0), (dest, ours, 1)):
            self.stage_on(branch, each | {path: pair[side] for path, pair in clashes.items()})
            self.commit_on(branch, allow_empty=False)
        self.preview(source, dest, terms)
        self.merge_into(source, dest, terms)
        self.touched |= {source, dest}

    def preview(self, source: str, dest: str, terms: MergeTerms) -> None:
        def real() -> Preview:
            found = self.repo.preview_merge(
                source,
                dest,
                terms.resolution.strategy,
                terms.allow_empty,
                terms.paths,
                terms.resolution.rules,
                squash=terms.squash,
            )
            assert found.conflict_count == len(found.conflicts)
            numbers = [
                (found.added, found.added_bytes),
                (found.changed, found.changed_bytes),
                (found.removed, found.removed_bytes),
            ]
            return numbers, found.unresolved, shown(found.conflicts)

        self.both(real, lambda _: self.model.preview(source, dest, terms))

    @rule(theirs=changes, ours=changes, strategy=st.sampled_from(STRATEGIES[1:]), data=datas)
    def cross(self, theirs: Changes, ours: Changes, strategy: str, data: st.DataObject) -> None:
        """Merge two branches into each other as they were: they have two best ancestors then."""
        heads = st.sampled_from(sorted(self.model.heads))
        one, other = data.draw(heads), data.draw(heads)
        for branch, each in ((one, ours), (other, theirs)):
            self.stage_on(branch, each)
            self.commit_on(branch, allow_empty=True)
        before = self.model.heads[one], self.model.heads[other]
        terms = MergeTerms(Resolution(strategy))
        self.merge_into(before[1], one, terms)
        self.merge_into(before[0], other, terms)
        self.merge_into(one, other, terms)
        self.touched |= {one, other}

    @rule(resolution=resolutions, data=datas)
    def rebase(self, resolution: Resolution, data: st.DataObject) -> None:
        branch, onto = self.branch(data), self.ref(data)
        self.both(
            lambda: self.repo.branch(branch).rebase(onto, resolution.strategy, resolution.rules),
            lambda made: self.model.rebase(branch, onto, resolution, made or []),
            compare=False,
        )

    @rule(
        undo=st.booleans(),
        count=st.sampled_from([0, 1, 1, 1, 1, 2, 2, 3]),
        number=st.sampled_from([None, None, 1, 2]),
        resolution=resolutions,
        allow_empty=st.booleans(),
        data=datas,
    )
    def replay(self, undo: bool, count: int, data: st.DataObject, **terms: Any) -> None:
        """Revert or cherry-picks some commits."""
        branch, refs = self.branch(data), [self.ref(data) for _ in range(count)]

        def real() -> list[Commit]:
            found = self.repo.branch(branch)
            verb = found.revert if undo else found.cherry_pick
            return verb(
                *refs,
                parent_number=terms["number"],
                strategy=terms["resolution"].strategy,
                rules=terms["resolution"].rules,
                allow_empty=terms["allow_empty"],
            )

        self.both(
            real,
            lambda made: self.model.replay(branch, refs, made=made or [], undo=undo, **terms),
            compare=False,
        )
