"""Merge, commit and restore of chosen paths, and merges that are only shown."""

from __future__ import annotations

from tests.cli.running import Scene, failed, ok, run, said


def test_a_commit_of_chosen_paths_leaves_the_rest(scene: Scene) -> None:
    scene.put("main", {"a/1": "1", "a/2": "1", "b": "1", "c": "1"})
    main = scene.uri("main")
    said_plan = said("commit", main, "--path", "b", "--explain")
    assert said_plan["records"] == 1
    made = said("commit", main, "-m", "some", "--path", "a/", "--path", "b")
    assert made["message"] == "some"
    assert scene.paths("main@") == ["a/1", "a/2", "b"]
    assert [each["path"] for each in said("diff", main)] == ["c"]
    assert "selected paths" in failed(4, "commit", main, "-m", "none", "--path", "a/")
    assert "empty" in failed(2, "commit", main, "-m", "none", "--path", "")
    assert ok("commit", main, "-m", "rest").startswith("[main ")


def test_a_merge_of_chosen_paths_has_one_parent(scene: Scene) -> None:
    dev, main = scene.diverge()
    (theirs, *_), (ours, *_) = said("log", dev), said("log", main)
    assert said("merge", dev, main, "--path", "right", "--explain")["verb"] == "merge"
    made = said("merge", dev, main, "--path", "right", "--path", "x/")
    assert made["parents"] == [ours["id"]]
    assert made["message"] == "Merge 'right', 'x/' of 'dev' into 'main'"
    assert made["metadata"] == {
        ".lakefs.merge.strategy": "default",
        "merge-origin": theirs["id"],
        "merge-paths": '["right", "x/"]',
    }
    assert scene.paths("main") == ["both", "left"]
    assert "changes of 'right'" in failed(4, "merge", dev, main, "--path", "right")
    assert run("merge", dev, main).code == 3
    merged = said("merge", dev, main, "--strategy", "source-wins")
    assert merged["parents"] == [made["id"], theirs["id"]]


def test_a_squash_and_an_empty_merge(scene: Scene) -> None:
    dev, main = scene.diverge()
    words = ("--strategy", "dest-wins")
    made = said("merge", dev, main, "--squash", *words)
    assert (len(made["parents"]), made["message"]) == (1, "Squash 'dev' into 'main'")
    merged = said("merge", dev, main, *words)
    assert len(merged["parents"]) == 2
    assert "nothing to merge" in failed(4, "merge", dev, main, *words)
    again = said("merge", dev, main, "--allow-empty", "-m", "again", *words)
    assert again["meta_range_id"] == merged["meta_range_id"]


def test_a_merge_is_shown_and_not_made(scene: Scene) -> None:
    dev, main = scene.diverge()
    before = said("log", main)
    found = said("merge", dev, main, "--dry-run")
    assert found["changes"] == {"added": 0, "removed": 1, "changed": 0}
    assert found["bytes"] == {"added": 0, "removed": 1, "changed": 0}
    assert (found["count"], found["unresolved"]) == (1, 1)
    assert found["conflicts"] == run("--output", "json", "merge", dev, main).json["conflicts"]
    assert found["cost"] == said("merge", dev, main, "--explain")
    assert [found["source"], found["dest"]] == [said("log", dev)[0]["id"], before[0]["id"]]
    assert found["base"] == said("merge-base", dev, main)["id"]
    decided = said("merge", dev, main, "--dry-run", "--strategy", "source-wins")
    assert decided["changes"] == {"added": 0, "removed": 1, "changed": 1}
    assert (decided["count"], decided["unresolved"]) == (1, 0)
    shown = ok("merge", dev, main, "--dry-run").splitlines()
    first, changes, conflicts, *cost, pins, header, base, source, dest = shown
    assert first == (f"would merge {found['source'][:12]} into main over {found['base'][:12]}")
    assert changes == "0 added (0 B), 1 removed (1 B), 0 changed (0 B)"
    assert conflicts == "1 conflict, 1 unresolved"
    assert cost[0].startswith("merge would run on local")
    assert pins == (
        f"to merge exactly these commits: --expect-source {found['source'][:12]} "
        f"--expect-dest {found['dest'][:12]}"
    )
    swapped = "--expect-source", found["dest"], "--expect-dest", found["source"]
    assert run("merge", dev, main, *swapped).code == 5
    assert header.split()[:2] == ["conflict", "side"]
    assert (base.split()[:2], source.split()[0], dest.split()[0]) == (
        ["both", "base"],
        "source",
        "dest",
    )
    kept = said("merge", dev, main, "--dry-run", "--path", "right")
    assert (kept["count"], kept["changes"]["removed"]) == (0, 1)
    assert "conflict  " not in ok("merge", dev, main, "--dry-run", "--path", "right")
    assert said("log", main) == before


def test_a_restore_is_staged(scene: Scene) -> None:
    first = scene.commit("main", {"a/1": "1", "a/2": "1", "b": "1"})
    scene.commit("main", {"a/1": "22", "a/2": None, "a/3": "1", "b": None})
    main, back = scene.uri("main"), scene.uri("main~1")
    found = said("restore", main, "--from", back, "--path", "a/")
    staged = {"added": 1, "removed": 1, "changed": 1}
    assert found == {"commit_id": first["id"], "staged": staged}
    assert {each["path"]: each["type"] for each in said("diff", main)} == {
        "a/1": "changed",
        "a/2": "added",
        "a/3": "removed",
    }
    assert ok("restore", main, "--from", back, "--path", "b", "--path", "a/2") == (
        "staged 'b', 'a/2' from main~1: 2 added, 0 removed, 0 changed\n"
    )
    ok("commit", main, "-m", "back")
    assert scene.paths("main") == ["a/1", "a/2", "b"]
    assert "nothing to restore" in failed(
        4, "restore", main, "--from", scene.uri("main~2"), "--path", "b"
    )
    assert "neither" in failed(13, "restore", main, "--from", main, "--path", "x")
    assert "empty" in failed(2, "restore", main, "--from", main, "--path", "")
    assert "different repositories" in failed(
        2, "restore", main, "--from", "lakefs://other/main", "--path", "x"
    )
    assert run("restore", main, "--from", main).code == 2
    assert run("restore", main, "--path", "x").code == 2
