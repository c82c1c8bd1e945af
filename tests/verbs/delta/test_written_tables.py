"""Merges of Delta tables whose logs are written by hand: what writers do seldom, and at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklake import Repository
from sparklake.errors import (
    CorruptFileError,
    MergeConflictError,
    NoChangesError,
    StoreUnreachableError,
)
from sparklake.metadata.delta.file_names import files_of_version, log_listing
from sparklake.metadata.delta.rewrite import to_addresses
from sparklake.testing.folders import memory_folder
from sparklake.verbs.delta.checkpoint_files import log_files
from sparklake.verbs.delta.table_copy import placed_files
from sparklake.verbs.delta.tree_log import TreeLog
from sparklake.verbs.tables.version import open_table
from tests.support.delta_desks import WINNERS, names, refused
from tests.support.table_pairs import Pair, parted, repository
from tests.support.written_tables import WrittenTable, add, created, remove


@pytest.fixture
def pair(folder: Path) -> Pair:
    return parted(folder)


# --- files that are added once more ---------------------------------------------------------------


@pytest.mark.parametrize("strategy", WINNERS)
def test_a_file_added_once_more_and_then_removed_and_vacuumed(pair: Pair, strategy: str) -> None:
    """As by statistics that are computed: its first action on that side is no removal."""
    sides = {"dev": pair.dev, "main": pair.main}
    winner = sides.pop(WINNERS[strategy])
    (loser,) = sides.values()
    winner.change(remove("f2"), add("w2"))
    loser.change(remove("f2"), add("l2"))
    loser.change(add("f1", dataChange=False))
    loser.change(remove("f1"))
    loser.vacuum()
    for each in (winner, loser):
        each.commit()
    expected = winner.state()
    pair.repo.merge("dev", "main", strategy)
    assert pair.main.state() == expected


def test_a_file_that_both_added_once_more_and_dest_rewrote(pair: Pair) -> None:
    pair.dev.change(add("f1", dataChange=False))
    pair.main.change(add("f1", dataChange=False))
    pair.main.change(remove("f1"), add("f1b"))
    for each in (pair.dev, pair.main):
        each.commit()
    pair.refused("dest removed files that source added again: f1")


@pytest.mark.parametrize("later", [False, True])
def test_a_pick_of_a_file_added_once_more_that_dest_does_not_have(pair: Pair, later: bool) -> None:
    """The rows of the file are in dest's file f2, so what replaces it would double them."""
    pair.dev.change(remove("f2"), add("f2b"))
    earlier = [pair.dev.commit()]
    pair.dev.change(add("f2b", dataChange=False))
    if later:
        earlier.append(pair.dev.commit())
    pair.dev.change(remove("f2b"), add("f2c"))
    picked, main = pair.dev.commit(), pair.repo.branch("main")
    words = "never had: f2b" if later else "source re-added files that dest does not have: f2b"
    with refused(pair.repo, f"{words}.*source-wins or dest-wins"):
        main.cherry_pick(picked)
    for strategy, files in (("dest-wins", {"f1", "f2"}), ("source-wins", {"f1", "f2c"})):
        pair.repo.create_branch(strategy, "main").cherry_pick(picked, strategy=strategy)
        assert WrittenTable(pair.repo, strategy).state().files == files
    for each in (*earlier, picked):
        main.cherry_pick(each)
    assert pair.main.state().files == {"f1", "f2c"}


def test_a_pick_of_a_file_added_once_more_twice(pair: Pair) -> None:
    """Dest has it from before the sides parted."""
    for number in range(2):
        pair.dev.change(add("f2", dataChange=False, tags={"n": str(number)}))
        picked = pair.dev.commit()
    pair.repo.branch("main").cherry_pick(picked)
    assert pair.main.state().files == {"f1", "f2"}
    pair.dev.change(remove("f2"), add("f2b"))
    pair.repo.branch("main").cherry_pick(pair.dev.commit())
    assert pair.main.state().files == {"f1", "f2b"}


