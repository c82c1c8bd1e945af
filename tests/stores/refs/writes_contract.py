"""What every ref store promises of writes: each stages at most once, whoever believes it dead."""

from __future__ import annotations

import time

import pytest

from sparklake.errors import (
    AlreadyExistsError,
    RaceLostError,
    RepositoryNotFoundError,
    WriteFinishedError,
)
from sparklake.graveler.ports import BranchState, RefStore, RepositoryRefs, Write, WriteState
from tests.stores.refs.contract import RUN, a_record, at_once
from tests.stores.refs.histories import FIRST, a_repository, new_refs

WHO = "ann"


def begin(refs: RepositoryRefs, write_id: str, branch: str = "main") -> Write:
    return refs.writes.begin(write_id, f"data/{write_id}", branch, WHO)


def layers(refs: RepositoryRefs, branch: str = "main") -> int:
    state = refs.branches.find(branch)
    assert state is not None
    return len(state.layers)


class WritesContract:
    """The shared tests; subclasses provide the fixture `store`, which is empty."""

    @pytest.fixture
    def refs(self, store: RefStore) -> RepositoryRefs:
        return new_refs(store)

    def test_a_write_is_recorded_when_it_starts(self, refs: RepositoryRefs) -> None:
        write = begin(refs, "one")
        assert (write.place, write.branch, write.who) == ("data/one", "main", WHO)
        assert write.state is WriteState.OPEN
        assert abs(write.started_at - time.time()) < 60
        assert refs.writes.find("one") == write
        assert refs.writes.find("other") is None
        with pytest.raises(AlreadyExistsError, match="one"):
            begin(refs, "one", "other")
        other = begin(refs, "two", "other")
        assert sorted(refs.writes.list(), key=lambda each: each.id) == [write, other]

    def test_a_write_is_done_when_its_run_is_staged(self, refs: RepositoryRefs) -> None:
        begin(refs, "one")
        run = refs.staging.add_run("main", RUN, write="one", fence=None)
        assert refs.writes.list() == []
        ended = refs.writes.find("one")
        assert ended is not None
        assert ended.state is WriteState.DONE
        with pytest.raises(WriteFinishedError, match="already staged"):
            refs.staging.add_run("main", RUN, write="one", fence=None)
        state = refs.branches.find("main")
        assert state is not None
        assert state.layers == (run,)
        assert refs.writes.abandon(["one"]) == []
        assert refs.writes.find("one") == ended

    def test_an_abandoned_write_stages_nothing(self, refs: RepositoryRefs) -> None:
        first, second, third = (begin(refs, name) for name in ("one", "two", "three"))
        abandoned = refs.writes.abandon(["two", "one", "nothing", "one"])
        assert {each.id for each in abandoned} == {first.id, second.id}
        assert {each.state for each in abandoned} == {WriteState.ABANDONED}
        assert refs.writes.abandon(["one", "two"]) == []
        states = {each.id: each.state for each in refs.writes.list()}
        assert states == {"one": "abandoned", "two": "abandoned", "three": "open"}
        refs.staging.put("main", [a_record(b"k")], fence=None)
        for write in ("one", "nothing"):
            with pytest.raises(WriteFinishedError, match=write):
                refs.staging.add_run("main", RUN, write=write, fence=None)
        state = refs.branches.find("main")
        assert state is not None
        assert [each.sealed for each in state.layers] == [False], "nothing was sealed for it"
        assert refs.writes.find(third.id) == third

    def test_a_write_belongs_to_its_branch(self, refs: RepositoryRefs) -> None:
        refs.branches.create("dev", FIRST.id, WHO)
        begin(refs, "one", "dev")
        with pytest.raises(WriteFinishedError):
            refs.staging.add_run("main", RUN, write="one", fence=None)
        refs.staging.add_run("dev", RUN, write="one", fence=None)
        assert (layers(refs), layers(refs, "dev")) == (0, 1)

    def test_a_write_that_loses_a_race_stays_open(self, refs: RepositoryRefs) -> None:
        begin(refs, "one")
        stale = BranchState("main", FIRST.id)
        refs.staging.put("main", [a_record(b"k")], fence=None)
        with pytest.raises(RaceLostError) as lost:
            refs.staging.add_run("main", RUN, stale, "one", fence=None)
        assert type(lost.value) is RaceLostError
        refs.staging.add_run("main", RUN, refs.staging.seal("main"), "one", fence=None)

    def test_a_write_of_a_suspended_driver_is_staged_once(self, refs: RepositoryRefs) -> None:
        for number in range(20):
            name = f"write-{number}"
            begin(refs, name)
            before = layers(refs)

            def land(turn: int, name: str = name) -> object:
                if turn == 0:
                    return len(refs.writes.abandon([name])) == 1
                refs.staging.add_run("main", RUN, write=name, fence=None)
                return True

            landed = sum(each is True for each in at_once(3, land))
            ended = refs.writes.find(name)
            assert ended is not None
            assert landed == 1
            assert (ended.state is WriteState.DONE) == (layers(refs) == before + 1)

    def test_writes_belong_to_one_repository(self, store: RefStore) -> None:
        refs, info = new_refs(store), a_repository("other")
        store.create_repository(info, FIRST, WHO)
        others = store.refs(info.uid)
        begin(refs, "one")
        begin(others, "one")
        assert refs.writes.abandon(["one"])
        assert [each.state for each in others.writes.list()] == [WriteState.OPEN]
        store.delete_repository("other")
        assert others.writes.list() == []
        with pytest.raises(RepositoryNotFoundError):
            begin(others, "two")
