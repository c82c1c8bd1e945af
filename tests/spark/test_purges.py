"""Purges by Spark tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake import Repository
from sparklake.errors import PurgeBlockedError, PurgedError
from sparklake.testing.lakes import commit_all

pytestmark = pytest.mark.spark


def test_spark_purges_what_is_named_in_history(repo: Repository, namespace: Path) -> None:
    main = repo.branch("main")
    commit_all(main, {f"users/{number:02}": b"%d" % number for number in range(40)}, "users")
    main.copy("users/07", "kept")
    main.commit("a copy")
    with pytest.raises(PurgeBlockedError, match="users/07"):
        repo.purge(["users/*"], commit=True)
    assert len(list((namespace / "data").iterdir())) == 40
    made = repo.purge(["users/1?", "users/0?"], commit=True, include_shared=True)
    assert (made.counts.addresses, made.counts.shared) == (20, 1)
    assert len(list((namespace / "data").iterdir())) == 20
    with pytest.raises(PurgedError):
        repo.read_bytes("main~1", "users/12")
