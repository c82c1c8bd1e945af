"""Delta tables whose logs cannot be merged, of which a strategy takes one side as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklake import Lake
from sparklake.documents import preview_document
from sparklake.errors import MergeConflictError
from sparklake.graveler.algebra.classify import Strategy
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import contents, memory_lake
from sparklake.testing.memory.branches import MemoryBranches
from tests.support.delta import (
    TABLE,
    Change,
    append,
    checkpoint,
    clean_log,
    delete,
    log_of,
    optimize,
    vacuum,
)
from tests.support.delta_desks import WINNERS, Desk, desk_on, names, refused
from tests.support.interleaved_calls import just_before


def clash(desk: Desk) -> None:
    """Let both sides rewrite one file, and each append besides; one has more versions."""
    desk.change("dev", delete("id = 1"), append(3))
    desk.change("main", delete("id = 1"), append(4), append(5))


# What each strategy drops of these changes.
DROPPED: dict[str, tuple[dict[str, object], str]] = {
    "source-wins": (
        {"side": "dest", "commits": 3, "added_files": 2, "added_rows": 2, "removed_files": 1},
        "3 commits of dest (added 2 files with 2 rows, removed 1 file)",
    ),
    "dest-wins": (
        {"side": "source", "commits": 2, "added_files": 1, "added_rows": 1, "removed_files": 1},
        "2 commits of source (added 1 file with 1 row, removed 1 file)",
    ),
}


def logs(desk: Desk, ref: str) -> dict[str, bytes]:
    return {path: body for path, body in contents(desk.repo, ref).items() if "_delta_log" in path}


@pytest.mark.parametrize("strategy", WINNERS)
@pytest.mark.parametrize("by_rule", [False, True])
def test_the_side_that_wins_has_its_table(desk: Desk, strategy: str, by_rule: bool) -> None:
    clash(desk)
    desk.repo.branch("dev").put("a-before", b"2")
    desk.repo.branch("dev").commit("something beside it")
    taken, before = WINNERS[strategy], contents(desk.repo, "main")
    ids, log = desk.ids(taken), logs(desk, taken)
    chosen = None if by_rule else strategy
    rules = {f"{TABLE}/**": strategy} if by_rule else None
    said = desk.repo.preview_merge("dev", "main", chosen, rules=rules)
    made = desk.repo.merge("dev", "main", chosen, rules=rules)
    after = contents(desk.repo, "main")
    assert (desk.ids("main"), logs(desk, "main")) == (ids, log)
    assert after["a-before"] == b"2"
    assert made.metadata["sparklake.merge.winners"] == f"{TABLE}={strategy}"
    assert "sparklake.merge.tables" not in made.metadata
    assert (said.merged_tables, said.table_winners) == ((), {TABLE: strategy})
    assert preview_document(said)["table_winners"] == {TABLE: strategy}
    document, text = DROPPED[strategy]
    assert preview_document(said)["dropped_commits"] == {TABLE: document}
    assert made.metadata["sparklake.merge.dropped"] == f"{TABLE}: {text}"
    assert (said.unresolved, said.conflict_count) == (0, 2)
    new = {path: body for path, body in after.items() if path not in before}
    gone = {path: body for path, body in before.items() if path not in after}
    both = {path: body for path, body in after.items() if before.get(path, body) != body}
    assert (said.added, said.removed, said.changed) == (len(new), len(gone), len(both))
    for volume, bodies in (
        (said.added_bytes, new),
        (said.removed_bytes, gone),
        (said.changed_bytes, both),
    ):
        assert volume == sum(map(len, bodies.values()))


def test_a_conflict_tells_what_each_strategy_drops(desk: Desk) -> None:
    clash(desk)
    words = "; ".join(f"{strategy} drops {text}" for strategy, (_, text) in DROPPED.items())
    with refused(desk.repo, re.escape(words)) as caught:
        desk.repo.merge("dev", "main")
    assert words in str(caught.value.conflicts[0].reason)
    said = desk.repo.preview_merge("dev", "main")
    assert words in str(preview_document(said)["conflicts"][0]["reason"])
    assert said.dropped_commits == {}


def test_as_well_on_postgres(lake: Lake, folder: Path) -> None:
    desk = desk_on(lake, folder, 2, "taken")
    clash(desk)
    desk.repo.merge("dev", "main", "source-wins")
    assert desk.ids("main") == [2, 3]


@pytest.mark.parametrize("strategy", ["newest-wins", "keep-both", "union-lines"])
def test_no_other_strategy_takes_a_table(desk: Desk, strategy: str) -> None:
    clash(desk)
    words = r"choose a strategy, such as source-wins or dest-wins, .*or merge its rows by key: "
    with refused(desk.repo, words):
        desk.repo.merge("dev", "main", strategy, rules={"other/**": "source-wins"})


def test_what_can_be_united_is(desk: Desk) -> None:
    desk.change("dev", delete("id = 1"))
    desk.change("main", delete("id = 2"), append(4))
    made = desk.repo.merge("dev", "main", "source-wins")
    assert desk.ids("main") == [4]
    assert "sparklake.merge.winners" not in made.metadata


def test_tables_that_both_sides_created(desk: Desk) -> None:
    for branch, number in (("dev", 3), ("main", 4)):
        desk.change(branch, *(moved(append(each)) for each in (number, number + 10)))
    before = contents(desk.repo, "dev")
    ours = contents(desk.repo, "main")
    made = desk.repo.merge("dev", "main", rules={"tables/t2/**": "source-wins"})
    after = contents(desk.repo, "main")
    assert "sparklake.merge.winners" not in made.metadata  # Equal tables are united.
    files = {path for path in {*before, *ours} if path.endswith(".parquet")}
    assert {path: after.get(path) for path in files} == {
        path: {**before, **ours}[path] for path in files
    }


def moved(change: Change) -> Change:
    return lambda table: change(f"{table}2")


def test_the_shorter_log_takes_away_what_the_longer_has_more(desk: Desk) -> None:
    """Commit and checkpoints that only dest has would lead back to dest's table."""
    desk.change("dev", delete("id = 1"))
    desk.change("main", delete("id = 1"), append(4), checkpoint, append(5))
    desk.repo.merge("dev", "main", "source-wins")
    assert (desk.ids("main"), log_of(desk.repo, "main")) == ([2], names(0, 1, 2))


