"""Reverts of commits to Delta tables whose logs are written by hand, and merges after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake.errors import NoChangesError
from tests.support.delta_desks import refused
from tests.support.table_pairs import Pair, parted
from tests.support.written_tables import Action, WrittenTable, add, created, marked, remove


@pytest.fixture
def pair(folder: Path) -> Pair:
    return parted(folder)


OLD, NEW = marked("old"), marked("new")

REWRITES: dict[str, list[list[Action]]] = {
    "update": [[remove("f1"), add("g")]],
    "merge": [[remove("f1"), add("g"), add("n")]],
    "merge of both": [[remove("f1"), remove("f2"), add("g")]],
    "delete": [[remove("f1")]],
    "update twice": [[remove("f1"), add("g")], [remove("g"), add("h")]],
    "restated between": [
        [remove("f1"), add("g")],
        [add("g", dataChange=False, tags={"n": "2"})],
        [remove("g"), add("h")],
    ],
    "mark": [[remove("f1"), add("f1", **NEW)]],
    "mark twice": [[remove("f1"), add("f1", **OLD)], [remove("f1", **OLD), add("f1", **NEW)]],
}
"""What a lake commit does to a table after the file f1 was added to it once more."""

RESTATED = add("f1", dataChange=False, stats='{"numRecords": 1}')


def restated_and(table: WrittenTable, rewrite: str) -> str:
    """Commit statistics of f1, and then a rewrite of it, as one commit of the lake."""
    table.change(RESTATED)
    for actions in REWRITES[rewrite]:
        table.change(*actions)
    return table.commit()


def grown(table: WrittenTable, name: str) -> str:
    table.change(add(name))
    return table.commit()


# --- a file that was there, is added once more, and goes ------------------------------------------


@pytest.mark.parametrize("rewrite", REWRITES)
def test_what_was_restated_and_rewritten_comes_back(pair: Pair, rewrite: str) -> None:
    wrong = restated_and(pair.main, rewrite)
    grown(pair.main, "later")
    before = pair.main.state().latest
    (made,) = pair.repo.branch("main").revert(wrong)
    state = pair.main.state()
    assert (state.files, state.lost) == ({"f1", "f2", "later"}, frozenset())
    assert (state.latest, state.hole) == (before + 1, None)
    with pytest.raises(NoChangesError):
        pair.repo.branch("main").revert(wrong)
    # Once more there and back.
    pair.repo.branch("main").revert(made.id)
    assert pair.main.state().files == pair.main.state(f"{wrong}").files | {"later"}
    pair.repo.branch("main").revert("main")
    assert pair.main.state().files == {"f1", "f2", "later"}
    assert not pair.main.state().lost


def test_a_marked_file_that_was_restated_and_marked_anew_comes_back(pair: Pair) -> None:
    """A file is told by its path and by its deletion vector."""
    pair.main.change(remove("f1"), add("f1", **OLD))
    pair.main.commit()
    pair.main.change(add("f1", dataChange=False, stats='{"numRecords": 1}', **OLD))
    pair.main.change(remove("f1", **OLD), add("f1", **NEW))
    wrong = pair.main.commit()
    grown(pair.main, "later")
    pair.repo.branch("main").revert(wrong)
    state = pair.main.state()
    assert (state.files, state.lost) == ({"f1#old", "f2", "later"}, frozenset())


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("forked", ["before", "after"])
@pytest.mark.parametrize("source", ["dev", "main"])
def test_a_branch_that_reverted_it_is_merged(
    folder: Path, rewrite: str, forked: str, source: str
) -> None:
    pair = parted(folder)
    sides = {"dev": pair.dev, "main": pair.main}
    table, other = sides.pop(source), *sides.values()
    wrong = restated_and(table, rewrite)
    if forked == "after":
        pair.repo.branch(other.branch).hard_reset(source)
    grown(other, "o")
    grown(table, "later")
    pair.repo.branch(source).revert(wrong)
    pair.repo.merge(source, other.branch)
    state = other.state()
    assert (state.files, state.lost) == ({"f1", "f2", "later", "o"}, frozenset())


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_branch_that_reverted_what_dest_has_picked_is_merged(pair: Pair, rewrite: str) -> None:
    wrong = restated_and(pair.dev, rewrite)
    grown(pair.main, "m")
    pair.repo.branch("main").cherry_pick(wrong)
    grown(pair.dev, "later")
    pair.repo.branch("dev").revert(wrong)
    pair.repo.merge("dev", "main")
    state = pair.main.state()
    assert (state.files, state.lost) == ({"f1", "f2", "later", "m"}, frozenset())


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_merge_that_brought_it_is_reverted(pair: Pair, rewrite: str) -> None:
    restated_and(pair.dev, rewrite)
    grown(pair.main, "m")
    merged = pair.repo.merge("dev", "main")
    grown(pair.main, "later")
    pair.repo.branch("main").revert(merged.id, parent_number=1)
    state = pair.main.state()
    assert (state.files, state.lost) == ({"f1", "f2", "later", "m"}, frozenset())


def test_statistics_alone_go_back(pair: Pair) -> None:
    """Wrong ones would let readers skip the file."""
    pair.main.change(RESTATED)
    wrong = pair.main.commit()
    grown(pair.main, "later")
    pair.repo.branch("main").revert(wrong)
    assert pair.main.state().files == {"f1", "f2", "later"}
    assert "stats" not in pair.main.last("f1")


def test_statistics_that_were_taken_anew_since_stay(pair: Pair) -> None:
    pair.main.change(RESTATED)
    wrong = pair.main.commit()
    pair.main.change(add("f1", dataChange=False, stats='{"numRecords": 2}'))
    pair.main.commit()
    pair.repo.branch("main").revert(wrong)
    assert pair.main.last("f1")["stats"] == '{"numRecords": 2}'


def test_statistics_bring_no_file_back_that_was_deleted_since(pair: Pair) -> None:
    pair.main.change(RESTATED)
    restated = pair.main.commit()
    pair.main.change(remove("f1"))
    pair.main.commit()
    main = pair.repo.branch("main")
    (made,) = main.revert(restated)
    assert pair.main.state().files == {"f2"}
    with refused(pair.repo, "dest removed files that source added again: f1"):
        main.cherry_pick(restated)
    main.revert(made.id)
    assert pair.main.state().files == {"f2"}


# --- the log of a head that is reverted grows -----------------------------------------------------


@pytest.mark.parametrize("range_records", [1, 2, 3, 4096])
@pytest.mark.parametrize("rewrite", REWRITES)
def test_the_revert_of_a_head_adds_a_commit(folder: Path, range_records: int, rewrite: str) -> None:
    """Whoever has read the log so far goes on from there, and misses nothing."""
    pair = parted(folder, range_records)
    pair.main.change({"txn": {"appId": "stream", "version": 1}}, add("s"))
    wrong = restated_and(pair.main, rewrite)
    before, log = pair.main.state(), pair.main.bodies()
    (made,) = pair.repo.branch("main").revert("main")
    state = pair.main.state()
    assert (state.files, state.lost) == ({"f1", "f2"}, frozenset())
    assert (state.latest, state.hole) == (before.latest + 1, None)
    assert pair.main.bodies()[:-1] == log
    assert made.metadata["sparklake.merge.tables"] == "tables/t"
    # The next writer takes a version that nobody has read.
    pair.main.change(add("next"))
    assert pair.main.state().latest == before.latest + 2
    assert pair.main.commit() != wrong


@pytest.mark.parametrize("range_records", [1, 2, 3, 4096])
def test_the_revert_of_what_others_did_not_touch_adds_a_commit(
    folder: Path, range_records: int
) -> None:
    """Dest has changed other objects since, maybe none in the ranges of the log."""
    pair = parted(folder, range_records)
    pair.main.change(remove("f1"), add("g"))
    wrong = pair.main.commit()
    for name in ("aa", "zz"):
        pair.repo.branch("main").put(name, b"other")
    pair.repo.branch("main").commit("something else")
    pair.repo.branch("main").revert(wrong)
    state = pair.main.state()
    assert (state.latest, state.files, state.lost) == (3, {"f1", "f2"}, frozenset())


def test_a_branch_of_a_head_that_was_reverted_is_merged(pair: Pair) -> None:
    """Once this was refused: source rewrote the table's history."""
    grown(pair.dev, "wrong")
    pair.repo.merge("dev", "main")
    pair.repo.branch("dev").revert("dev")
    grown(pair.dev, "d")
    grown(pair.main, "m")
    pair.repo.merge("dev", "main")
    assert pair.main.state().files == {"f1", "f2", "d", "m"}


