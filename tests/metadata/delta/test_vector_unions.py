"""Random histories with deletion vectors on two branches, against sets of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from sparklake.metadata.delta import vectors
from sparklake.metadata.delta.actions import encode_actions
from sparklake.metadata.delta.delta_commits import parse_commit
from sparklake.metadata.delta.union.log_sides import UnionSignature
from sparklake.metadata.delta.union.unite import united
from sparklake.metadata.union.conflicts import OverlappingRowsError, UnmergeableTableError
from tests.support.marked_tables import FILES, MarkedTable, after_writes, write

MARKS = ("delete", "update", "delete", "update", "append")
ALL = (*MARKS, "rewrite", "drop file", "bring back")
ROUNDS = 250


class Delta(NamedTuple):
    """The rows removed and added by a commit."""

    removed: set[str]
    added: set[str]


def deltas(table: MarkedTable) -> Iterator[tuple[str, Delta]]:
    replay = MarkedTable(table.name, table.contents)
    for commit in table.commits:
        before = replay.rows
        replay.take(commit)
        yield commit.origin, Delta(before - replay.rows, replay.rows - before)


def merged(base: MarkedTable, source: MarkedTable, dest: MarkedTable) -> MarkedTable:
    """Return dest with the union, after checking that its commits apply."""
    result = united(*(each.side(1) for each in (base, source, dest)), UnionSignature(2, "tests"))
    FILES.update(result.files)
    table = dest.branch(dest.name)
    for actions in result.commits:
        table.take(parse_commit(len(table.commits), encode_actions(actions)))
    return table


def serial(rows: set[str], changes: list[Delta]) -> set[str] | None:
    """Apply changes in order, or return None if one of them does not apply."""
    rows = set(rows)
    for each in changes:
        if not each.removed <= rows or each.added & rows:
            return None
        rows = (rows - each.removed) | each.added
    return rows


def check(
    base: MarkedTable,
    source: MarkedTable,
    dest: MarkedTable,
    expected: set[str] | None,
    outcomes: Counter[str],
    strict: bool,
) -> MarkedTable:
    """Check a merge, and return dest after it. With `strict`, only overlaps may be refused."""
    try:
        result = merged(base, source, dest)
    except UnmergeableTableError:
        outcomes["refused"] += 1
        assert not strict or expected is None
        return dest
    outcomes["merged"] += 1
    assert result.rows == expected
    assert merged(base, source, result).commits == result.commits
    return result


def check_merge(
    base: MarkedTable, source: MarkedTable, dest: MarkedTable, outcomes: Counter[str], strict: bool
) -> MarkedTable:
    origins = {each.origin for each in dest.commits} | {each.origin for each in base.commits}
    changes = [delta for origin, delta in deltas(source) if origin not in origins]
    return check(base, source, dest, serial(dest.rows, changes), outcomes, strict)


@pytest.mark.parametrize(
    "inline_bytes", [pytest.param(vectors.INLINE_BYTES, marks=pytest.mark.system), 0]
)
@pytest.mark.parametrize(("writes", "strict"), [(MARKS, True), (ALL, False)])
def test_two_branches_are_merged_repeatedly(
    writes: tuple[str, ...], strict: bool, inline_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides write, and source is merged into dest; twice, and then dest into source."""
    monkeypatch.setattr(vectors, "INLINE_BYTES", inline_bytes)
    outcomes: Counter[str] = Counter()
    for seed in range(ROUNDS):
        random = Random(seed)
        base = MarkedTable.of_files(2, 8)
        start = after_writes(base, "start", random, random.choices(writes, k=random.randint(0, 2)))
        source, dest = start.branch("source"), start.branch("dest")
        for _ in range(2):
            for side in (source, dest):
                for each in random.choices(writes, k=random.randint(0, 3)):
                    write(side, random, each)
            result = check_merge(start, source, dest, outcomes, strict)
            if result is dest:
                break
            start, dest = source.branch("start"), result
        else:
            check_merge(source.branch("base"), dest, source, outcomes, strict)
    assert min(outcomes["merged"], outcomes["refused"]) > ROUNDS // 10, outcomes


@pytest.mark.system
@pytest.mark.parametrize(("writes", "strict"), [(MARKS, True), (ALL, False)])
def test_a_branch_is_merged_after_single_picks(writes: tuple[str, ...], strict: bool) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(ROUNDS):
        random = Random(seed)
        base = MarkedTable.of_files(2, 10)
        source = after_writes(
            base, "source", random, random.choices(writes, k=random.randint(1, 4))
        )
        dest = after_writes(base, "dest", random, random.choices(writes, k=random.randint(0, 2)))
        if len(source.commits) == 1:
            continue
        at = random.randrange(1, len(source.commits))
        pick = list(deltas(source))[at][1]
        expected = serial(dest.rows, [pick])
        after = check(source.at(at - 1), source.at(at), dest, expected, outcomes, strict)
        check_merge(base, source, after, outcomes, strict)
    assert min(outcomes["merged"], outcomes["refused"]) > ROUNDS // 10, outcomes


