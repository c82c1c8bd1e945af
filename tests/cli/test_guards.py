"""Protection, read-only repositories, labels, hidden branches and expiry on the command line."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from sparklake.cli.parsing import duration
from sparklake.errors import InvalidInputError
from tests.cli.running import Scene, failed, ok, run, said
from tests.support.cases import for_each


def test_branches_are_protected(scene: Scene) -> None:
    uri, main = scene.uri(), scene.uri("main")
    scene.commit("main", {"a": "1"})
    everything = ["commit", "delete", "reset", "stage"]
    assert said("protect", "list", uri) == []
    made = said("protect", "add", uri, "main", "release-*")
    assert made == [{"pattern": each, "blocked": everything} for each in ("main", "release-*")]
    assert said("branch", "list", uri)[0]["protected"] == everything
    assert ok("branch", "list", uri).splitlines()[1].split()[-1] == "protected"
    assert "protected against 'stage'" in failed(11, "put", "-", scene.uri("main", "b"), stdin=b"1")
    assert said("protect", "add", uri, "main", "--block", "delete", "--block", "reset") == [
        {"pattern": "main", "blocked": ["delete", "reset"]},
        made[1],
    ]
    scene.commit("main", {"a": "2"})
    assert "protected against 'reset'" in failed(11, "op", "undo", main)
    lines = ok("protect", "list", uri).splitlines()
    assert [each.split() for each in lines[:2]] == [
        ["pattern", "blocked"],
        ["main", "delete,", "reset"],
    ]
    assert "the rule with the pattern" in failed(13, "protect", "remove", uri, "main", "nothing")
    assert said("protect", "remove", uri, "main") == [made[1]]
    assert "matches no branch" in failed(2, "protect", "add", uri, "a/*")
    assert run("protect", "add", uri, "a", "--block", "merge").code == 2
    assert said("protect", "list", uri) == [made[1]]


def test_a_repository_is_read_only_and_has_labels(scene: Scene) -> None:
    uri, at = scene.uri(), scene.uri("main", "a")
    scene.commit("main", {"a": "1"})
    shown = said("repo", "show", uri)
    assert (shown["read_only"], shown["metadata"]) == (False, {})
    made = said("repo", "set", uri, "--read-only", "--meta", "owner=joe", "--meta", "tier=gold")
    assert made == {**shown, "read_only": True, "metadata": {"owner": "joe", "tier": "gold"}}
    assert said("repo", "show", uri) == made
    assert made in said("repo", "list")
    assert "read-only" in failed(11, "rm", at)
    assert "read-only" in failed(11, "repo", "delete", "--yes", uri)
    lines = ok("repo", "set", uri, "--unset", "tier").splitlines()
    assert lines[0] == f"{uri} (read-only)"
    assert lines[-1].split() == ["owner", "=", "joe"]
    assert "the label 'tier' does not exist" in failed(
        13, "repo", "set", uri, "--writable", "--unset", "tier"
    )
    assert "--read-only and --writable" in failed(
        2, "repo", "set", uri, "--writable", "--read-only"
    )
    assert "choose what to set" in failed(2, "repo", "set", uri)
    assert said("repo", "set", uri, "--writable")["read_only"] is False
    ok("rm", at)


def test_a_merge_by_force_changes_a_read_only_repository(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    dev, main = scene.branch("dev"), scene.uri("main")
    scene.commit("dev", {"b": "2"})
    ok("repo", "set", scene.uri(), "--read-only")
    assert "read-only" in failed(11, "merge", dev, main)
    made = said("merge", dev, main, "--force")
    assert said("log", main, "--amount", "1")[0]["id"] == made["id"]
    assert said("repo", "show", scene.uri())["read_only"] is True


def test_a_repository_is_born_read_only_and_deleted_by_force(tmp_path: Path, dsn: str) -> None:
    lake, uri = ("--dsn", dsn), "lakefs://born"
    words = ("--read-only", "--meta", "owner=joe")
    made = said(*lake, "repo", "create", uri, str(tmp_path / "1"), *words)
    assert (made["read_only"], made["metadata"]) == (True, {"owner": "joe"})
    assert ok(*lake, "repo", "list").splitlines()[1].endswith("read-only")
    failed(11, *lake, "repo", "delete", "--yes", uri)
    assert said(*lake, "repo", "delete", "--yes", uri, "--force")["deleted"] is True


def test_hidden_branches_and_their_expiry(scene: Scene) -> None:
    uri, main = scene.uri(), scene.uri("main")
    scene.commit("main", {"a": "1"})
    words = ("--source", main, "--hidden", "--expires", "7d")
    made = said("branch", "create", scene.uri("secret"), *words)
    assert (made["hidden"], made["expired"]) == (True, False)
    assert abs(made["expires"] - time.time() - 7 * 86400) < 600
    assert [each["name"] for each in said("branch", "list", uri)] == ["main"]
    listed, hidden = said("branch", "list", uri, "--all")
    assert [listed] == said("branch", "list", uri)
    assert hidden == {**made, "head": hidden["head"]}
    line = ok("branch", "list", uri, "--all").splitlines()[2]
    assert "hidden, expires 20" in line
    assert said("branch", "set", scene.uri("secret"), "--never")["expires"] is None
    assert "expires at 20" in ok("branch", "set", scene.uri("secret"), "--expires", "30m")
    secret = scene.uri("secret")
    assert "either --expires" in failed(2, "branch", "set", secret)
    assert "either --expires" in failed(2, "branch", "set", secret, "--never", "--expires", "1d")
    assert "is not a duration" in failed(2, "branch", "set", secret, "--expires", "soon")
    assert "cannot expire" in failed(11, "branch", "set", main, "--expires", "1d")
    assert said("branch", "prune", uri) == []
    pruned = run("branch", "prune", uri, "--dry-run")
    assert (pruned.code, "0 branches would be deleted" in pruned.err) == (0, True)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(days=14)),
    ],
)
def test_time_spans(text: str, span: timedelta) -> None:
    assert duration(text) == span


@for_each("text", ["", "7", "d", "-1d", "1.5h", "7 d", "7D", "9" * 9 + "w", "\u0667d"])
def test_what_is_no_time_span(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a duration"):
        duration(text)