def test_both_sides_revert_the_same(pair: Pair) -> None:
    pair.repo.branch("main").put("yy", b"1")
    wrong = grown(pair.main, "wrong")
    pair.repo.branch("dev").hard_reset("main")
    for table in (pair.dev, pair.main):
        pair.repo.branch(table.branch).revert(wrong)
        grown(table, table.branch)
    pair.repo.merge("dev", "main")
    state = pair.main.state()
    assert (state.files, state.latest) == ({"f1", "f2", "dev", "main"}, 5)


def test_a_change_of_the_schema_goes_back_with_the_head(pair: Pair) -> None:
    before = pair.main.state().created[-1]
    wider = {"metaData": {**before["metaData"], "configuration": {"some.property": "x"}}}
    pair.main.change(wider, remove("f1"), add("g"))
    pair.main.commit()
    pair.repo.branch("main").revert("main")
    state = pair.main.state()
    assert (state.latest, state.files) == (3, {"f1", "f2"})
    assert state.created[-1] == before


def test_a_protocol_stays_with_the_head(pair: Pair) -> None:
    newer = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}
    pair.main.change(newer, remove("f1"), add("g"))
    pair.main.commit()
    pair.repo.branch("main").revert("main")
    state = pair.main.state()
    assert (state.files, state.created[-1]) == ({"f1", "f2"}, newer)


