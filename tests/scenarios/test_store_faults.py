"""Every store on a bad line: nothing is lost, and no create is reported as another one's.

An attempt that the client gave up may arrive after all later requests, even after the deletion of
its key. In a lake, such an object is unreferenced, as no key is used again, and the next garbage
collection deletes it. So do these tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest
from botocore.retries import quota

from campaigns.faults.faulty_store import FAULTS, LATE, STALLED, FaultyStore, faulty_store
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects import open_store, remote
from sparklake.stores.objects.s3 import client as s3_client
from sparklake.testing.s3_server import fresh_bucket
from tests.support.gcs_server import fresh_gcs_bucket

WRITERS = 3
ROUND = 40


class Line:
    """A bad line to a store, and a good one for what it should hold."""

    def __init__(self, store: ObjectStore, proxy: FaultyStore) -> None:
        self.store = store
        self.proxy = proxy


def s3_root(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    environment = request.getfixturevalue("s3_env")
    root = f"s3://{fresh_bucket(environment)}/lake"
    return root, "AWS_ENDPOINT_URL", environment["AWS_ENDPOINT_URL"]


def azure_root(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    from sparklake.testing.azurite import fresh_container

    environment = request.getfixturevalue("azure_env")
    variable = "AZURE_STORAGE_ENDPOINT"
    return f"{fresh_container(environment)}/lake", variable, environment[variable]


def google_root(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    endpoint, buckets = request.getfixturevalue("gcs_double")
    request.getfixturevalue("gcs_env")
    return f"{fresh_gcs_bucket(buckets)}/lake", "STORAGE_EMULATOR_HOST", endpoint


STORES = {"s3": s3_root, "azure": azure_root, "google": google_root}


@pytest.fixture(params=STORES)
def line(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    root, variable, endpoint = STORES[request.param](request)
    monkeypatch.setenv("SPARKLAKE_BUCKET_READ_SECONDS", "0.5")
    monkeypatch.delenv("AWS_MAX_ATTEMPTS", raising=False)
    monkeypatch.setattr(remote, "PAUSES", (0.02, 0.05, *(0.1,) * 10))
    for client in (remote, s3_client):
        monkeypatch.setattr(client, "_SILENT_ATTEMPTS", 12)
    monkeypatch.setattr(s3_client, "_ATTEMPTS", 12)
    # So many faults would use up botocore's quota of retries, which ends them.
    monkeypatch.setattr(quota, "RetryQuota", partial(quota.RetryQuota, 1_000_000))
    with faulty_store(endpoint, rate=0.15, seed=3) as proxy:
        proxy.stall_seconds = 0.8
        proxy.kinds = (*FAULTS, STALLED)
        monkeypatch.setenv(variable, proxy.endpoint)
        yield Line(open_store(root), proxy)


def race(store: ObjectStore, number: int, chance: Random) -> tuple[str, bytes]:
    """Let writers race for one key; return it and the content of the winner."""
    key = f"data/{number % 7}/{number:05}"
    sizes = [chance.choice([0, 1, 100, 70_000]) for _ in range(WRITERS)]
    bodies = [b"%d" % writer + bytes([number % 251]) * size for writer, size in enumerate(sizes)]
    with ThreadPoolExecutor(WRITERS) as pool:
        wins = list(pool.map(lambda body: store.put_if_absent(key, body), bodies))
    assert wins.count(True) == 1, (key, wins)
    return key, bodies[wins.index(True)]


def listed(store: ObjectStore) -> dict[str, int]:
    return {each.key: each.size for each in store.list()}


def check(store: ObjectStore, objects: dict[str, bytes], folder: Path, gone: set[str]) -> None:
    """Read everything in every way, after deleting what late creates brought back."""
    sizes = listed(store)
    while late := sizes.keys() & gone:
        list(map(store.delete, late))
        sizes = listed(store)
    assert sizes == {key: len(body) for key, body in objects.items()}
    assert [each[:] for each in store.get_many([*objects])] == [*objects.values()]
    for number, (key, body) in enumerate(objects.items()):
        if number % 4 == 0:
            store.get_to_file(key, folder / "copy")
            assert (folder / "copy").read_bytes() == body
            (folder / "copy").unlink()
        else:
            part = store.get_part(key, 1, 50)
            assert (part.body, part.size) == (body[1:50], len(body))


def bear(line: Line, folder: Path, least: int) -> Counter[str]:
    """Write, read and delete until enough answers were spoilt."""
    store, chance, objects, number = line.store, Random(5), dict[str, bytes](), 0
    gone = set[str]()
    while line.proxy.spoilt.total() < least:
        with ThreadPoolExecutor(8) as pool:
            numbers = range(number, number + ROUND)
            objects.update(pool.map(lambda each: race(store, each, Random(each)), numbers))
            number += ROUND
            deleted = chance.sample(sorted(objects), ROUND // 2)
            list(pool.map(store.delete, deleted))
        for key in deleted:
            del objects[key]
        gone.update(deleted)
        check(store, objects, folder, gone)
    return line.proxy.spoilt


@pytest.mark.system
def test_nothing_is_lost(line: Line, tmp_path: Path) -> None:
    assert set(bear(line, tmp_path, 40)) == {*FAULTS, STALLED}


@pytest.mark.system
def test_a_create_that_arrives_after_the_deletion(line: Line) -> None:
    """It was tried again in time, so it brings the object back: with its content, until deleted."""
    store, key, body = line.store, "data/late", b"once"
    line.proxy.aim(LATE)
    assert store.put_if_absent(key, body)
    store.delete(key)
    assert listed(store) == {}
    line.proxy.release()
    assert listed(store) == {key: len(body)}
    assert not store.put_if_absent(key, b"another")
    assert store.get(key) == body
    store.delete(key)
    assert listed(store) == {}


@pytest.mark.system
def test_a_create_that_arrives_late_replaces_nothing(line: Line) -> None:
    store, key = line.store, "data/late"
    line.proxy.aim(LATE)
    assert store.put_if_absent(key, b"once")
    store.delete(key)
    assert store.put_if_absent(key, b"other")
    line.proxy.release()
    assert store.get(key) == b"other"


@pytest.mark.system
def test_a_replacement_that_arrives_late_changes_nothing(line: Line) -> None:
    """Such as of the manifest of a refs dump: the older one would restore older refs."""
    store, key = line.store, "_lakefs/refs_manifest.json"
    line.proxy.aim(None)
    store.replace(key, b"first")
    line.proxy.aim(LATE, first=2)  # The first request is a lookup.
    store.replace(key, b"second")
    assert store.get(key) == b"second", "it was tried again in time"
    store.replace(key, b"third")
    line.proxy.release()
    assert store.get(key) == b"third"


@pytest.mark.exhaustive
def test_nothing_is_lost_in_500_faults(line: Line, tmp_path: Path) -> None:
    assert bear(line, tmp_path, 500).total() >= 500
