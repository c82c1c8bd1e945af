"""Each refusal of a table of plain files: what its message says leads out of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import sparklake
from sparklake import Branch, Repository
from sparklake.errors import InvalidInputError, MergeConflictError
from sparklake.testing.lakes import contents, memory_lake, put_all
from sparklake.verbs.merges import replaced_tables
from tests.verbs.merges.test_table_schemas import NUMBER, TEXT

TABLE = "tables/x"
MODULES = (
    *("merges/replaced_folders.py", "merges/replaced_tables.py", "merges/table_schemas.py"),
    *("merges/folder_rows.py", "tables/parquet_rows.py", "tables/row_merges.py"),
    "../frames/tables/row_merge.py",
)
BY_ROWS = (
    *("keep the old ones: rewrite the table", "is no key of the rows", "does not keep all values"),
    *("both sides changed a column differently", "list each key column of rows once"),
    *(
        "choose another column",
        "the table has no key",
        "the merge bases disagree on the columns of",
    ),
    *("differently, such as", "or merge rows by key with", "cannot be merged: "),
)
"""Reasons that need Spark: the tests of merges of rows do what they say."""

INTERNAL = {
    "files of a replaced table": "a title",
    "MERGE INTO": "a statement",
    " with , such as ": "a part of another reason",
    "rows would be written instead of": "a defect of this package, or of Spark",
    "has expired, so the rows of": "tests/verbs/merges/test_replay.py has merges of expired bases",
}

Files = Mapping[str, "bytes | None"]
OLD = {"day=1/f.parquet": NUMBER, "day=2/f.parquet": NUMBER}
LOG = {"_delta_log/00000000000000000000.json": b"{}", "d.parquet": b"1"}


@dataclass(frozen=True)
class Case:
    """Changes of both sides that a merge refuses with words, and those that the words ask for.

    The rules and the strategies in the message are always followed.
    """

    words: str
    source: Files
    dest: Files
    ways: int
    """The number of rules and strategies in the message."""
    old: Files = field(default_factory=lambda: OLD)
    source_then: Files | None = None
    again: Files = field(default_factory=dict)
    """What dest writes after it took one side."""
    options: Mapping[str, Any] = field(default_factory=dict)
    changed: Mapping[str, Any] | None = None
    """The options of a merge that the words advise."""
    is_restored: bool = False


def removed(*names: str, **new: bytes) -> Files:
    return {**dict.fromkeys(names), **{f"{name}.parquet": body for name, body in new.items()}}


def overwrite(name: str, *days: int) -> Files:
    gone = dict.fromkeys(f"day={day}/f.parquet" for day in days)
    return {**gone, **{f"day={day}/{name}.parquet": NUMBER for day in days}}


ROOT = {"f.parquet": NUMBER, "g.parquet": NUMBER}
ORC = {"part-00000-f.orc": b"1"}
CASES = [
    Case("files of the partition 'tables/x/day=1'", overwrite("s", 1), overwrite("d", 1), 3),
    Case("files of the table 'tables/x'", overwrite("s", 1, 2), overwrite("d", 1, 2), 3),
    Case(
        "files of the table 'tables/x'",
        removed(*ROOT, s=NUMBER),
        removed(*ROOT, d=NUMBER),
        3,
        old=ROOT,
    ),
    Case(
        "files of the table 'tables/x'",
        {**dict.fromkeys(ORC), "part-00000-s.orc": b"1"},
        {**dict.fromkeys(ORC), "part-00000-d.orc": b"1"},
        3,
        old=ORC,
    ),
    Case(
        "with different partition columns in source and dest: hour and day",
        {**dict.fromkeys(OLD), "hour=1/s.parquet": NUMBER},
        {"day=2/d.parquet": NUMBER},
        2,
        again={"day=2/s.parquet": NUMBER},
    ),
    Case(
        "with different types in source and dest: price",
        {"day=1/s.parquet": TEXT},
        {"day=1/d.parquet": NUMBER},
        0,
        source_then={"day=1/s.parquet": NUMBER},
    ),
    Case(
        "with --no-schema-check",
        {"day=1/s.parquet": TEXT},
        {"day=1/d.parquet": NUMBER},
        0,
        changed={"schema_check": False},
    ),
    Case(
        "source changed it from plain files to Delta, and dest changed 'day=1/d.parquet' in it",
        {**dict.fromkeys(OLD), **LOG},
        {"day=1/d.parquet": NUMBER},
        2,
        is_restored=True,
    ),
    Case("source deleted it, and dest changed it from", dict.fromkeys(OLD), LOG, 2),
    Case(
        "; the selected paths include only a part of it",
        {**dict.fromkeys(OLD), **LOG},
        {"day=1/d.parquet": NUMBER},
        0,
        options={"paths": [f"{TABLE}/_delta_log/"]},
        is_restored=True,
    ),
    Case(
        "No strategy takes more than",
        {**dict.fromkeys(OLD), **LOG},
        {"day=1/d.parquet": NUMBER},
        0,
        options={"strategy": "source-wins"},
        is_restored=True,
    ),
    Case(
        "only a part of the table 'tables/x/': select its folder, or merge without the rule",
        overwrite("s", 1),
        {"day=2/d.parquet": NUMBER},
        0,
        options={"paths": [f"{TABLE}/day=1/"], "rules": {TABLE: "rows(id)"}},
        changed={"rules": None},
    ),
    Case(
        "tables only, but 'tables/x/' contains 'part-00000-d.orc': merge without the rule",
        {"part-00000-s.orc": b"1"},
        {"part-00000-d.orc": b"1"},
        0,
        old=ORC,
        options={"rules": {TABLE: "rows(id)"}},
        changed={"rules": None},
    ),
]


def reasons() -> Iterator[str]:
    """Yield the constant words of the texts in the code that are no documentation."""
    verbs = Path(sparklake.__file__).parent / "verbs"
    for tree in (ast.parse((verbs / each).read_text("utf-8")) for each in MODULES):
        inner = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for each in ast.walk(tree):
            if isinstance(each, ast.JoinedStr):
                inner.update(id(part) for part in ast.walk(each) if part is not each)
        for each in ast.walk(tree):
            if isinstance(each, ast.JoinedStr | ast.Constant) and id(each) not in inner:
                values = each.values if isinstance(each, ast.JoinedStr) else [each]
                parts = [part.value for part in values if isinstance(part, ast.Constant)]
                text = re.sub(r"\s+", " ", "".join(each for each in parts if isinstance(each, str)))
                if text.count(" ") > 3:
                    yield text


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", text.lower()))


def test_every_reason_is_walked(folder: Path) -> None:
    messages = [message_of(each, folder / str(at)) for at, each in enumerate(CASES)]
    walked, every = [*map(words_of, messages)], [*reasons()]
    elsewhere = (*BY_ROWS, *INTERNAL)
    texts = [each for each in every if not any(words in each for words in elsewhere)]
    assert [each for each in texts if not any(words_of(each) <= some for some in walked)] == []
    assert [each for each in elsewhere if not any(each in text for text in every)] == []


# --- walks ----------------------------------------------------------------------------------------


def diverge(case: Case, place: Path) -> Repository:
    repo = memory_lake().create_repository("lake", str(place / "namespace"), range_records=3)
    main = repo.branch("main")
    main.put("beside", b"1")
    commit(main, case.old)
    for branch, files in ((repo.create_branch("dev", "main"), case.source), (main, case.dest)):
        commit(branch, files)
    return repo


def commit(branch: Branch, files: Files) -> None:
    put_all(branch, {f"{TABLE}/{name}": body for name, body in files.items()})
    branch.commit("change")


def merge(repo: Repository, case: Case, **options: Any) -> None:
    repo.merge("dev", "main", **{**case.options, **options})


def message_of(case: Case, place: Path) -> str:
    repo = diverge(case, place)
    with pytest.MonkeyPatch.context() as patch:
        limited(case, patch)
        with pytest.raises((MergeConflictError, InvalidInputError)) as raised:
            merge(repo, case)
    assert case.words in str(raised.value)
    return str(raised.value)


def limited(case: Case, patch: pytest.MonkeyPatch) -> None:
    if "No strategy" in case.words:
        patch.setattr(replaced_tables, "MAX_TAKEN", 2)


def ways_of(message: str) -> Iterator[dict[str, Any]]:
    """Yield the options of merges that a message advises."""
    for glob, strategy in re.findall(r"(\S+\*\*)=([a-z-]+)", message):
        yield {"rules": {glob: strategy}}
    _, _, strategies = message.partition("choose a strategy, such as ")
    for strategy in re.findall("[a-z]+-wins", strategies if "**=" not in message else ""):
        yield {"strategy": strategy}


@pytest.mark.parametrize("case", CASES, ids=lambda each: each.words[:40])
def test_what_a_refusal_says_leads_out(
    case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()

    def fresh() -> Repository:
        return diverge(case, folder / str(next(numbers)))

    message = message_of(case, folder / "refused")
    ways = list(ways_of(message))
    assert len(ways) == case.ways
    limited(case, monkeypatch)
    for each in ways:
        repo = fresh()
        merge(repo, case, **each)
        check_side(repo, str([*each.values()]))
        if case.again and "dest-wins" in str(each):
            commit(repo.branch("main"), case.again)
            assert all("/day=" in path for path in table_in(repo, "main"))
    if case.source_then is not None:
        repo = fresh()
        commit(repo.branch("dev"), case.source_then)
        merge(repo, case)
    if case.changed is not None:
        merge(fresh(), case, **case.changed)
    if case.is_restored:
        assert "restore" in message or ways
        repo = fresh()
        repo.branch("main").restore("dev", [f"{TABLE}/"])
        repo.branch("main").commit("restored")
        repo.branch("dev").put("more", b"1")
        repo.branch("dev").commit("more")
        repo.merge("dev", "main")
        assert table_in(repo, "main") == table_in(repo, "dev")


def table_in(repo: Repository, ref: str) -> dict[str, bytes]:
    return {path: body for path, body in contents(repo, ref).items() if path.startswith(TABLE)}


def check_side(repo: Repository, way: str) -> None:
    """Check that main has exactly one side's table, or the rows of both."""
    merged, theirs = table_in(repo, "main"), table_in(repo, "dev")
    if "source-wins" in way:
        assert merged == theirs
    elif "dest-wins" in way:
        assert merged == table_in(repo, "main~1")
    else:
        assert {**theirs, **table_in(repo, "main~1")}.items() <= merged.items()
