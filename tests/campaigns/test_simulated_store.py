"""The simulated object store fulfils the contract of object stores."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from campaigns.simulator.store import PAGE_KEYS, Bucket, SimulatedStore, simulated_buckets
from sparklake.testing.object_store import ObjectStoreContract, keys


@pytest.fixture
def store() -> Iterator[SimulatedStore]:
    bucket = Bucket(time.time_ns)
    with simulated_buckets({"lake": bucket}):
        yield SimulatedStore(bucket, "lake", "some/place")


class TestSimulatedStore(ObjectStoreContract):
    pass


def test_a_listing_is_not_a_snapshot(store: SimulatedStore) -> None:
    for number in range(2 * PAGE_KEYS):
        store.put_if_absent(f"data/{number}", b"")
    listing = store.list("data/")
    first = next(listing)
    store.put_if_absent("data/9", b"")
    store.delete(f"data/{PAGE_KEYS}")
    listed = [first.key, *(each.key for each in listing)]
    assert listed == [each for each in keys(store) if each != "data/x"]


def test_stores_with_different_prefixes_are_separate(store: SimulatedStore) -> None:
    store.put_if_absent("x", b"body")
    assert keys(SimulatedStore(store.bucket, "lake", "some/plac")) == []
    assert keys(SimulatedStore(store.bucket, "lake")) == ["some/place/x"]
