"""Garbage collections as Spark jobs, on both kinds of Spark."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sparklake import Repository
from sparklake.testing.lakes import contents, namespace_of

pytestmark = pytest.mark.spark


@pytest.mark.system
@pytest.mark.usefixtures("small_tasks")
def test_what_nothing_names_goes(repo: Repository) -> None:
    main, kept = repo.branch("main"), {}
    for number in range(150):
        path, body = f"kept/{number:03}", b"%d" % number
        main.put(path, body)
        kept[path] = body
    main.commit("kept")
    main.put("staged", b"staged")
    for number in range(150):
        main.put(f"gone/{number:03}", b"gone")
    main.delete_prefix("gone/")
    main.reset("gone/")
    found = repo.collect_garbage(dry_run=True, grace=timedelta())
    assert (found.run.objects, found.run.bytes, found.run.objects_listed) == (150, 600, 301)
    assert repo.garbage(found.run.id).to_df().count() == 150

    main.put("staged", b"again")
    made = repo.collect_garbage(sweep=found.run.id, grace=timedelta())
    # The former object of `staged` is named by a lower layer.
    assert made.run.objects == 150
    assert made.run.state == "swept"
    assert contents(repo, "main") == {**kept, "staged": b"again"}
    left = [each for each in (namespace_of(repo) / "data").rglob("*") if each.is_file()]
    assert len(left) == 152