def test_what_was_picked_and_reverted_is_merged_again(pair: Pair) -> None:
    pair.dev.change(add("d"))
    picked = pair.dev.commit()
    pair.main.change(add("m"))
    pair.main.commit()
    main = pair.repo.branch("main")
    (made,) = main.cherry_pick(picked)
    main.revert(made.id)
    assert pair.main.state().files == {"f1", "f2", "m"}
    pair.repo.merge("dev", "main")
    assert pair.main.state().files == {"f1", "f2", "m", "d"}
    assert not pair.main.state().lost


# --- logs that do not say where the sides parted --------------------------------------------------


def test_another_table_of_as_many_versions_is_not_taken_for_the_same(folder: Path) -> None:
    pair = parted(folder, cleaned=True)
    pair.dev.change(remove("f2"), add("d"))
    pair.dev.commit()
    pair.repo.branch("main").delete_prefix(pair.main.folder)
    pair.main.commit()
    pair.main.change(*created("another"), add("n0"))
    for version in range(1, 4):
        pair.main.change(add(f"n{version}"))
    pair.main.commit()
    for strategy in (None, *WINNERS):
        pair.refused("no longer has the commits where the sides diverged", strategy)


def test_tables_created_on_both_sides_of_which_one_was_cleaned(folder: Path) -> None:
    repo = repository(folder, 3)
    repo.branch("main").put("zz", b"1")
    repo.branch("main").commit("first")
    repo.create_branch("dev", "main")
    pair = Pair(repo, WrittenTable(repo, "main"), WrittenTable(repo, "dev"))
    for table, name in ((pair.main, "m"), (pair.dev, "d")):
        table.change(*created(name), add(f"{name}0"))
        for version in range(1, 4):
            table.change(add(f"{name}{version}"))
    pair.dev.checkpoint(clean=True)
    pair.dev.change(add("d4"))
    pair.main.change(add("m4"))
    for each in (pair.dev, pair.main):
        each.commit()
    for strategy in (None, *WINNERS):
        pair.refused("no longer has the commits where the sides diverged", strategy)


def test_ancestors_that_disagree_on_a_checkpoint_only(folder: Path) -> None:
    pair = parted(folder)
    for table, name in ((pair.dev, "d"), (pair.main, "m")):
        table.checkpoint()
        pair.repo.branch(table.branch).put(f"{table.log}_last_checkpoint", name.encode())
        table.change(add(name))
        table.commit()
    heads = {name: pair.repo.branch(name).head.id for name in ("dev", "main")}
    pair.repo.merge(heads["dev"], "main", "dest-wins")
    pair.repo.merge(heads["main"], "dev", "dest-wins")
    for table, name in ((pair.dev, "d2"), (pair.main, "m2")):
        table.change(add(name))
        table.commit()
    pair.repo.merge("dev", "main")
    state = pair.main.state()
    assert {"d", "m", "d2", "m2"} <= {*state.files}
    assert not state.lost


# --- one side drops, the other goes on ------------------------------------------------------------


@pytest.mark.parametrize("range_records", [1, 2, 3, 4096])
def test_a_table_that_is_dropped_here_and_changed_there(range_records: int) -> None:
    """Ranges end where ids of records say: in some trees the log that goes is in one of its own."""
    for _ in range(8):
        with memory_folder() as folder:
            pair = parted(folder, range_records)
            pair.repo.branch("dev").delete_prefix(pair.dev.folder)
            pair.dev.commit()
            pair.main.change(add("m"))
            pair.main.commit()
            pair.refused("source deleted it, and dest changed")


@pytest.mark.parametrize("range_records", [1, 2, 3, 4096])
def test_a_revert_of_what_created_a_table(range_records: int) -> None:
    for _ in range(8):
        with memory_folder() as folder:
            repo = repository(folder, range_records)
            repo.branch("main").put("zz", b"1")
            repo.branch("main").commit("first")
            table = WrittenTable(repo, "main")
            table.change(*created("t"), add("f1"))
            table.change(remove("f1"), add("f2"))
            first = table.commit()
            table.change(add("f3"))
            table.commit()
            with pytest.raises(MergeConflictError, match="cannot be merged"):
                repo.branch("main").revert(first)