def test_later_merges_go_on_from_the_side_that_won(desk: Desk) -> None:
    clash(desk)
    desk.repo.merge("dev", "main", "dest-wins")
    assert desk.ids("main") == [2, 4, 5]
    desk.change("dev", append(6))
    desk.repo.merge("dev", "main")
    assert desk.ids("main") == [2, 4, 5, 6]
    desk.repo.merge("main", "dev")
    assert desk.ids("dev") == [2, 4, 5, 6]


@pytest.mark.parametrize("strategy", WINNERS)
def test_files_that_the_other_side_has_vacuumed_stay(desk: Desk, strategy: str) -> None:
    """The side that wins still has them in its table."""
    desk.change("dev", delete("id = 1"))
    desk.change("main", delete("id = 1"))
    loser = next(branch for branch in ("dev", "main") if branch != WINNERS[strategy])
    desk.change(loser, delete("id = 2"), vacuum, append(3))
    said, expected = desk.repo.preview_merge("dev", "main", strategy), desk.ids(WINNERS[strategy])
    desk.repo.merge("dev", "main", strategy)
    assert desk.ids("main") == expected
    assert (said.unresolved, said.table_winners) == (0, {TABLE: strategy})


@pytest.mark.parametrize("strategy", WINNERS)
def test_a_table_that_one_side_dropped(desk: Desk, strategy: str) -> None:
    desk.repo.branch("dev").delete_prefix(f"{TABLE}/")
    desk.repo.branch("dev").commit("dropped it")
    desk.change("main", append(4))
    with refused(desk.repo, "source deleted it, and dest changed '_delta_log/.*choose a strategy"):
        desk.repo.merge("dev", "main")
    desk.repo.merge("dev", "main", strategy)
    if strategy == "dest-wins":
        assert desk.ids("main") == [1, 2, 4]
    else:
        assert not any(path.startswith(TABLE) for path in contents(desk.repo, "main"))


@pytest.mark.parametrize("strategy", WINNERS)
def test_a_log_that_does_not_say_enough_is_refused(desk: Desk, strategy: str) -> None:
    clash(desk)
    desk.change("main", checkpoint, clean_log, append(6))
    with refused(desk.repo, r"no longer has.*`restore`"):
        desk.repo.merge("dev", "main", strategy)


def test_a_revert_that_wins_goes_back_to_the_table_before(desk: Desk) -> None:
    wrong = desk.change("main", append(3))
    desk.change("main", optimize)
    (made,) = desk.main.revert(wrong.id, strategy="source-wins")
    assert (desk.ids("main"), log_of(desk.repo, "main")) == ([1, 2], names(0, 1))
    assert made.metadata["sparklake.merge.winners"] == f"{TABLE}=source-wins"


