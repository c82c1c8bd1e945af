"""Merges of exactly the commits that a preview compared."""

from __future__ import annotations

import pytest

from sparklake import Repository
from sparklake.errors import UnexpectedHeadError
from tests.verbs.merges.test_staged_dest import change, diverged


def test_merge_needs_the_expected_commits(repo: Repository) -> None:
    main = diverged(repo, {"a": b"0", "b": b"0"}, {"a": b"0", "b": b"1"}, {"a": b"1", "b": b"0"})
    preview = repo.preview_merge("dev", "main")
    pins = {"expect_source": preview.source.id, "expect_dest": preview.dest.id}
    change(main, {}, {"c": b"2"})
    with pytest.raises(UnexpectedHeadError, match=r"'main' is at .* not at"):
        repo.merge("dev", "main", **pins)
    change(repo.branch("dev"), {}, {"d": b"3"})
    pins["expect_dest"] = main.head.id
    with pytest.raises(UnexpectedHeadError, match=r"'dev' is at .* not at"):
        repo.merge("dev", "main", **pins)
    assert main.head.id == pins["expect_dest"]
    pins["expect_source"] = repo.branch("dev").head.id[:12]
    assert repo.merge("dev", "main", **pins).parents[0] == pins["expect_dest"]