# --- the files of the side that is taken ----------------------------------------------------------


@pytest.mark.parametrize(
    "terms",
    [
        {"strategy": "source-wins", "paths": ["tables/t/_delta_log/"]},
        {"strategy": "dest-wins", "rules": {"tables/t/*/**": "source-wins"}},
        {"strategy": "source-wins", "rules": {"**/*.json": "dest-wins"}},
        {"rules": {"**/*.json": "source-wins"}},
        {"rules": {f"**/{names(2)[0]}": "source-wins", f"**/{names(0)[0]}": "source-wins"}},
    ],
)
def test_no_log_comes_beside_files_of_the_other_side(pair: Pair, terms: dict[str, Any]) -> None:
    for table in (pair.dev, pair.main):
        table.change(remove("f1"), add("same"), body=table.branch.encode())
        table.commit()
    pair.refused("files required by the table|choose a strategy", **terms)


# --- a log that source alone has changed ----------------------------------------------------------


def test_a_revert_brings_back_no_file_that_was_vacuumed(pair: Pair) -> None:
    pair.main.change(remove("f1"), add("f1b"))
    wrong = pair.main.commit()
    pair.main.vacuum(logged=False)
    pair.main.commit()
    with refused(pair.repo, "lacks files required by the table: f1"):
        pair.repo.branch("main").revert(wrong)


def test_a_log_does_not_come_without_its_files_or_in_part(pair: Pair) -> None:
    pair.dev.change(add("d1"))
    pair.dev.change(add("d2"))
    pair.dev.commit()
    pair.repo.branch("main").put("beside", b"1")
    pair.main.commit()
    pair.refused("lacks files required by the table: d1, d2", paths=[pair.dev.log])
    pair.refused("only a part of its log", paths=[f"{pair.dev.log}{names(3)[0]}"])
    pair.repo.merge("dev", "main", paths=[pair.dev.folder])
    assert pair.main.state() == pair.dev.state()


def test_a_part_of_a_table_without_its_log_takes_no_live_file(pair: Pair) -> None:
    pair.dev.change(remove("f1"), add("f1b"))
    pair.dev.vacuum()
    pair.dev.commit()
    for strategy in (None, "source-wins"):
        paths = [f"{pair.dev.folder}{name}" for name in ("f1", "f1b")]
        pair.refused("lacks files required by the table: f1", strategy, paths=paths)
    pair.repo.merge("dev", "main", paths=[f"{pair.dev.folder}f1b"])
    assert not pair.main.state().lost


@pytest.mark.parametrize("range_records", [1, 3, 4096])
def test_the_log_of_a_new_table_does_not_come_without_its_files(
    folder: Path, range_records: int
) -> None:
    """Tasks read the log or not, as ranges happen to be cut."""
    pair = parted(folder, range_records)
    for version in range(2):
        new = WrittenTable(pair.repo, "dev", "new/")
        new.change(*([] if version else created("new")), add(f"n{version}"))
    new.commit()
    pair.repo.branch("main").put("zz", b"2")
    pair.main.commit()
    pair.refused("lacks files required by the table: n0, n1", paths=[new.log])
    pair.repo.merge("dev", "main", paths=["new/"])
    assert new.state("main") == new.state()


def test_of_a_table_that_dest_has_not_touched_nothing_is_read(folder: Path) -> None:
    """But for the names in its log: ranges tell that dest has changed nothing of it."""
    pair = parted(folder, 1)
    pair.dev.change(add("d1"))
    pair.dev.commit()
    pair.repo.branch("main").put("zz", b"2")
    pair.main.commit()
    with mock.patch.object(TreeLog, "body", side_effect=AssertionError("it was read")):
        made = pair.repo.merge("dev", "main")
    assert "sparklake.merge.tables" not in made.metadata
    assert pair.main.state() == pair.dev.state()