DOMAIN = {"domainMetadata": {"domain": "d", "configuration": "", "removed": False}}


def test_what_no_commit_undoes_is_a_conflict_that_a_strategy_settles(pair: Pair) -> None:
    pair.main.change(DOMAIN, add("g"))
    pair.main.commit()
    with refused(pair.repo, "changed the table's domainMetadata.*source-wins"):
        pair.repo.branch("main").revert("main")
    (made,) = pair.repo.branch("main").revert("main", strategy="source-wins")
    assert made.metadata["sparklake.merge.winners"] == "tables/t=source-wins"
    assert (pair.main.state().latest, pair.main.state().files) == (1, {"f1", "f2"})


def test_without_a_look_at_logs_a_revert_takes_files_back(pair: Pair) -> None:
    grown(pair.main, "g")
    pair.repo.branch("main").revert("main", unite_tables=False)
    assert pair.main.state().latest == 1


@pytest.mark.parametrize("range_records", [1, 2, 3, 4096])
def test_a_table_that_the_head_created_goes_as_a_whole(folder: Path, range_records: int) -> None:
    pair = parted(folder, range_records)
    before = pair.repo.branch("main").head.meta_range_id
    new = WrittenTable(pair.repo, "main", "tables/new/")
    new.change(*created("new"), add("n"))
    new.commit()
    pair.repo.branch("main").revert("main")
    assert pair.repo.branch("main").head.meta_range_id == before


def test_a_table_that_the_head_dropped_comes_back_as_a_whole(pair: Pair) -> None:
    before = pair.repo.branch("main").head.meta_range_id
    pair.repo.branch("main").delete_prefix(pair.main.folder)
    pair.main.commit()
    pair.repo.branch("main").revert("main")
    assert pair.repo.branch("main").head.meta_range_id == before


def test_a_checkpoint_that_the_head_made_goes(pair: Pair) -> None:
    """No version goes with it."""
    before = pair.repo.branch("main").head.meta_range_id
    pair.main.checkpoint(clean=True)
    pair.main.commit()
    pair.repo.branch("main").revert("main")
    assert pair.repo.branch("main").head.meta_range_id == before


