"""What people type by mistake: the error says what it is, and what to type."""

from __future__ import annotations

import re
import shlex

from tests.cli.running import Scene, failed, said


def proposed(error: str) -> list[str]:
    """Return the words of the command line that an error proposes."""
    (typed,) = re.findall(r"`sparklake ([^`]+)`", error)
    return shlex.split(typed)


def test_a_merge_of_staged_changes_says_that_they_are_not_committed(scene: Scene) -> None:
    main = scene.uri("main")
    scene.commit("main", {"a": "1"})
    dev = scene.branch("dev")
    scene.put("dev", {"b": "2"})
    for words in ((), ("--dry-run",), ("--explain",), ("--squash",)):
        error = failed(4, "merge", dev, main, *words)
        assert "the staged changes of 'dev' are not committed" in error
        assert proposed(error) == ["commit", dev, "-m", "MESSAGE"]
    said(*proposed(error))
    said("merge", dev, main)
    assert "staged" not in failed(4, "merge", dev, main)


def test_a_merge_of_chosen_paths_says_so_too(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    dev = scene.branch("dev")
    scene.commit("dev", {"c": "3"})
    scene.put("dev", {"b": "2"})
    assert "not committed" in failed(4, "merge", dev, scene.uri("main"), "--path", "b")
    assert "staged" not in failed(4, "merge", f"{dev}@", scene.uri("main"), "--path", "b")