@pytest.mark.parametrize("range_records", [1, 4, 16, 64])
@pytest.mark.parametrize("gone", ["f1", "z1"])
def test_a_table_of_many_ranges_is_found_by_their_edges(
    folder: Path, range_records: int, gone: str
) -> None:
    """No task reads the log's range, nor the one of the file that is gone."""
    repo = repository(folder, range_records)
    main = WrittenTable(repo, "main")
    fillers = [add(f"{place}{number:03}") for place in ("A", "m") for number in range(40)]
    main.change(*created("t"), add(gone), *fillers)
    main.commit()
    main.change(remove(gone), add("b1"))
    wrong = main.commit()
    main.vacuum(logged=False)
    main.commit()
    with refused(repo, f"lacks files required by the table: {gone}"):
        repo.branch("main").revert(wrong)


@pytest.mark.parametrize("range_records", [1, 4, 4096])
def test_a_log_that_dest_alone_changed_keeps_its_files(folder: Path, range_records: int) -> None:
    pair = parted(folder, range_records)
    pair.main.change(remove("f1"), add("f1b"))
    pair.main.commit()
    pair.repo.create_branch("other", "main")
    pair.main.change(remove("f1b"), add("f1"))
    pair.main.commit()
    other = WrittenTable(pair.repo, "other")
    other.vacuum(logged=False)
    other.commit()
    with refused(pair.repo, "lacks files required by the table: f1"):
        pair.repo.merge("other", "main")


# --- logs that are cleaned ------------------------------------------------------------------------


@pytest.mark.parametrize("range_records", [1, 2, 3, 4096])
@pytest.mark.parametrize("verb", ["revert", "merge", "drop"])
def test_what_is_taken_back_of_a_log_that_was_cleaned(
    folder: Path, range_records: int, verb: str
) -> None:
    """Neither side has the commit any more: that it is gone is no change between them."""
    pair = parted(folder, range_records)
    pair.main.change(add("a"))
    wrong = pair.main.commit()
    pair.repo.branch("dev").hard_reset("main")
    if verb == "merge":
        pair.repo.branch("dev").revert(wrong)
    elif verb == "drop":
        pair.repo.branch("dev").delete_prefix(pair.dev.folder)
        pair.dev.commit()
    for name in ("m1", "m2"):
        pair.main.change(add(name))
    pair.main.checkpoint(clean=True)
    pair.main.commit()
    if verb != "revert":
        # A strategy takes a dropped table as a whole.
        for strategy in (None, *(WINNERS if verb == "merge" else ())):
            pair.refused("cannot be merged", strategy)
        return
    with refused(pair.repo, "cannot be merged"):
        pair.repo.branch("main").revert(wrong)


def test_a_log_that_cannot_be_read_is_not_taken_where_files_are_gone(pair: Pair) -> None:
    pair.main.change(remove("f1"), add("f1b"))
    pair.main.checkpoint(clean=True)
    wrong = pair.main.commit()
    pair.main.vacuum(logged=False)
    pair.main.commit()
    with refused(pair.repo, "cannot be merged"):
        pair.repo.branch("main").revert(wrong)


def test_files_that_were_long_dead_are_not_looked_for(pair: Pair) -> None:
    """Their removal is in what both sides share; a log may be very long."""
    pair.main.change(remove("f1"), add("f3"))
    pair.main.commit()
    pair.repo.create_branch("other", "main")
    other = WrittenTable(pair.repo, "other")
    other.change(remove("f2"), remove("f3"), add("compact"))
    other.vacuum()
    other.commit()
    pair.main.change(add("m"))
    pair.main.commit()
    with mock.patch.object(TreeLog, "live", side_effect=AssertionError("it was walked")):
        pair.repo.merge("other", "main")
    assert pair.main.state().files == {"compact", "m"}
    assert not pair.main.state().lost