def test_a_head_that_cleaned_the_log_is_not_reverted(pair: Pair) -> None:
    pair.main.change(add("g"))
    pair.main.checkpoint(clean=True)
    pair.main.commit()
    with refused(pair.repo, "no longer has the commits"):
        pair.repo.branch("main").revert("main")


def test_a_picked_commit_takes_no_log_back(pair: Pair) -> None:
    """The commit restored an earlier table on its branch."""
    before = pair.repo.branch("main").head.id
    grown(pair.main, "g")
    pair.repo.branch("dev").hard_reset("main")
    pair.repo.branch("dev").restore(before, [pair.dev.folder])
    picked = pair.dev.commit()
    assert pair.dev.state().latest == 1
    pair.repo.branch("main").cherry_pick(picked)
    state = pair.main.state()
    assert (state.latest, state.files) == (3, {"f1", "f2"})


@pytest.mark.parametrize("verb", ["undo", "hard-reset", "restore"])
def test_verbs_that_take_a_log_back(pair: Pair, verb: str) -> None:
    branch = pair.repo.branch("main")
    before = branch.head
    grown(pair.main, "g")
    if verb == "undo":
        branch.undo()
    elif verb == "hard-reset":
        branch.hard_reset(before.id)
    else:
        branch.restore(before.id, [pair.main.folder])
        branch.commit("restored")
    assert branch.head.meta_range_id == before.meta_range_id


# --- undone undos ---------------------------------------------------------------------------------


def test_what_was_picked_reverted_and_reverted_back_is_there(pair: Pair) -> None:
    grown(pair.dev, "d")
    grown(pair.main, "m")
    main = pair.repo.branch("main")
    (picked,) = main.cherry_pick("dev")
    (reverted,) = main.revert(picked.id)
    grown(pair.main, "between")
    main.revert(reverted.id)
    files = pair.main.state().files
    assert files == {"f1", "f2", "m", "between", "d"}
    latest = pair.main.state().latest
    pair.repo.merge("dev", "main")
    assert (pair.main.state().files, pair.main.state().latest) == (files, latest)
    # And the other way.
    grown(pair.dev, "more")
    pair.repo.merge("main", "dev")
    assert pair.dev.state().files == {*files, "more"}


def test_a_squashed_merge_of_what_was_reverted_is_no_reason_to_bring_it_back(pair: Pair) -> None:
    wrong = grown(pair.dev, "d")
    pair.repo.branch("dev").revert(wrong)
    grown(pair.main, "m")
    pair.repo.merge("dev", "main", squash=True)
    grown(pair.dev, "more")
    pair.repo.merge("dev", "main")
    assert pair.main.state().files == {"f1", "f2", "m", "more"}


@pytest.mark.parametrize("times", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("moved", [False, True])
def test_reverts_of_reverts(pair: Pair, times: int, moved: bool) -> None:
    wrong = restated_and(pair.main, "merge")
    main = pair.repo.branch("main")
    more: set[str] = set()
    for number in range(times):
        if moved:
            more.add(f"more-{number}")
            grown(pair.main, f"more-{number}")
        wrong = main.revert(wrong)[0].id
        state = pair.main.state()
        assert state.files == ({"f1", "f2"} if number % 2 == 0 else {"f2", "g", "n"}) | more
        assert (state.lost, state.hole) == (frozenset(), None)
    pair.repo.merge("main", "dev")
    assert pair.dev.state() == pair.main.state()


def test_a_commit_that_was_made_and_taken_back_is_reverted(pair: Pair) -> None:
    """The merge brought both; nothing of it is left to be undone."""
    wrong = grown(pair.dev, "d")
    pair.repo.branch("dev").revert(wrong)
    grown(pair.dev, "more")
    grown(pair.main, "m")
    merged = pair.repo.merge("dev", "main")
    grown(pair.main, "later")
    pair.repo.branch("main").revert(merged.id, parent_number=1)
    assert pair.main.state().files == {"f1", "f2", "m", "later"}
    pair.repo.branch("main").revert("main")
    assert pair.main.state().files == {"f1", "f2", "m", "later", "more"}