@pytest.mark.system
@pytest.mark.parametrize(("writes", "strict"), [(MARKS, True), (ALL, False)])
def test_commits_are_undone_after_later_ones(writes: tuple[str, ...], strict: bool) -> None:
    """Undo one commit of a history, then another one, and then the first undo."""
    outcomes: Counter[str] = Counter()
    for seed in range(ROUNDS):
        random = Random(seed)
        base = MarkedTable.of_files(2, 10)
        table = after_writes(base, "main", random, random.choices(writes, k=random.randint(1, 5)))
        for _ in range(3):
            if len(table.commits) == 1:
                break
            at = random.randrange(1, len(table.commits))
            change = list(deltas(table))[at][1]
            expected = serial(table.rows, [Delta(change.added, change.removed)])
            effective = not any(table.commits[at].origin in each.undone for each in table.commits)
            if effective:
                # Rows of a rewritten file are in another one, and the undo is refused.
                table = check(table.at(at), table.at(at - 1), table, expected, outcomes, strict)
    assert min(outcomes["merged"], outcomes["refused"]) > ROUNDS // 10, outcomes


# --- single cases ---------------------------------------------------------------------------------


def one_file(**stats: str) -> MarkedTable:
    """Return a table with one file of eight rows, and the rows 1 and 2 deleted."""
    table = MarkedTable.of_files(1, 8)
    table.commit(*table.remark("first-0", {1, 2}))
    return table


def marked(table: MarkedTable, *deleted: int) -> MarkedTable:
    branch = table.branch(f"{table.name}{len(table.commits)}")
    branch.commit(*branch.remark("first-0", {*deleted}))
    return branch


def test_a_conflict_reports_the_file_and_the_positions() -> None:
    base = one_file()
    with pytest.raises(OverlappingRowsError) as raised:
        merged(base, marked(base, 1, 2, 4, 5), marked(base, *range(1, 8)))
    assert raised.value.rows == {"first-0": [4, 5]}
    assert str(raised.value).endswith("the same rows: first-0 at positions 4, 5")


def test_a_row_deleted_again_is_not_restored() -> None:
    base = one_file()
    undone, before = base.at(1), base.at(0)
    later = marked(base, 1, 2, 6)
    assert merged(undone, before, later).live["first-0"].deleted == {6}
    again = marked(marked(later, 2, 6), 1, 2, 6)
    with pytest.raises(UnmergeableTableError, match="restored, or their file removed, since"):
        merged(undone, before, again)
    # Neither does it by a commit of source that restores it.
    source = marked(base, 2)
    assert merged(base, source, marked(base, 1, 2, 6)).live["first-0"].deleted == {2, 6}
    with pytest.raises(UnmergeableTableError, match="restored, or their file removed, since"):
        merged(base, source, marked(marked(base, 2), 1, 2))
    with pytest.raises(OverlappingRowsError):
        merged(base, source, marked(base, 2))


def test_a_file_rewritten_on_one_side_and_marked_on_the_other_conflicts() -> None:
    base = one_file()
    rewritten = base.branch("rewritten")
    rewritten.rewrite(Random(1))
    for words, sides in {
        "dest deleted, updated or restored rows: first-0": (rewritten, marked(base, 1, 2, 3)),
        "dest removed, rewrote or never had: first-0": (marked(base, 1, 2, 3), rewritten),
    }.items():
        with pytest.raises(UnmergeableTableError, match=words):
            merged(base, *sides)
    # The vectors are different files, but have the same rows.
    source, dest = marked(marked(base, 1, 2, 3), 1, 2, 3, 4), marked(base, 1, 2, 4)
    dest = merged(source.at(2), source.at(2), dest)
    picked = merged(base, source.at(2), dest)
    assert picked.live["first-0"].deleted == {1, 2, 3, 4}


def stats_of(table: MarkedTable) -> str:
    stats: str = table.live["first-0"].fields["stats"]
    return stats.replace(" ", "")


def test_statistics_keep_their_digits_and_have_valid_bounds() -> None:
    base = one_file()
    digits = '{"numRecords":8,"max":1234567890123456789.1,"bounds":[0,3,4,5,7],"tightBounds":true}'
    dest = base.branch("dest")
    removal, addition = dest.remark("first-0", {1, 2, 6})
    dest.commit(removal, {"add": {**addition["add"], "stats": digits}})
    assert stats_of(merged(base, marked(base, 1, 2, 3), dest)) == digits.replace("true", "false")
    # The maximum may be that of a restored row. Before the undone commit, it was among the live.
    before = stats_of(base.at(0)).replace("true", "false")
    assert stats_of(merged(base.at(1), base.at(0), dest)) == before
    # Neither side has bounds of the rows that are now live.
    source = base.branch("source")
    source.commit(*source.remark("first-0", {2, 5}, tight=True))
    dest = base.branch("dest")
    dest.commit(*dest.remark("first-0", {1, 6}, tight=True))
    assert stats_of(merged(base, source, dest)) == '{"numRecords":8,"tightBounds":false}'


def test_a_file_without_a_row_count_is_rejected() -> None:
    base = MarkedTable.of_files(1, 8)
    removal, addition = base.remark("first-0", {1})
    source, dest = base.branch("source"), marked(base, 2)
    source.commit(removal, addition)
    for table in (source, dest):
        (file,) = table.live.values()
        del file.fields["stats"]
    with pytest.raises(UnmergeableTableError, match=r"no matching row count.*first-0"):
        merged(base, source, dest)