def test_a_revert_that_loses_leaves_the_table(desk: Desk) -> None:
    wrong = desk.change("main", append(3))
    desk.change("main", optimize)
    log = logs(desk, "main")
    desk.main.revert(wrong.id, strategy="dest-wins")
    assert (desk.ids("main"), logs(desk, "main")) == ([1, 2, 3], log)


def test_a_rebase_takes_a_side_commit_by_commit(desk: Desk) -> None:
    desk.change("dev", delete("id = 1"), append(3))
    desk.change("dev", append(4))
    desk.change("main", delete("id = 1"), append(5))
    made = desk.repo.branch("dev").rebase("main", strategy="source-wins")
    assert [desk.ids(each.id) for each in made] == [[2, 3], [2, 3, 4]]
    assert "sparklake.merge.winners" in made[0].metadata


def test_of_a_table_of_chosen_paths_all_is_taken(desk: Desk) -> None:
    clash(desk)
    with refused(desk.repo, "files required by the table"):
        desk.repo.merge("dev", "main", "source-wins", paths=[f"{TABLE}/_delta_log/"])
    desk.repo.merge("dev", "main", "source-wins", paths=[f"{TABLE}/"])
    assert desk.ids("main") == [2, 3]


def test_a_merge_that_loses_a_race_takes_the_table_as_it_has_become(desk: Desk) -> None:
    clash(desk)
    with just_before(MemoryBranches, "move", lambda: desk.change("main", append(7))):
        desk.repo.merge("dev", "main", "dest-wins")
    assert desk.ids("main") == [2, 4, 5, 7]


def changes(first: int) -> st.SearchStrategy[list[Change]]:
    """Draw what one side does to a table of the ids 1 and 2: its own ids begin at a number."""
    some: list[Change] = [
        *(append(each) for each in (first, first + 1)),
        *(delete(f"id = {each}") for each in (1, 2, first)),
        optimize,
        vacuum,
        checkpoint,
    ]
    return st.lists(st.sampled_from(some), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(changes(10), changes(20), st.sampled_from(list(Strategy)))
def test_the_end_is_a_union_or_one_side_or_nothing_moves(
    theirs: list[Change], ours: list[Change], strategy: Strategy
) -> None:
    with memory_folder() as folder:
        desk = desk_on(memory_lake(), folder, 4)
        # So that there always is a commit.
        desk.change("dev", append(30), *theirs)
        desk.change("main", append(31), *ours)
        winner = WINNERS[strategy.value]
        ids, log = desk.ids(winner), logs(desk, winner)
        said = desk.repo.preview_merge("dev", "main", strategy)
        before = (desk.main.head, desk.ids("main"))
        try:
            desk.repo.merge("dev", "main", strategy)
        except MergeConflictError:
            assert said.unresolved > 0
            assert (desk.main.head, desk.ids("main")) == before
            return
        assert said.unresolved == 0
        if said.table_winners:
            assert (desk.ids("main"), logs(desk, "main")) == (ids, log)
        else:
            # What either side appended and did not delete itself is there.
            assert {30, 31} <= set(desk.ids("main"))


def crossed(desk: Desk) -> None:
    """Let branches `x` and `y` merge both sides, so that their merge bases disagree."""
    desk.change("dev", append(3))
    desk.change("main", append(4), append(5))
    for name, first, second in (("x", "dev", "main"), ("y", "main", "dev")):
        desk.repo.create_branch(name, first)
        desk.repo.merge(second, name)


def test_commits_are_merged_over_merge_bases_that_disagree(desk: Desk) -> None:
    crossed(desk)
    before = desk.ids("y")
    assert desk.ids("x") == before
    desk.change("x", append(6), delete("id = 3"))
    desk.change("y", append(7))
    desk.repo.merge("x", "y")
    assert desk.ids("y") == sorted({*before, 6, 7} - {3})
    desk.change("x", append(8))
    desk.repo.merge("y", "x")
    assert desk.ids("x") == sorted({*before, 6, 7, 8} - {3})


@pytest.mark.parametrize("strategy", WINNERS)
def test_one_side_is_taken_over_merge_bases_that_disagree(desk: Desk, strategy: str) -> None:
    crossed(desk)
    desk.change("x", delete("id = 1"), append(6))
    desk.change("y", delete("id = 1"), append(7))
    with refused(desk.repo, r"removed or rewrote .*source-wins drops .*--rule '.*/=rows\(KEY\)'"):
        desk.repo.merge("x", "y")
    taken = desk.ids("x" if strategy == "source-wins" else "y")
    desk.repo.merge("x", "y", strategy)
    assert desk.ids("y") == taken
