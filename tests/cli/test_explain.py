"""Plans on the command line and in jobs: shown, and not carried out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sparklake.engine.choice import THREAD_RECORDS
from sparklake.graveler import kernel_choice
from tests.cli.running import Scene, ok, said
from tests.jobs.running import job

KEYS = [
    *("verb", "engine", "reason", "copied", "opened", "records", "bytes", "tasks", "sides"),
    "kernels",
]


@pytest.fixture
def commands(scene: Scene) -> dict[str, Sequence[str]]:
    """Return commands that there is something to do for, and the job of each."""
    dev, main = scene.diverge()
    scene.put("dev", {"staged": "1"})
    clean = scene.branch("clean", "dev@")
    return {"commit": (dev,), "merge": (clean, main), "diff": (main, clean), "ls": (f"{main}/",)}


@pytest.mark.parametrize("verb", ["commit", "merge", "diff", "ls"])
def test_a_plan_is_shown_and_nothing_moves(
    scene: Scene, commands: dict[str, Sequence[str]], verb: str
) -> None:
    before = said("branch", "list", scene.uri()), said("diff", scene.uri("dev"))
    words = [verb, *commands[verb], "--explain"]
    document = said(*words)
    assert list(document) == KEYS
    assert document["verb"] == verb
    assert (document["engine"], document["opened"] > 0) == ("local", True)
    said_records = f"{document['records']:,} records to read"
    assert document["reason"] == f"{said_records}, below {THREAD_RECORDS:,}"
    assert job(0, *words) == document
    first, second, third, titles, *sides = ok(*words).splitlines()
    assert first == f"{verb} would run on local: {document['reason']}"
    assert second.startswith(f"copies {document['copied']} range")
    assert third == f"kernels: {document['kernels']}" == f"kernels: {kernel_choice.description()}"
    assert titles.split() == ["side", "ranges", "records", "raw", "bytes"]
    assert [line.split("  ")[0] for line in sides] == [each["name"] for each in document["sides"]]
    assert (said("branch", "list", scene.uri()), said("diff", scene.uri("dev"))) == before


@pytest.mark.usefixtures("commands")
def test_a_merge_into_a_branch_with_staged_changes_is_explained(scene: Scene) -> None:
    assert said("merge", scene.uri("main"), scene.uri("dev"), "--explain")["verb"] == "merge"


def test_a_commit_takes_a_message_or_explains(scene: Scene) -> None:
    scene.put("main", {"a": "1"})
    assert job(2, "commit", scene.uri("main"))["kind"] == "invalid_input"
    assert said("commit", scene.uri("main"), "-m", "m", "--explain")["verb"] == "commit"
    assert said("branch", "list", scene.uri())[0]["dirty"] is True
