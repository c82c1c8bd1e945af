"""Each refusal of a Delta table: what its message says is done, and the merge goes through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparklake import Branch, MergeConflictError, Repository
from sparklake.errors import NoChangesError
from sparklake.metadata.delta.union.rows import row_settings
from sparklake.metadata.delta.vectors import new_vectors
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.testing.lakes import contents
from tests.metadata.delta.reasons import GAP, reasons
from tests.metadata.delta.test_features import (
    BY_ID,
    MAPPED,
    NEW,
    TRACKED,
    A,
    Actions,
    B,
    C,
    add,
    column,
    domain,
    generated,
    ids,
    remove,
    settings,
    side,
    table,
)
from tests.support.table_pairs import repository

FOLDER = "t/"
LOG = f"{FOLDER}_delta_log/"
FEATURES = ["columnMapping", "deletionVectors", "rowTracking", "identityColumns"]
_TIMES = count(1)

Commits = Sequence[Actions]


def protocol(*more: str, reader: int = 3) -> dict[str, Any]:
    readers = [each for each in more if each.startswith("v")]
    fields: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": 7}
    if reader == 3:
        fields["readerFeatures"] = ["columnMapping", "deletionVectors", *readers]
    return {"protocol": fields | {"writerFeatures": [*FEATURES, *more]}}


def marked(path: str, *rows: int, **fields: Any) -> dict[str, Any]:
    (vector,), _ = new_vectors([np.array(rows, np.uint64)])
    return add(path, 10, **fields, **({"deletionVector": vector} if vector else {}))


def unmarked(path: str, *rows: int) -> dict[str, Any]:
    fields = marked(path, *rows)["add"]
    return remove(path, **{key: fields[key] for key in ("deletionVector",) if key in fields})


def overwrite(*actions: Any) -> list[Any]:
    parameters = {"mode": '"Overwrite"', "partitionBy": "[]"}
    info = {"commitInfo": {"operation": "WRITE", "operationParameters": parameters}}
    return [info, *actions]


@dataclass(frozen=True)
class Case:
    """Commits of both sides that a merge refuses with words, and those that the words ask for.

    `undone` is the number of a commit of dest to revert instead. Without commits to follow, the
    advice is to take one side. A case of `rows` is refused by a merge of rows only.
    """

    words: str
    source: Commits = ()
    dest: Commits = ()
    source_then: Commits = ()
    dest_then: Commits = ()
    start: Any = None
    is_created: bool = False
    undone: int | None = None
    has_strategies: bool = True
    rows: bool = False

    @property
    def table(self) -> Any:
        return self.start or MAPPED


OTHER = column("c", 3, file_name="other")
MINE = add("mine", **ids(10, 1))
SAME = {"commitInfo": {"operation": "WRITE", "timestamp": 5}}
REWRITE = [remove("old"), add("new", 10)]
RULED = table(A, B, constraints_x="a > 0")
Z = {**A, "name": "z"}

CASES = [
    Case(
        "Make the same change on both sides, or take one side",
        [[settings(table(A, B, x="1"))]],
        [[settings(table(A, B, x="2"))]],
        source_then=[[settings(table(A, B, x="2"))]],
    ),
    Case(
        "Rename the column on one side, and merge again",
        [[settings(table(Z, B))]],
        [[settings(table(A, {**B, "name": "Z"}))]],
        source_then=[[settings(table({**A, "name": "y"}, B))]],
    ),
    Case(
        "Rename it on one side, merge, copy its values to the other column, and drop it",
        [[settings(table(A, B, C)), *NEW]],
        [[settings(table(A, B, OTHER)), MINE]],
        source_then=[[settings(table(A, B, {**C, "name": "c2"}))]],
    ),
    Case(
        "both sides added one column differently. Rename it on one side",
        [[settings(table(A, B, C)), *NEW]],
        [[settings(table(A, B, column("C", 3, "long", file_name="other")))]],
        source_then=[[settings(table(A, B, {**C, "name": "c2"}))]],
    ),
    Case(
        "both sides added columns with one id, which the files of source use",
        [[settings(table(A, B, C, mode="id")), *NEW]],
        [[settings(table(A, B, column("d", 3, file_name="d"), mode="id"))]],
        start=BY_ID,
    ),
    Case(
        "Drop the expression, merge, and add it again",
        [[settings(table(Z, B))]],
        [[settings(RULED)]],
        dest_then=[[settings(MAPPED)]],
    ),
    Case(
        "both sides changed the order of columns",
        [[settings(table(B, A, C))]],
        [[settings(table(C, B, A))]],
        start=table(A, B, C),
    ),
    Case(
        "one side enabled column mapping, and the other changed columns. Enable it on both",
        [[settings(table(column("a", 1, file_name="a")))]],
        [[settings(table(column("a"), column("b")))]],
        dest_then=[[settings(table(column("a", 1, file_name="a"), column("b", 2, file_name="b")))]],
        start=table(column("a")),
    ),
    Case(
        "changes to the table's schema, properties or protocol, in a different order",
        [[SAME, settings(table(A, B, x="1"))], NEW],
        [[SAME, settings(table(A, B, x="1"))], [settings(MAPPED)]],
    ),
    Case(
        "both sides changed the table's protocol differently. Enable the same features",
        [[protocol("variantType")]],
        [[protocol("v2Checkpoint")]],
        source_then=[[protocol("variantType", "v2Checkpoint")]],
        dest_then=[[protocol("variantType", "v2Checkpoint")]],
    ),
    Case("has a lower", [[protocol(reader=1)]], [NEW], source_then=[[protocol()]]),
    Case(
        "lacks the feature",
        [[{"protocol": {**protocol()["protocol"], "writerFeatures": FEATURES[:3]}}]],
        [NEW],
        source_then=[[protocol()]],
    ),
    Case(
        "the table uses a feature that cannot be merged",
        [[protocol("collations")]],
        [NEW],
        source_then=[[protocol()]],
    ),
    Case(
        "resume it with ALTER TABLE ... UNSET TBLPROPERTIES ('delta.rowTrackingSuspended')",
        [[settings(table(A, B, rowTrackingSuspended="true"))]],
        [NEW],
        source_then=[[settings(MAPPED)]],
    ),
    *(
        Case("both sides …, …", [[each]], [[each]])
        for each in (
            {"txn": {"appId": "s", "version": 1}},
            {"domainMetadata": {"domain": "d", "configuration": "1", "removed": False}},
        )
    ),
    Case(
        "and the other side changed a domain that refers to it",
        [[settings(table(B))]],
        [[{"domainMetadata": {"domain": "delta.clustering", "configuration": '["col-1"]'}}]],
    ),
    Case(
        "overwrote rows and dropped or changed the column",
        [overwrite(settings(table(B)), remove("old"), add("only"))],
        [NEW],
    ),
    Case("both sides overwrote …", [overwrite(add("a"))], [overwrite(add("b"))]),
    Case("source removed or rewrote files that dest removed", [REWRITE], [[remove("old")]]),
    Case("both sides added the same files", [[add("new")]], [[marked("new", 1)]]),
    Case("dest removed files that source added again", [[add("x")]], [[add("x")], [remove("x")]]),
    Case(
        "source removed or rewrote files in which dest deleted, updated or restored rows",
        [REWRITE],
        [[remove("old"), marked("old", 1)]],
    ),
    Case(
        "the log has no matching row count, which deletion vectors require",
        [[remove("old"), replace_stats] for replace_stats in [marked("old", 1, stats="{}")]],
        [[remove("old"), marked("old", 2, stats="{}")]],
    ),
    Case(
        "rows to restore were restored, or their file removed, since they were deleted",
        dest=[
            [remove("old"), marked("old", 1)],
            [unmarked("old", 1), marked("old")],
            [remove("old"), marked("old", 1, 2)],
        ],
        undone=0,
    ),
    Case(
        "source enabled row tracking, and dest added files without row ids",
        [[settings(TRACKED)]],
        [[add("ours", 5)]],
        start=table(column("a")),
    ),
    Case(
        "row tracking needs the number of rows, which the statistics of files lack",
        [[add("s", stats="{}")]],
        [[add("ours", 5, **ids(10, 1)), domain(14)]],
        start=TRACKED,
    ),
    Case(
        "source rewrote rows whose row ids are different in dest",
        [
            [add("s", 3, **ids(10, 1)), domain(12)],
            [remove("s", **ids(10, 1)), add("copied", 3, **ids(13, 2)), domain(15)],
        ],
        [[add("ours", 5, **ids(10, 1)), domain(14)]],
        start=TRACKED,
    ),
    Case(
        "the table's highest row id is not known",
        [[add("s", 3)]],
        [[{"domainMetadata": {"domain": "delta.rowTracking", "configuration": "{"}}]],
        start=TRACKED,
    ),
    Case(
        "both sides generated values of the identity column",
        [[settings(generated(5)), add("f5")]],
        [[settings(generated(4)), add("f4")]],
        start=generated(3),
    ),
    Case("set back the identity column", [[settings(generated(1))]], [NEW], start=generated(3)),
    Case(
        "both sides created the table, with different",
        [[settings(table(A)), *NEW]],
        [[settings(table(B)), MINE]],
        is_created=True,
    ),
    Case(
        "both sides created the table, and its columns have the same names under two ids",
        [[settings(table(A)), *NEW]],
        [[settings(table({**A, "metadata": {**OTHER["metadata"]}})), MINE]],
        is_created=True,
    ),
    *(
        Case(words, [[settings(changed)]], [NEW], start=start)
        for words, changed, start in (
            ("replaced the table with a new one", {**MAPPED, "id": "another"}, MAPPED),
            ("changed the column mapping from", table(A, B, mode="id"), MAPPED),
            ("changed the table's format", {**MAPPED, "format": {"provider": "orc"}}, MAPPED),
            ("changed the table's partitionColumns", {**MAPPED, "partitionColumns": ["a"]}, MAPPED),
            ("NOT NULL, and the other", table(A, B, {**C, "nullable": False}), MAPPED),
            (
                "generated or constrained, and the other side wrote rows",
                table(A, B, column("c", 3, **{"delta.generationExpression": "a"})),
                MAPPED,
            ),
            (
                "dropped the column …, and the other side wrote",
                table(column("a")),
                table(column("a"), column("b")),
            ),
            (
                "the table's schema has columns without a name",
                {**MAPPED, "schemaString": '{"fields": [{}]}'},
                0,
            ),
            (
                "the table's schema is not the JSON of a schema",
                {**MAPPED, "schemaString": "{"},
                MAPPED,
            ),
        )
    ),
    Case(
        "changed the column … (…), and the other side wrote data. Make the same change",
        [[settings(table({**A, "nullable": False}, B))]],
        [NEW],
        dest_then=[[settings(table({**A, "nullable": False}, B))]],
    ),
    Case(
        "changed the property …, and the other side wrote data. Set it to … on both sides",
        [[settings(table(A, B, appendOnly="true"))]],
        [[remove("old")]],
        dest_then=[[settings(table(A, B, appendOnly="true"))]],
    ),
    Case("files to remove were removed", dest=[[add("g")], [remove("g")]], undone=0),
    Case("files to restore are already restored", dest=[[remove("old")], [add("old")]], undone=0),
    Case(
        "files with rows to restore were removed or rewritten",
        dest=[[remove("old"), marked("old", 1)], [unmarked("old", 1)]],
        undone=0,
    ),
    *(
        Case("the table is append-only", dest=dest, undone=0, start=table(A, B, appendOnly="true"))
        for dest in ([NEW], [NEW, [add("x")]])
    ),
    Case(
        "the table has a change data feed",
        dest=[REWRITE],
        undone=0,
        start=table(A, B, enableChangeDataFeed="true"),
    ),
    Case(
        "Drop it, revert, and add it again",
        dest=[[remove("old")], [settings(RULED)]],
        dest_then=[[settings(MAPPED)]],
        undone=0,
    ),
    Case("the commits to undo changed the table's", dest=[[settings(RULED)], NEW], undone=0),
    Case("one side has no table", [[remove("old")]], rows=True, has_strategies=False),
    Case(
        "rows with the identity column",
        [[settings(generated(5)), *REWRITE]],
        [[remove("old"), add("theirs", 10)]],
        start=generated(3),
        rows=True,
    ),
    Case(
        "revert that commit, merge, and repeat it on dest",
        [[settings(table(B)), *REWRITE]],
        [[remove("old"), add("theirs", 10)]],
        rows=True,
    ),
]

DAMAGED = {
    "commit … has an unknown action",
    "the log no longer",
    "its new commits have more than",
    "a log has checkpoints and no commits",
    "cannot be read (…)",
    "the merge lacks files required by the table",
    "Delta's commit has an unexpected … action",
}
"""Parts of reasons that ask for another log, or other files, not for a change of the table."""

ELSEWHERE = {
    "source rewrote the table's history since base",
    "a merge of rows applied the commits to undo, so only rows can be undone",
    "source merged rows of commits that dest has, too, so they would exist twice",
    "the best common ancestors disagree on the table",
    "the merge bases disagree on the table",
    "one side deleted the table's log, and the other changed it. Restore the table there",
    "source re-added files that dest does not have",
    "… rewrote rows without the column …, which … still has",
    "the selected paths include only a part of its log",
    "… added a constraint, and only Spark can check it",
    "violate a constraint that … added",
}
"""Parts of reasons that need several merges, or Spark: other tests walk them."""


def test_every_reason_is_walked() -> None:
    known = [*(each.words for each in CASES), *DAMAGED, *ELSEWHERE]
    texts = {each for each in reasons() if len(each.replace(GAP, "").strip()) > 2 or GAP in each}
    texts -= {GAP, f"{GAP} {GAP}"}
    assert [each for each in texts if not any(words in each for words in known)] == []
    assert [words for words in known if not any(words in each for each in texts)] == []


# --- tables ---------------------------------------------------------------------------------------


def write(branch: Branch, version: int, commits: Commits) -> str | None:
    """Write versions of the log with their files, and commit once."""
    for at, actions in enumerate(commits, version):
        own = {}
        rest = [dict(each) for each in actions]
        if rest and "commitInfo" in rest[0]:
            own = rest.pop(0)["commitInfo"]
        info = {"commitInfo": {"timestamp": next(_TIMES), "operation": "WRITE", **own}}
        lines = "".join(f"{json.dumps(each)}\n" for each in (info, *rest))
        branch.put(f"{LOG}{at:020}.json", lines.encode())
        for each in rest:
            if "add" in each:
                branch.put(FOLDER + each["add"]["path"], each["add"]["path"].encode())
    return branch.commit("changed the table").id if commits else None


@dataclass
class Walk:
    case: Case
    repo: Repository
    target: str | None = None
    versions: dict[str, int] | None = None

    def change(self, branch: str, commits: Commits) -> str | None:
        assert self.versions is not None
        at = self.versions[branch]
        self.versions[branch] += len(commits)
        return write(self.repo.branch(branch), at, commits)

    def run(self, strategy: str | None = None) -> None:
        if self.case.undone is None:
            self.repo.merge("dev", "main", strategy)
        else:
            with suppress(NoChangesError):
                self.repo.branch("main").revert(self.target or "", strategy=strategy)


def prepared(case: Case, folder: Path) -> Walk:
    repo = repository(folder, 3)
    main = repo.branch("main")
    main.put("other", b"1")
    main.commit("something else")
    walk = Walk(case, repo, None, {"main": 0, "dev": 0})
    if not case.is_created:
        first = [protocol(), settings(case.table), add("old", 10, **ids(0, 0))]
        walk.change("main", [first])
        walk.versions = {"main": 1, "dev": 1}
    repo.create_branch("dev", "main")
    created: Commits = [[protocol()]] if case.is_created else []
    commits = [walk.change("main", [each]) for each in _joined(created, case.dest)]
    walk.target = commits[case.undone] if case.undone is not None else None
    walk.change("dev", _joined(created, case.source))
    return walk


def _joined(created: Commits, commits: Commits) -> list[Actions]:
    """Return the commits, of which the first creates the table."""
    first = [*(created[0] if created else ()), *(commits[0] if commits else ())]
    return [first, *commits[1:]] if commits else []


@pytest.mark.parametrize("case", CASES, ids=lambda each: each.words[:40])
def test_what_a_refusal_says_leads_out(case: Case, folder: Path) -> None:
    numbers = count()

    def walk() -> Walk:
        return prepared(case, folder / str(next(numbers)))

    if case.rows:
        base, source, dest = (side(case.table, *each) for each in ((), case.source, case.dest))
        if "no table" in case.words:
            source = replace(source, metadata=None)
        with pytest.raises(UnmergeableTableError) as raised:
            row_settings(base, source, dest)
        message = str(raised.value)
    else:
        with pytest.raises(MergeConflictError) as refused:
            walk().run()
        message = str(refused.value)
    for part in case.words.split(GAP):
        assert part.strip(", ") in message
    if case.source_then or case.dest_then:
        after = walk()
        after.change("dev", case.source_then)
        after.change("main", case.dest_then)
        after.run()
    elif case.has_strategies:
        assert "source-wins" in message or case.rows
    for strategy in ("source-wins", "dest-wins") if case.has_strategies else ():
        taken = walk()
        before = contents(taken.repo, "main")
        taken.run(strategy)
        if case.undone is not None and strategy == "dest-wins":
            gone = before.items() - contents(taken.repo, "main").items()
            removed = {
                each["remove"]["path"] for at in case.dest for each in at if "remove" in each
            }
            assert {path.removeprefix(FOLDER) for path, _ in gone} <= removed


def test_a_deleted_table_is_restored_taken_or_deleted_on_both_sides(folder: Path) -> None:
    def deleted(name: str) -> Walk:
        walk = prepared(Case("", dest=[NEW]), folder / name)
        delete(walk.repo.branch("dev"))
        with pytest.raises(MergeConflictError, match=r"source deleted it, .*choose a strategy"):
            walk.run()
        return walk

    def delete(branch: Branch) -> None:
        branch.delete_prefix(FOLDER)
        branch.commit("deleted the table")

    for strategy in ("source-wins", "dest-wins"):
        deleted(strategy).run(strategy)
    restored, both = map(deleted, "ab")
    dev = restored.repo.branch("dev")
    dev.restore("dev~1", [FOLDER])
    dev.commit("restored the table")
    with pytest.raises(NoChangesError):
        restored.run()
    delete(both.repo.branch("main"))
    both.run()