# --- what commits say -----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["cherry-pick", "rebase"])
def test_a_commit_made_once_more_does_not_say_what_another_merge_did(pair: Pair, verb: str) -> None:
    for table, name in ((pair.dev, "d"), (pair.main, "m")):
        table.change(remove("f1"), add(name))
        table.commit()
    repo = pair.repo
    repo.create_branch("other", "dev")
    squashed = repo.merge("main", "other", "source-wins", squash=True)
    assert squashed.metadata["sparklake.merge.winners"] == "tables/t=source-wins"
    repo.create_branch("quiet", "dev")
    repo.branch("quiet").put("zz", b"3")
    repo.branch("quiet").commit("something else")
    if verb == "cherry-pick":
        made = repo.branch("quiet").cherry_pick(squashed.id)
    else:
        made = repo.branch("other").rebase("quiet")
    assert not [key for each in made for key in each.metadata if "sparklake.merge." in key]


# --- at random ------------------------------------------------------------------------------------


@dataclass
class Histories:
    """Changes a table on three branches; a file holds the rows that its name begins with."""

    repo: Repository
    tables: dict[str, WrittenTable]
    made: list[str] = field(default_factory=list)
    number: int = 0
    did: set[Callable[..., None]] = field(default_factory=set)

    @property
    def only_appends(self) -> bool:
        return self.did <= {Histories.append, Histories.merge}

    def fresh(self, rows: str) -> str:
        self.number += 1
        return f"{rows}-{self.number}"

    def other(self, table: WrittenTable, which: int) -> str:
        """Return one of the two other branches."""
        return [name for name in self.tables if name != table.branch][which % 2]

    def append(self, table: WrittenTable, _: int) -> None:
        table.change(add(self.fresh(f"r{self.number}")))

    def rewrite(self, table: WrittenTable, which: int) -> None:
        old = sorted(table.state().files)
        if old:
            name = old[which % len(old)]
            table.change(remove(name), add(self.fresh(name.partition("-")[0])))

    def delete(self, table: WrittenTable, which: int) -> None:
        old = sorted(table.state().files)
        if old:
            table.change(remove(old[which % len(old)]))

    def restate(self, table: WrittenTable, which: int) -> None:
        old = sorted(table.state().files)
        if old:
            table.change(add(old[which % len(old)], dataChange=False, tags={"n": str(which)}))

    def restate_and_rewrite(self, table: WrittenTable, which: int) -> None:
        """Both within one commit of the lake."""
        self.restate(table, which)
        self.rewrite(table, which)

    def revert_last(self, table: WrittenTable, _: int) -> None:
        """Revert the head, which may be a revert."""
        self.repo.branch(table.branch).revert(table.branch, parent_number=1)

    def vacuum(self, table: WrittenTable, _: int) -> None:
        table.vacuum()

    def checkpoint(self, table: WrittenTable, which: int) -> None:
        table.checkpoint(clean=bool(which % 2))

    def drop(self, table: WrittenTable, _: int) -> None:
        self.repo.branch(table.branch).delete_prefix(table.folder)

    def merge(self, table: WrittenTable, which: int) -> None:
        other = self.other(table, which)
        strategy = (None, "source-wins", "dest-wins")[which % 3]
        said = self.repo.preview_merge(other, table.branch, strategy)
        try:
            self.repo.merge(other, table.branch, strategy, squash=which % 4 == 0)
        except MergeConflictError:
            assert said.unresolved
            raise
        assert not said.unresolved
        if table.state(other).created and said.table_winners and strategy == "source-wins":
            assert table.state() == table.state(other)

    def merge_a_part(self, table: WrittenTable, which: int) -> None:
        """Merge the log alone, one file, the table, or all but the table."""
        other = self.other(table, which)
        some = sorted(table.state(other).files)[:1]
        parts = [table.log, *(table.folder + each for each in some), table.folder, "zz"]
        self.repo.merge(other, table.branch, paths=[parts[which % len(parts)]])

    def pick(self, table: WrittenTable, which: int) -> None:
        self.repo.branch(table.branch).cherry_pick(self.made[which % len(self.made)])

    def revert(self, table: WrittenTable, which: int) -> None:
        self.repo.branch(table.branch).revert(self.made[which % len(self.made)])

    def rebase(self, table: WrittenTable, which: int) -> None:
        other = self.other(table, which)
        self.repo.branch(table.branch).rebase(other)


