"""The jobs that protect, set and prune: they print what the command prints as JSON."""

from __future__ import annotations

from tests.cli.running import Scene, said
from tests.jobs.running import job


def test_protection(scene: Scene) -> None:
    uri = scene.uri()
    made = job(0, "protect add", uri, "main", "b*", "--block", "commit", "--block", "stage")
    assert [each["blocked"] for each in made] == [["commit", "stage"]] * 2
    assert made == job(0, "protect list", uri) == said("protect", "list", uri)
    assert job(11, "put", "-", scene.uri("main", "a"), stdin=b"1")["kind"] == "protected"
    assert job(13, "protect remove", uri, "c*")["kind"] == "not_found"
    assert job(0, "protect remove", uri, "b*", "main") == []
    assert job(2, "protect add", uri, "a b")["kind"] == "invalid_input"
    assert len(job(0, "protect add", uri, "main")[0]["blocked"]) == 4


def test_settings(scene: Scene) -> None:
    uri = scene.uri()
    made = job(0, "repo set", uri, "--read-only", "--meta", "owner=joe")
    assert made == job(0, "repo show", uri) == said("repo", "show", uri)
    assert (made["read_only"], made["metadata"]) == (True, {"owner": "joe"})
    assert job(11, "put", "-", scene.uri("main", "a"), stdin=b"1")["kind"] == "read_only"
    assert job(11, "repo delete", "--yes", uri)["kind"] == "read_only"
    assert job(2, "repo set", uri)["kind"] == "invalid_input"
    assert job(2, "repo set", uri, "--read-only", "--writable")["kind"] == "invalid_input"
    assert job(0, "repo set", uri, "--unset", "owner")["metadata"] == {}
    assert job(0, "repo delete", "--yes", uri, "--force")["deleted"] is True


def test_expiry(scene: Scene) -> None:
    uri, secret = scene.uri(), scene.uri("secret")
    words = ("--source", scene.uri("main"), "--hidden", "--expires", "2w")
    made = job(0, "branch create", secret, *words)
    assert (made["hidden"], made["expired"], made["expires"] is None) == (True, False, False)
    assert job(0, "branch list", uri) == said("branch", "list", uri)
    assert job(0, "branch list", uri, "--all") == said("branch", "list", uri, "--all")
    assert job(0, "branch set", secret, "--never")["expires"] is None
    assert job(2, "branch set", secret)["kind"] == "invalid_input"
    assert job(0, "branch set", secret, "--expires", "30m")["expires"] is not None
    assert job(0, "branch prune", uri) == job(0, "branch prune", uri, "--dry-run") == []
