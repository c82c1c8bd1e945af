"""Rules that only read, from any ref."""

from __future__ import annotations

from dataclasses import astuple
from datetime import datetime, timezone
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from sparklake.verbs.diffs.differences import Differences
from tests.scenarios.model.history import LogOptions
from tests.scenarios.model.machine import Machine, datas, paths, prefixes, shown
from tests.scenarios.model.strategies import Part
from tests.scenarios.model.trees import Diff, FolderRow, Tree, below, differences, rolled_up

parts = st.sampled_from([{}]) | st.one_of(
    paths.map(lambda each: {"path": each}), prefixes.map(lambda each: {"prefix": each})
)

Views = tuple[Diff, list[FolderRow], list[FolderRow]]
"""Rows of a diff, those by folder, and their sum."""


class ReadingRules(Machine):
    @rule(
        form=st.sampled_from(["two-way", "three-way", "three-dot"]),
        prefix=prefixes,
        depth=st.integers(1, 3),
        data=datas,
    )
    def diff(self, form: str, prefix: str, depth: int, data: st.DataObject) -> None:
        left, right = self.ref(data), self.ref(data)

        def real() -> Views:
            words = {"three_way": form == "three-way", "three_dot": form == "three-dot"}
            return views(self.repo.diff(left, right, prefix, **words), depth)

        def expected(_: object) -> Views:
            left_id, right_id = self.model.resolve(left), self.model.resolve(right)
            if form == "three-dot":
                left_id = self.model.history.best_ancestors(left_id, right_id)[0]
            trees = self.model.trees[left_id], self.model.trees[right_id]
            rows = differences(*trees)
            if form == "three-way":
                rows = self.model.three_way_diff(right_id, left_id)
            return expected_views(within(rows, prefix), *trees, prefix, depth)

        self.both(real, expected)

    @rule(prefix=prefixes, depth=st.integers(1, 3), data=datas)
    def diff_uncommitted(self, prefix: str, depth: int, data: st.DataObject) -> None:
        branch = self.branch(data)

        def expected(_: object) -> Views:
            rows = within(self.model.diff_uncommitted(branch), prefix)
            before = self.model.trees[self.model.branch(branch)]
            return expected_views(rows, before, self.model.tree(branch), prefix, depth)

        self.both(lambda: views(self.repo.diff_uncommitted(branch, prefix), depth), expected)

    @rule(prefix=prefixes, data=datas)
    def objects(self, prefix: str, data: st.DataObject) -> None:
        ref = self.ref(data)
        self.both(lambda: self.listing(ref, prefix), lambda _: below(self.model.tree(ref), prefix))
        self.both(
            lambda: [each.path for each in self.repo.folder(ref, prefix)],
            lambda _: self.model.folder(ref, prefix),
        )

    @rule(path=paths, data=datas)
    def read(self, path: str, data: st.DataObject) -> None:
        ref = self.ref(data)
        self.both(
            lambda: self.repo.read_bytes(ref, path), lambda _: self.model.find(ref, path).body
        )
        self.both(
            lambda: self.repo.stat(ref, path).metadata,
            lambda _: dict(self.model.find(ref, path).metadata),
        )

    @rule(
        limit=st.sampled_from(["", "", "limit", "after", "stop_at", "since", "until"]),
        first_parent=st.booleans(),
        no_merges=st.booleans(),
        amount=st.integers(1, 5),
        part=parts,
        data=datas,
    )
    def log(
        self,
        limit: str,
        first_parent: bool,
        no_merges: bool,
        amount: int,
        part: dict[str, str],
        data: st.DataObject,
    ) -> None:
        ref = self.ref(data)
        words = {"first_parent": first_parent, "no_merges": no_merges, **part}
        date = self.model.commits[data.draw(st.sampled_from(sorted(self.model.commits)))]
        moment = datetime.fromtimestamp(date.creation_date, timezone.utc)
        values = {"limit": amount, "since": moment, "until": moment}
        if limit in ("after", "stop_at"):
            values[limit] = self.ref(data)
        asked: dict[str, Any] = words | ({limit: values[limit]} if limit else {})

        def expected(_: object) -> list[str]:
            start = self.model.resolve(ref)
            named = {
                name: self.model.resolve(asked[name])
                for name in ("stop_at", "after")
                if name in asked
            }
            options = {name: each for name, each in asked.items() if name not in part}
            return self.model.history.log(
                start, LogOptions(**{**options, **named}, part=sought(**part))
            )

        self.both(lambda: [each.id for each in self.repo.log(ref, **asked)], expected)

    @rule(prefix=prefixes, data=datas)
    def blame(self, prefix: str, data: st.DataObject) -> None:
        ref = self.ref(data)

        def expected(_: object) -> list[tuple[str, str]]:
            start = self.model.resolve(ref)
            paths = below(self.model.trees[start], prefix)
            return [(path, self.model.history.blame(start, path)) for path in paths]

        self.both(
            lambda: [(row.path, row.commit.id) for row in self.repo.blame(ref, prefix)], expected
        )

    @rule(data=datas)
    def show(self, data: st.DataObject) -> None:
        ref = self.ref(data)

        def real() -> tuple[str, int, int, int]:
            found = self.repo.show(ref)
            return found.commit.id, found.added, found.removed, found.changed

        self.both(real, lambda _: self.model.show(ref))

    @rule(data=datas)
    def merge_base(self, data: st.DataObject) -> None:
        left, right = self.ref(data), self.ref(data)
        self.both(
            lambda: [each.id for each in self.repo.merge_bases(left, right)],
            lambda _: self.model.history.best_ancestors(
                self.model.resolve(left), self.model.resolve(right)
            ),
        )


def within(rows: Diff, prefix: str) -> Diff:
    return [row for row in rows if row[1].startswith(prefix)]


def sought(path: str | None = None, prefix: str | None = None) -> Part | None:
    if path is None and prefix is None:
        return None
    return lambda each: each == path if prefix is None else each.startswith(prefix)


def views(rows: Differences, depth: int) -> Views:
    return shown(rows), [astuple(each) for each in rows.by_folder(depth)], [astuple(rows.summary())]


def expected_views(rows: Diff, left: Tree, right: Tree, prefix: str, depth: int) -> Views:
    total = rolled_up(rows, left, right, prefix, 0) or [("", 0, 0, 0, 0, 0, 0)]
    return rows, rolled_up(rows, left, right, prefix, depth), total
