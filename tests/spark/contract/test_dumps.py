"""Reads of addresses for dumps and restores, as Spark jobs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparklake import Repository
from sparklake.verbs.dumps.addresses import find_refused

pytestmark = pytest.mark.spark


def every_address(addresses: pa.StringArray) -> pa.BooleanArray:
    return pa.array([True] * len(addresses))


@pytest.mark.usefixtures("small_tasks")
def test_tasks_find_refused_addresses(repo: Repository) -> None:
    paths = [f"k/{number:03}" for number in range(150)]
    columns = {
        "path": paths,
        "size": [1] * 150,
        "address": [f"file:///elsewhere/{each}" for each in paths],
        "checksum": [f"{number:032x}" for number in range(150)],
    }
    repo.branch("main").stage(pa.table(columns))
    repo.branch("main").commit("objects")
    context = repo._context
    refused = find_refused(context, context.refs.snapshot(), every_address, "dump")
    assert refused == (150, "'k/000' at local:///elsewhere/k/000")
