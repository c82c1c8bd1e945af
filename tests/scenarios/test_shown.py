"""What notebooks show of results and errors: no internals, and the user's own lines."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from sparklake import Lake, Repository
from sparklake.errors import LakeClosedError, MergeConflictError
from sparklake.testing.lakes import commit_all, postgres_lake


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    repo = any_lake.create_repository(f"r{uuid4().hex}", str(folder / "shown"))
    commit_all(repo.branch("main"), {"a": b"1", "b": b"1"}, "first")
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"a": b"2"}, "on dev")
    commit_all(repo.branch("main"), {"a": b"3"}, "on main")
    return repo


def test_no_result_shows_internals(any_lake: Lake, repo: Repository) -> None:
    results = (
        any_lake,
        repo,
        repo.log("main"),
        repo.blame("main"),
        repo.preview_merge("dev", "main"),
        repo.branch("dev").status(),
    )
    for each in results:
        text, html = repr(each), each._repr_html_()  # type: ignore[attr-defined]
        assert len(text) < 300, text
        assert " object at 0x" not in text
        assert "Context(" not in text
        assert html.startswith("<table>"), html
    assert "on main" in repo.blame("main")._repr_html_()
    assert "conflict_count=1, unresolved=1" in repr(repo.preview_merge("dev", "main"))


def test_a_conflict_shows_the_own_line_and_its_table(repo: Repository) -> None:
    with pytest.raises(MergeConflictError) as raised:
        repo.merge("dev", "main")
    lines = raised.value._render_traceback_()
    assert lines[0].startswith("test_shown.py, line ")
    assert lines[0].endswith('repo.merge("dev", "main")')
    assert lines[1].startswith("MergeConflictError: the merge was not applied: 1 conflicting")
    assert [line.split()[0] for line in lines[2:]] == ["path", "a"]
    assert not any("tenacity" in line or "runner.py" in line for line in lines)


def test_a_closed_lake_says_so(dsn: str) -> None:
    with postgres_lake(dsn) as lake:
        assert repr(lake).startswith("<Lake() at ")
    with pytest.raises(LakeClosedError, match="the lake is closed: open it again"):
        lake.repositories()
    assert "Lake(" in lake._repr_html_()
