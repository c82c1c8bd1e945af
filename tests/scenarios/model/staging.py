"""Rules that stage changes, and drop them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.scenarios.model.machine import (
    FOLDERS,
    PATHS,
    Machine,
    changes,
    choices,
    contents,
    datas,
    paths,
    prefixes,
)
from tests.scenarios.model.trees import Changes, Content

# Paths that others begin with come often.
parts_to_reset = st.lists(
    st.tuples(st.just("path"), st.sampled_from(["a", "a", "a", *PATHS]))
    | st.tuples(st.just("prefix"), prefixes),
    min_size=1,
    max_size=2,
)


class StagingRules(Machine):
    @rule(path=paths, content=contents, as_file=st.booleans(), data=datas)
    def put(self, path: str, content: Content, as_file: bool, data: st.DataObject) -> None:
        branch, labels = self.branch(data), dict(content.metadata)
        file = self.folder / "to-put"
        file.write_bytes(content.body)
        self.both(
            lambda: (
                self.repo.branch(branch).put_file(path, file, labels)
                if as_file
                else self.repo.branch(branch).put(path, content.body, labels)
            ),
            lambda _: self.model.stage(branch, {path: content}),
        )

    @rule(path=paths, data=datas)
    def delete(self, path: str, data: st.DataObject) -> None:
        branch = self.branch(data)
        self.both(
            lambda: self.repo.branch(branch).delete(path),
            lambda _: self.model.stage(branch, {path: None}),
        )

    @rule(
        path=st.sampled_from(["a", "a/b", "b", "b/x=1", "nothing"]), deep=st.booleans(), data=datas
    )
    def remove(self, path: str, deep: bool, data: st.DataObject) -> None:
        branch = self.branch(data)
        self.both(
            lambda: self.repo.branch(branch).remove(path, recursive=deep),
            lambda _: self.model.remove(branch, path, recursive=deep),
        )

    @rule(changes=changes, data=datas)
    def stage(self, changes: Changes, data: st.DataObject) -> None:
        self.stage_on(self.branch(data), changes)

    @rule(removing=st.booleans(), force=st.booleans(), data=datas)
    def transfer(self, removing: bool, force: bool, data: st.DataObject) -> None:
        branch, some = self.branch(data), data.draw(st.sampled_from([PATHS, FOLDERS]))
        source, dest = data.draw(st.sampled_from(some)), data.draw(st.sampled_from(some))
        ref = None if removing or data.draw(st.booleans()) else self.ref(data)

        def real() -> int:
            found = self.repo.branch(branch)
            if removing:
                return found.move(source, dest, force=force)
            return found.copy(source, dest, ref, force=force)

        self.both(
            real,
            lambda _: self.model.transfer(
                branch, source, dest, ref, removing=removing, force=force
            ),
            may_seal=True,
        )

    @rule(changes=changes, parts=parts_to_reset, bulk=st.booleans(), data=datas)
    def stage_and_reset_a_part(
        self, changes: Changes, parts: list[tuple[str, str]], bulk: bool, data: st.DataObject
    ) -> None:
        """Stage first, in one layer of rows or of a run, over what there was: much is dropped."""
        name = self.branch(data)
        if bulk:
            self.stage_on(name, changes)
        for each, content in () if bulk else changes.items():
            self.put_on(name, each, content)
        for kind, text in parts:
            self.reset_on(name, kind, text)

    def reset_on(self, branch: str, kind: str, text: str) -> None:
        def part(path: str) -> bool:
            return path == text if kind == "path" else path.startswith(text)

        self.both(
            lambda: self.repo.branch(branch).reset(**{kind: text}),
            lambda _: self.model.reset_part(branch, part),
        )

    @rule(changes=changes, paths=choices, data=datas)
    def restore(self, changes: Changes, paths: list[str], data: st.DataObject) -> None:
        name, ref = self.branch(data), self.ref(data)
        self.stage_on(name, changes)

        def real() -> tuple[int, int, int]:
            found = self.repo.branch(name).restore(ref, paths)
            return found.added, found.changed, found.removed

        self.both(real, lambda _: self.model.restore(name, ref, paths), may_seal=True)

    def put_on(self, branch: str, path: str, content: Content | None) -> None:
        def real() -> None:
            found = self.repo.branch(branch)
            if content is None:
                found.delete(path)
            else:
                found.put(path, content.body, dict(content.metadata))

        self.both(real, lambda _: self.model.stage(branch, {path: content}))
