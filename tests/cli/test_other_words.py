"""What people type who know git or lakectl."""

from __future__ import annotations

import pytest
from typer.main import get_command

from sparklake.cli.app import NOUNS, VERBS, app
from sparklake.cli.other_words import _WORDS
from tests.cli.running import Scene, failed, ok, run, said
from tests.support.cases import for_each

ACCEPTED = {words: ours for words, ours in _WORDS.items() if isinstance(ours, list)}
ANSWERED = {words: advice for words, advice in _WORDS.items() if isinstance(advice, str)}


@for_each("words", ANSWERED)
def test_foreign_words_are_answered_with_ours(words: str) -> None:
    ran = run(*words.split(), "lakefs://lake/main")
    assert (ran.code, ran.out) == (2, b"")
    text = " ".join(ran.err.split())
    assert f"there is no command {words!r}. {ANSWERED[words]}." in text


def test_all_words_of_the_issue_are_known() -> None:
    known = {words.split()[0] for words in _WORDS}
    git = {"init", "push", "fetch", "pull", "stash", "clone", "add", "switch", "checkout"}
    assert git | {"fs", "refs-dump", "refs-restore"} <= known
    assert not known & {*VERBS, *set(NOUNS) - {"branch", "tag"}}


@for_each("words", ACCEPTED)
def test_foreign_words_stand_for_a_command(words: str) -> None:
    found = get_command(app)
    for each in ACCEPTED[words]:
        found = found.commands[each]  # type: ignore[attr-defined]
    if not words.endswith("//"):
        assert ok(*words.split(), "--help") == ok(*ACCEPTED[words], "--help")


def test_the_commands_of_lakectl_do_what_ours_do(scene: Scene) -> None:
    scene.commit("main", {"a/b": "1", "c": "2"})
    ok("tag", "create", scene.uri("v1"), scene.uri("main"))
    for theirs, ours in (
        (["branch", scene.uri()], ["branch", "list", scene.uri()]),
        (["branch", "--engine", "local", scene.uri()], ["branch", "list", scene.uri()]),
        (["tag", "--no-pager", scene.uri()], ["tag", "list", scene.uri()]),
        (["tag", scene.uri()], ["tag", "list", scene.uri()]),
        (["fs", "ls", scene.uri("main", "")], ["ls", scene.uri("main", "")]),
        (["fs", "ls", "-r", scene.uri("main", "")], ["ls", "-r", scene.uri("main", "")]),
        (["fs", "cat", scene.uri("main", "c")], ["cat", scene.uri("main", "c")]),
        (["fs", "stat", scene.uri("main", "c")], ["stat", scene.uri("main", "c")]),
    ):
        assert ok(*theirs) == ok(*ours) != ""
    assert said("fs", "ls", scene.uri("main", ""))[0]["path"] == "a/"
    assert said("fs", "rm", scene.uri("main", "c"))["removed"] == 1
    assert said("refs-dump", scene.uri())["tags"] == 1
    assert "names more than a repository" in failed(2, "branch", scene.uri("new"))


def test_a_log_of_a_number_of_commits_on_one_line_each(scene: Scene) -> None:
    main = scene.uri("main")
    ids = [scene.commit("main", {"a": str(at)}, f"change {at}\n\nmore")["id"] for at in range(3)]
    ok("tag", "create", scene.uri("v1"), main)
    assert [each["id"] for each in said("log", main, "-n", "2")] == ids[:0:-1]
    assert ok("log", main, "--oneline", "-n", "2").splitlines() == [
        f"{ids[2][:12]} (main, tag: v1) change 2",
        f"{ids[1][:12]} change 1",
    ]
    graph = ok("log", main, "--oneline", "--graph", "-n", "2").splitlines()
    assert [line.split()[1] for line in graph if "change" in line] == [ids[2][:12], ids[1][:12]]
    assert "more" not in "".join(graph)
    assert len(said("op", "log", main, "-n", "1")) == 1
    assert "--oneline" in run("log", main, "--oneline", "--output", "json").json["error"]


def test_a_branch_starts_at_the_default_branch(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    made = said("branch", "create", scene.uri("dev"))
    assert made["commit_id"] == said("log", scene.uri("main"))[0]["id"]
    once = ("branch", "create", scene.uri("fix"), "--once", "key")
    ok(*once)
    assert said(*once, "--source", scene.uri("main"))["repeated"] is True


@pytest.mark.parametrize(("strategy", "body"), [("ours", "main"), ("theirs", "dev!")])
def test_ours_is_the_changed_branch_as_in_git(scene: Scene, strategy: str, body: str) -> None:
    dev, main = scene.diverge()
    full = {"ours": "dest-wins", "theirs": "source-wins"}[strategy]
    side = {"ours": main, "theirs": dev}[strategy]
    note = f"{strategy} is {side} ({full})\n"
    assert run("merge", dev, main, "--strategy", strategy, "--dry-run").err == note
    assert run("merge", dev, main, "--strategy", strategy).err == note
    assert ok("cat", scene.uri("main", "both")) == body
    assert full in said("log", main)[0]["metadata"][".lakefs.merge.strategy"]


@pytest.mark.parametrize(("strategy", "body"), [("ours", "main"), ("theirs", "dev!")])
def test_ours_is_what_commits_are_picked_or_replayed_on(
    scene: Scene, strategy: str, body: str
) -> None:
    dev, main = scene.diverge()
    onto = scene.branch("onto")
    ran = run("cherry-pick", onto, dev, "--rule", f"**={strategy}")
    assert ran.code == 0
    assert f"{strategy} is {onto if strategy == 'ours' else 'the picked commit'} (" in ran.err
    assert ok("cat", scene.uri("onto", "both")) == body
    ran = run("rebase", dev, "--onto", main, "--strategy", strategy)
    assert f"{strategy} is {main if strategy == 'ours' else dev} (" in ran.err
    assert ok("cat", scene.uri("dev", "both")) == body
