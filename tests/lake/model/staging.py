"""Rules that stage changes, and drop them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.lake.model.machine import (
    FOLDERS,
    PATHS,
    Machine,
    changes,
    contents,
    datas,
    paths,
    prefixes,
)
from tests.lake.model.trees import Changes, Content


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
        )

    @rule(path=paths, prefix=st.none() | prefixes, data=datas)
    def reset_a_part(self, path: str, prefix: str | None, data: st.DataObject) -> None:
        name = self.branch(data)

        def part(each: str) -> bool:
            return each == path if prefix is None else each.startswith(prefix)

        words = {"path": path} if prefix is None else {"prefix": prefix}
        self.both(
            lambda: self.repo.branch(name).reset(**words),
            lambda _: self.model.reset_part(name, part),
        )
