"""The contract of idempotency keys in ref stores: a change and its record take effect together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from sparklake.errors import (
    AlreadyExistsError,
    IdempotencyKeyInUseError,
    RaceLostError,
    RepositoryNotFoundError,
)
from sparklake.graveler.keys import Interval
from sparklake.graveler.ports import BranchMove, LayerCut, RefStore, RepositoryRefs, TagInfo
from sparklake.graveler.ports.once import OnceRecord
from tests.stores.refs.contract import NOWHERE, RUN, a_record, at_once, staged
from tests.stores.refs.histories import FIRST, a_commit, a_repository, new_refs

WHO = "ann"
ODD = {"count": 3, "paths": ["a\0b", "\udc80", "ü"], "nothing": None}
"""A result with characters that some columns of Postgres refuse."""


def once(key: str = "k", run: str = "run", days: float = 1) -> OnceRecord:
    return OnceRecord(key, f"digest of {key}", run, ODD, timedelta(days=days))


def move(refs: RepositoryRefs, record: OnceRecord | None) -> None:
    commit, head = a_commit(), refs.branches.find("main")
    assert head is not None
    refs.branches.move(
        BranchMove(
            "main", head.commit_id, commit.id, "commit", WHO, (commit,), fence=0, once=record
        )
    )


def drop(refs: RepositoryRefs, record: OnceRecord | None) -> None:
    cut = LayerCut((Interval(b"z", None),))
    refs.staging.drop("main", refs.staging.seal("main"), cut, RUN, fence=0, once=record)


CHANGES: dict[str, Callable[[RepositoryRefs, OnceRecord | None], object]] = {
    "move": move,
    "put": lambda refs, record: refs.staging.put("main", [a_record(b"k")], fence=0, once=record),
    "put of nothing": lambda refs, record: refs.staging.put("main", [], fence=0, once=record),
    "add_run": lambda refs, record: refs.staging.add_run("main", RUN, fence=0, once=record),
    "drop": drop,
    "create a branch": lambda refs, record: refs.branches.create("new", FIRST.id, WHO, once=record),
    "create a tag": lambda refs, record: refs.tags.create(
        TagInfo("new", FIRST.id), WHO, once=record
    ),
}

FAILURES: dict[str, Callable[[RepositoryRefs, OnceRecord], object]] = {
    "move": lambda refs, record: refs.branches.move(
        BranchMove("main", NOWHERE, FIRST.id, "commit", WHO, fence=0, once=record)
    ),
    "put": lambda refs, record: refs.staging.put("main", [a_record(b"k")], fence=7, once=record),
    "add_run": lambda refs, record: refs.staging.add_run("main", RUN, fence=7, once=record),
    "create a branch": lambda refs, record: refs.branches.create(
        "main", FIRST.id, WHO, once=record
    ),
}


def looks(refs: RepositoryRefs) -> tuple[object, ...]:
    return refs.snapshot(), staged(refs), [each.verb for each in refs.operations.list()]


class OnceContract:
    """The shared tests; subclasses provide the fixture `store`, which is empty."""

    @pytest.fixture
    def refs(self, store: RefStore) -> RepositoryRefs:
        return new_refs(store)

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_change_and_its_record_take_effect_together(
        self, refs: RepositoryRefs, name: str
    ) -> None:
        before = looks(refs)
        assert refs.once_keys.find("k") is None
        CHANGES[name](refs, once())
        record = refs.once_keys.find("k")
        assert record is not None
        assert (record.key, record.digest, record.run) == ("k", "digest of k", "run")
        assert record.result == ODD
        assert timedelta() < record.lifetime <= timedelta(days=1)
        after = looks(refs)
        assert (after == before) is (name == "put of nothing")

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_change_with_a_recorded_key_is_rejected(
        self, refs: RepositoryRefs, name: str
    ) -> None:
        refs.once_keys.add(once(run="first"))
        if name == "drop":
            refs.staging.seal("main")
        before = looks(refs)
        with pytest.raises(IdempotencyKeyInUseError, match="'k'"):
            CHANGES[name](refs, once(run="second"))
        assert looks(refs) == before
        record = refs.once_keys.find("k")
        assert record is not None
        assert record.run == "first"

    @pytest.mark.parametrize("name", FAILURES)
    def test_a_failed_change_records_nothing(self, refs: RepositoryRefs, name: str) -> None:
        with pytest.raises((RaceLostError, AlreadyExistsError)):
            FAILURES[name](refs, once())
        assert refs.once_keys.find("k") is None

    @pytest.mark.parametrize("name", CHANGES)
    def test_one_of_concurrent_runs_with_a_key_takes_effect(
        self, refs: RepositoryRefs, name: str
    ) -> None:
        def run(number: int) -> object:
            CHANGES[name](refs, once(run=f"run {number}"))
            return number

        results = at_once(4, run)
        (winner,) = (each for each in results if isinstance(each, int))
        record = refs.once_keys.find("k")
        assert record is not None
        assert record.run == f"run {winner}"

    def test_an_expired_key_can_be_used_again_and_is_cleaned_up(self, refs: RepositoryRefs) -> None:
        for key in ("a", "b"):
            refs.once_keys.add(once(key, days=-1))
            assert refs.once_keys.find(key) is None
        refs.staging.put("main", [a_record(b"k")], fence=0, once=once("a", run="again"))
        record = refs.once_keys.find("a")
        assert record is not None
        assert record.run == "again"
        assert refs.once_keys.find("b") is None

    def test_keys_belong_to_one_repository(self, store: RefStore) -> None:
        refs, info = new_refs(store), a_repository("other")
        store.create_repository(info, FIRST, WHO)
        others = store.refs(info.uid)
        refs.once_keys.add(once())
        assert others.once_keys.find("k") is None
        others.once_keys.add(once())
        store.delete_repository("other")
        assert others.once_keys.find("k") is None
        with pytest.raises(RepositoryNotFoundError):
            others.once_keys.add(once())
        assert refs.once_keys.find("k") is not None

    def test_one_run_at_a_time_holds_the_slot_of_a_key(self, refs: RepositoryRefs) -> None:
        with refs.once_keys.turn("k", 0.01) as is_held:
            assert is_held
            with (
                refs.once_keys.turn("k", 0.01) as has_second,
                refs.once_keys.turn("other", 0.01) as has_other,
            ):
                assert (has_second, has_other) == (False, True)
        with refs.once_keys.turn("k", 0.01) as is_held:
            assert is_held
