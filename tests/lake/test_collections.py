"""Garbage collections: what they take and what they leave, alone and beside others."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from sparklake import Lake, Repository
from tests.support.lakes import commit_all, contents, namespace_of

NO_GRACE = timedelta()


def objects_of(repository: Repository) -> set[str]:
    """Returns the addresses, in the namespace, of all objects that are there."""
    root = namespace_of(repository)
    return {str(each.relative_to(root)) for each in (root / "data").rglob("*") if each.is_file()}


def test_what_nothing_names_goes(lake: Lake, tmp_path: Path) -> None:
    repo = lake.create_repository("repo", str(tmp_path / "ns"))
    main = repo.branch("main")
    commit_all(main, {"a": b"1", "b": b"2"}, "first")
    main.put("a", b"3")
    main.reset()
    main.put("c", b"4")
    main.put("c", b"5")
    before = objects_of(repo)
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE)
    assert objects_of(repo) == before
    assert (found.run.objects, found.run.bytes, found.run.objects_listed) == (2, 2, 5)
    done = repo.collect_garbage(grace=NO_GRACE)
    assert done.run.state == "swept"
    gone = before - objects_of(repo)
    assert (
        gone
        == {each.path for each in repo.garbage(done.run.id)}
        == {each.path for each in found.sample}
    )
    assert contents(repo, "main") == {"a": b"1", "b": b"2", "c": b"5"}
    assert repo.collect_garbage(grace=NO_GRACE).run.objects == 0
