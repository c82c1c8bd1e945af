"""A lake and its model side by side: what the rules of the state machine have in common.

Add a verb as a rule in the module of its kind: the real call and the model's go to `both`, which
compares what they answer or raise. All else that a verb could change is compared after every step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest import mock
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from sparklake import DiffRow, Lake
from sparklake.errors import AddressConflictError, MergeConflictError, SparklakeError
from sparklake.graveler.entries import Entry, entry_identity
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake, stage_table
from tests.scenarios.model.history import LogOptions
from tests.scenarios.model.lake import LakeModel
from tests.scenarios.model.model_commits import MergeTerms
from tests.scenarios.model.model_refs import MAIN
from tests.scenarios.model.strategies import Resolution
from tests.scenarios.model.trees import Changes, Content, Diff, Tree, differences
from tests.support.lakes import refs_of
from tests.support.oracle import meta_range_id

if TYPE_CHECKING:
    import pyarrow as pa

# Few keys and fewer contents: most edits meet others, and one content is at several keys at once.
PATHS = ["a", "a/b", "a/c", "b/x=1/p", "b/x=2/p", "c", "d.csv", "é"]
PREFIXES = ["", "a", "a/", "b/", "b/x=", "c", "nothing/", "é"]
FOLLOWED = ["a", "b/x=", "c"]
FOLDERS = ["a/", "b/", "b/x=1/", "b/x=2/", "c/", "nothing/"]
CONTENTS = [Content(b""), Content(b"1"), Content(b"22"), Content(b"22", (("k", "v"),))]
SOURCES: list[Tree] = [
    {"b": CONTENTS[1], "x=1/p": CONTENTS[2]},
    {"a/b": CONTENTS[0], "c": CONTENTS[2], "é": CONTENTS[1]},
    {},
]
BRANCHES = [MAIN, "dev", "dev:joe-bugfix-1234", "topic"]
TAGS = ["v2.3", "dev:jane-before-v2.3-merge", "topic"]
CHOICES = ["a", "a/", "b/", "b/x=1/", "b/x=2/p", "d.csv", "nothing", "nothing/", "é"]
STRATEGIES = [None, "source-wins", "dest-wins", "larger-wins", "keep-both"]
GLOBS = ["a/**", "**/p", "*", "b/x=?/*", "*.csv", "**"]
STEPS = ["", "", "", "", "@", "$", "~", "~0", "~2", "^", "^1", "^2", "^2~1", "~1^2"]

paths = st.sampled_from(PATHS)
prefixes = st.sampled_from(PREFIXES)
contents = st.sampled_from(CONTENTS)
changes = st.dictionaries(paths, st.none() | contents, max_size=5)
choices = st.lists(st.sampled_from(CHOICES), max_size=3)
rules = st.tuples(st.sampled_from(GLOBS), st.sampled_from(["none", *STRATEGIES[1:]]))
resolutions = st.builds(
    Resolution,
    st.sampled_from(["larger-wins", "keep-both", *STRATEGIES]),
    st.just(()) | st.lists(rules, max_size=2).map(tuple),
)
terms = st.builds(
    MergeTerms,
    resolutions,
    squash=st.sampled_from([False, False, True]),
    allow_empty=st.sampled_from([False, False, True]),
    paths=st.none() | st.none() | choices,
)
datas = st.data()


class Machine(RuleBasedStateMachine):
    open_lake: Callable[[], Lake] = staticmethod(memory_lake)

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.folder = self.stack.enter_context(memory_folder())
        scratch = self.folder / "scratch"
        scratch.mkdir()
        self.stack.enter_context(mock.patch.dict(os.environ, SPARKLAKE_SCRATCH=str(scratch)))
        # The same steps must make the same ids each time. Several commits share a second.
        ticks = count(1_700_000_000)
        clock = SimpleNamespace(time=lambda: next(ticks) // 3)
        self.stack.enter_context(mock.patch("sparklake.verbs.base.context.time", clock))
        numbers = count()
        names = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"{next(numbers):012}"))
        self.stack.enter_context(mock.patch("sparklake.verbs.merges.transaction.uuid", names))
        self.touched, self.followed = {MAIN}, set[str]()

    def teardown(self) -> None:
        self.stack.close()

    @initialize(range_records=st.integers(1, 8), start=changes)
    def create(self, range_records: int, start: Changes) -> None:
        self.lake, self.namespace = self.open_lake(), str(self.folder / "namespace")
        self.repo = self.lake.create_repository(
            f"lake-{uuid4().hex}", self.namespace, range_records=range_records
        )
        self.model = LakeModel.of(self.repo.resolve(MAIN))
        self.dumped: LakeModel | None = None
        for number, content in enumerate(CONTENTS):
            (self.folder / f"object-{number}").write_bytes(content.body)
        for number, source in enumerate(SOURCES):
            write_tree(self.folder / f"source-{number}", source)
        self.stage_on(MAIN, start)
        self.commit_on(MAIN, allow_empty=True)
        for name in BRANCHES[1:3]:
            self.repo.create_branch(name, MAIN)
            self.model.create_branch(name, MAIN)

    # --- what rules draw --------------------------------------------------------------------------

    def branch(self, data: st.DataObject) -> str:
        """Draw a branch, rarely one that is not there; what is staged on it will be compared."""
        name = data.draw(st.sampled_from([*sorted(self.model.heads) * 5, *BRANCHES]))
        self.touched.add(name)
        return name

    def ref(self, data: st.DataObject) -> str:
        heads, ids = sorted(self.model.heads), sorted(self.model.commits)
        some = [each[:digits] for each in ids for digits in (1, 6)]
        known = st.sampled_from(heads) | st.sampled_from([*heads, *sorted(self.model.tags), *ids])
        base = data.draw(known | known | st.sampled_from([*BRANCHES, *TAGS, *some]))
        return base + data.draw(st.sampled_from(STEPS))

    # --- steps of many rules ----------------------------------------------------------------------

    def table(self, changes: Changes) -> pa.Table:
        """Return changes as they are staged at once."""
        rows = [
            {"path": path, "deleted": True}
            if content is None
            else {
                "path": path,
                "size": len(content.body),
                "address": f"file://{self.folder}/object-{CONTENTS.index(content)}",
                "metadata": list(content.metadata),
            }
            for path, content in changes.items()
        ]
        columns = dict.fromkeys(["path", "size", "address", "metadata", "deleted"])
        return stage_table([columns, *rows]).slice(1)

    def stage_on(self, branch: str, changes: Changes) -> None:
        table = self.table(changes)
        self.both(
            lambda: self.repo.branch(branch).stage(table),
            lambda _: self.model.stage(branch, changes),
        )

    def commit_on(self, branch: str, *, allow_empty: bool, paths: list[str] | None = None) -> None:
        # Few messages: the same change on two branches is sometimes one commit.
        message = f"change {len(self.model.commits) % 3}"
        self.both(
            lambda: self.repo.branch(branch).commit(message, allow_empty=allow_empty, paths=paths),
            lambda made: self.model.commit(branch, made, allow_empty=allow_empty, paths=paths),
            compare=False,
            may_seal=True,
        )

    def merge_into(self, source: str, dest: str, terms: MergeTerms) -> None:
        self.both(
            lambda: self.repo.merge(
                source,
                dest,
                terms.resolution.strategy,
                squash=terms.squash,
                allow_empty=terms.allow_empty,
                paths=terms.paths,
                rules=terms.resolution.rules,
            ),
            lambda made: self.model.merge(source, dest, terms, made),
            compare=False,
        )

    # --- agreement --------------------------------------------------------------------------------

    def both(
        self,
        real: Callable[[], object],
        model: Callable[[object], object],
        *,
        compare: bool = True,
        may_seal: bool = False,
    ) -> None:
        """Run a verb here and there: the same answer, or the same error and nothing changed.

        Some close what is staged to writers before they look at it, which nobody sees.
        """
        before = refs_of(self.repo)
        outcome, failure = attempt(real)
        if isinstance(failure, AddressConflictError):
            # Dicts know no addresses: what is staged from here and imported from there may clash.
            assert may_seal or refs_of(self.repo) == before, failure
            return
        try:
            expected, refusal = attempt(lambda: model(outcome))
        except (AssertionError, ValueError) as error:
            raise AssertionError(f"the model would do it: {error!r}", failure) from failure or error
        assert type(failure) is type(refusal), (failure, refusal)
        if failure is not None and not may_seal:
            assert refs_of(self.repo) == before, failure
        if isinstance(failure, MergeConflictError) and isinstance(refusal, MergeConflictError):
            assert shown(failure.conflicts) == refusal.conflicts
            assert failure.count == refusal.count
        elif compare and failure is None and expected is not None:
            assert outcome == expected, (outcome, expected)

    def listing(self, ref: str, prefix: str = "") -> Tree:
        objects = list(self.repo.objects(ref, prefix))
        found = {}
        for each in objects:
            fitting = [
                content
                for content in CONTENTS
                if (content.checksum, len(content.body)) == (each.checksum, each.size)
                and dict(content.metadata) == each.metadata
            ]
            found[each.path] = replace(fitting[0], content_type=each.content_type)
        assert list(found) == [each.path for each in objects]
        return found

    @invariant()
    def refs_agree(self) -> None:
        states = {each.name: each for each in self.repo.branch_states(hidden=True)}
        hidden = {name for name, each in states.items() if each.hidden}
        assert hidden == self.model.hidden
        assert {each.name for each in self.repo.branches()} == states.keys() - hidden
        assert {name: each.commit_id for name, each in states.items()} == self.model.heads
        dirty = {name for name, each in states.items() if each.layers}
        assert dirty == {name for name, staged in self.model.staged.items() if staged}
        assert {tag.name: tag.commit_id for tag in self.repo.tags()} == self.model.tags

    @invariant()
    def operations_agree(self) -> None:
        found = self.repo.operations(len(self.model.operations) + 1)
        noted = [(each.verb, each.ref, each.from_commit, each.to_commit) for each in found]
        assert noted[::-1] == self.model.operations

    @invariant()
    def trees_agree(self) -> None:
        """Compare contents, and the id that the contents alone must have, whatever made them."""
        for name in self.touched & self.model.heads.keys():
            head = self.repo.resolve(name)
            tree = self.model.trees[head.id]
            assert head.meta_range_id == meta_range_id(
                {path.encode(): identity(content) for path, content in tree.items()},
                self.repo.info.range_records,
            )
            assert self.listing(f"{name}@") == tree
            current = self.model.tree(name)
            assert self.listing(name) == current
            staged = shown(self.repo.diff_uncommitted(name))
            assert staged == self.model.diff_uncommitted(name) == differences(tree, current)
            self.check_history(head.id)
        self.touched = set()

    def check_history(self, commit_id: str) -> None:
        """Compare which commits made a tree what it is, once for each commit."""
        if commit_id in self.followed:
            return
        self.followed.add(commit_id)
        history = self.model.history
        assert {row.path: row.commit.id for row in self.repo.blame(commit_id)} == {
            path: history.blame(commit_id, path) for path in history.trees[commit_id]
        }
        for prefix in FOLLOWED:
            asked = LogOptions(part=lambda path, prefix=prefix: path.startswith(prefix))
            found = [each.id for each in self.repo.log(commit_id, prefix=prefix)]
            assert found == history.log(commit_id, asked)


def attempt(verb: Callable[[], object]) -> tuple[object, SparklakeError | None]:
    try:
        return verb(), None
    except SparklakeError as error:
        return None, error


def shown(rows: Iterable[DiffRow]) -> Diff:
    return [(each.type.value, each.path, each.size) for each in rows]


def identity(content: Content) -> bytes:
    metadata, kind = dict(content.metadata), content.content_type
    return entry_identity(Entry("", len(content.body), content.checksum, 0, metadata, kind))


def write_tree(folder: Path, tree: Mapping[str, Content]) -> None:
    folder.mkdir()
    for path, content in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.body)