CHANGES = (
    *(Histories.append, Histories.rewrite, Histories.delete, Histories.restate),
    Histories.restate_and_rewrite,
    *(Histories.vacuum, Histories.checkpoint, Histories.drop),
)
VERBS = (
    *(Histories.merge, Histories.merge, Histories.merge_a_part),
    *(Histories.pick, Histories.rebase),
    *(Histories.revert, Histories.revert_last),
)

Step = tuple[str, Callable[[Histories, WrittenTable, int], None], int]


def steps() -> st.SearchStrategy[list[Step]]:
    branch, number = st.sampled_from(["main", "a", "b"]), st.integers(0, 23)
    changed = st.sampled_from([*CHANGES[:5], *CHANGES])
    change, verb = (st.tuples(branch, each, number) for each in (changed, st.sampled_from(VERBS)))
    return st.lists(st.one_of(change, change, verb), min_size=4, max_size=16)


def check_tables(range_records: int, drawn: Sequence[Step]) -> None:
    """Expect after each step that no live file is missing, no commit, and no row there twice."""
    with memory_folder() as folder:
        repo = repository(folder, range_records)
        main = WrittenTable(repo, "main")
        main.change(*created("t"), add("x-0"))
        main.change(add("y-0"))
        repo.branch("main").put("zz", b"1")
        first = main.commit()
        tables = {"main": main}
        for name in ("a", "b"):
            repo.create_branch(name, "main")
            tables[name] = WrittenTable(repo, name)
        histories = Histories(repo, tables, [first])
        for branch, step, which in drawn:
            table = tables[branch]
            if table.state().latest < 0 and step in CHANGES:
                table.change(*created(histories.fresh("t")))
            histories.did.add(step)
            try:
                step(histories, table, which)
                if step in CHANGES:
                    histories.made.append(table.commit())
            except NoChangesError:
                pass
            except MergeConflictError:
                if histories.only_appends:
                    # Of what only grows, nothing is in the way.
                    raise
            state = table.state()
            rows = [each.partition("-")[0] for each in state.files]
            assert (state.hole, state.lost, len(rows)) == (None, frozenset(), len(set(rows)))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 3, 4096]), steps())
def test_no_table_is_broken_or_has_a_row_twice(range_records: int, drawn: list[Step]) -> None:
    check_tables(range_records, drawn)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)  # a failure is made small first
@settings(max_examples=1_000, deadline=None, derandomize=False)
@given(st.sampled_from([1, 2, 3, 4096]), steps())
def test_no_table_is_broken_in_many_histories(range_records: int, drawn: list[Step]) -> None:
    check_tables(range_records, drawn)


# --- checkpoints that are damaged -----------------------------------------------------------------


def test_a_damaged_page_of_a_checkpoint_is_named_by_a_view(pair: Pair) -> None:
    pair.main.checkpoint()
    path = next(each.path for each in pair.repo.objects("main") if "checkpoint" in each.path)
    body = pair.repo.read_bytes("main", path)
    pair.repo.branch("main").put(path, body[:4] + bytes(200) + body[204:])
    with pytest.raises(CorruptFileError, match="in the Delta log of 'tables/t' at 'main' is"):
        pair.repo.view("main", "tables/t", "delta")


def test_a_checkpoint_is_not_called_damaged_if_the_tree_cannot_be_read(
    pair: Pair, folder: Path
) -> None:
    """The errors of a store are OSErrors, as those of pyarrow for damaged footers are."""
    pair.main.checkpoint()
    table = open_table(pair.repo._context, "main", "tables/t")
    log = dict(log_files(table))
    files = files_of_version(log_listing((name, name) for name in log))

    def unreachable(_: object) -> NoReturn:
        raise StoreUnreachableError("the network is down")

    with pytest.raises(StoreUnreachableError):
        list(placed_files(table, log, files, folder, to_addresses(unreachable)))
