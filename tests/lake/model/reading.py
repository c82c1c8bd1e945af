"""Rules that only read, from any ref."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.lake.model.history import LogOptions
from tests.lake.model.machine import Machine, datas, paths, prefixes, shown
from tests.lake.model.trees import Diff, below


class ReadingRules(Machine):
    @rule(prefix=prefixes, data=datas)
    def diff(self, prefix: str, data: st.DataObject) -> None:
        left, right = self.ref(data), self.ref(data)
        self.both(
            lambda: shown(self.repo.diff(left, right, prefix)),
            lambda _: within(self.model.diff(left, right), prefix),
        )

    @rule(prefix=prefixes, data=datas)
    def three_way_diff(self, prefix: str, data: st.DataObject) -> None:
        dest, source = self.ref(data), self.ref(data)

        def expected(_: object) -> Diff:
            ours, theirs = self.model.resolve(dest), self.model.resolve(source)
            return within(self.model.three_way_diff(theirs, ours), prefix)

        self.both(lambda: shown(self.repo.diff(dest, source, prefix, three_way=True)), expected)

    @rule(prefix=prefixes, data=datas)
    def diff_uncommitted(self, prefix: str, data: st.DataObject) -> None:
        branch = self.branch(data)
        self.both(
            lambda: shown(self.repo.diff_uncommitted(branch, prefix)),
            lambda _: within(self.model.diff_uncommitted(branch), prefix),
        )

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
        limit=st.sampled_from(["", "", "amount", "after", "stop_at", "since", "until"]),
        first_parent=st.booleans(),
        no_merges=st.booleans(),
        amount=st.integers(1, 5),
        data=datas,
    )
    def log(
        self, limit: str, first_parent: bool, no_merges: bool, amount: int, data: st.DataObject
    ) -> None:
        ref, words = self.ref(data), {"first_parent": first_parent, "no_merges": no_merges}
        date = self.model.commits[data.draw(st.sampled_from(sorted(self.model.commits)))]
        moment = datetime.fromtimestamp(date.creation_date, timezone.utc)
        values = {"amount": amount, "since": moment, "until": moment}
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
            return self.model.history.log(start, LogOptions(**{**asked, **named}))

        self.both(lambda: [each.id for each in self.repo.log(ref, **asked)], expected)

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
