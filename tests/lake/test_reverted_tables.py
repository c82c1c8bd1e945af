"""Reverts of commits to Delta tables whose logs are written by hand, and merges after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake.errors import NoChangesError
from tests.support.desks import refused
from tests.support.table_pairs import Pair, parted
from tests.support.written_tables import Action, WrittenTable, add, marked, remove


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
    "mark twice": [
        [remove("f1"), add("f1", **OLD)],
        [remove("f1", **OLD), add("f1", **NEW)],
    ],
}
"""Is what a lake commit does to a table after the file f1 was added to it once more."""

RESTATED = add("f1", dataChange=False, stats='{"numRecords": 1}')


def restated_and(table: WrittenTable, rewrite: str) -> str:
    """Commits statistics of f1, and then a rewrite of it, as one commit of the lake."""
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
    with refused(pair.repo, "dest removed files that source added once more: f1"):
        main.cherry_pick(restated)
    main.revert(made.id)
    assert pair.main.state().files == {"f2"}
