"""What people type by mistake: the error says what it is, and what to type."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.running import Scene, failed, ok, run, said


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


def test_folders_are_put_as_proposed(scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "new $files"
    folder.mkdir()
    (folder / "one").write_text("1")
    for uri in (scene.uri("main", "x y"), scene.uri("main", "")):
        error = failed(2, "put", str(folder), uri)
        assert "is not a file but a folder" in error
        assert proposed(error) == ["put", "-r", str(folder), uri]
        ok(*proposed(error))
    assert scene.paths("main") == ["one", "x y/one"]
    error = failed(2, "put", "-r", str(folder / "one"), scene.uri("main", "z"))
    assert "is not a folder but a file" in error


@pytest.mark.parametrize("key", ["a b", "a b/"])
def test_a_command_for_one_object_names_the_folder_of_its_key(scene: Scene, key: str) -> None:
    scene.commit("main", {"a b/one": "1", "a b/two": "2", "c": "3"})
    uri, folder, new = (scene.uri("main", each) for each in (key, "a b/", "new"))
    for words, typed in (
        (["cat", uri], ["ls", folder]),
        (["stat", uri], ["ls", folder]),
        (["rm", uri], ["rm", "-r", folder]),
    ):
        error = failed(13, *words)
        assert f"{key!r} is a folder of 'main', not an object" in error
        assert proposed(error) == typed
        ok(*typed)
    assert scene.paths("main") == ["c"]
    ok("reset", "--yes", scene.uri("main"))
    if not key.endswith("/"):
        for word in ("cp", "mv"):
            error = failed(13, word, uri, new)
            assert proposed(error) == [word, folder, new]
            ok(*proposed(error), "--force")
        assert scene.paths("main") == ["c", "new/one", "new/two"]
    for word in ("cat", "stat", "rm"):
        assert "has no object 'a'" in failed(13, word, scene.uri("main", "a"))


def test_a_ref_in_place_of_a_branch_is_described(scene: Scene, tmp_path: Path) -> None:
    scene.commit("main", {"a": "1"})
    ok("tag", "create", scene.uri("v1"), scene.uri("main"))
    head = said("log", scene.uri("main"))[0]["id"]
    (tmp_path / "file").write_text("2")
    for at, (ref, kind) in enumerate(
        {"main~1": "commit", head[:8]: "commit", "v1": "a tag"}.items()
    ):
        uri = scene.uri(ref)
        for words in (
            ["put", str(tmp_path / "file"), f"{uri}/a"],
            ["put", "-r", str(tmp_path), f"{uri}/a"],
            ["rm", f"{uri}/a"],
            ["commit", uri, "-m", "x"],
            ["merge", scene.uri("main"), uri],
            ["diff", uri],
        ):
            error = failed(13, *words)
            assert f"{scene.name} has no branch {ref!r}: it is {kind}" in error
        typed = proposed(error)
        assert typed == ["branch", "create", scene.uri("NAME"), "--source", uri]
        ok(*(each.replace("NAME", f"new{at}") for each in typed))
    for ref in ("main@", "main$"):
        error = failed(13, "put", str(tmp_path / "file"), scene.uri(ref, "a"))
        assert error == f"{scene.name} has no branch {ref!r}: use 'main'"


def test_refs_that_do_not_exist_are_no_refs_of_another_kind(scene: Scene) -> None:
    for ref in ("nothing", "main~99", "main~x", "0" * 64, "v1@"):
        assert "`sparklake branch list`" in failed(13, "commit", scene.uri(ref), "-m", "x")
    assert "did you mean 'main'?" in run("commit", scene.uri("mian"), "-m", "x").err


def test_a_diff_of_a_clean_branch_says_so_and_how_to_compare(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    main, old = scene.uri("main"), scene.uri("main~1")
    note = f"{main} has no staged changes: add a second ref to compare commits\n"
    assert run("diff", main).err == f"no difference\n{note}"
    for shape in ("--summary", "--by-folder", "--tree"):
        assert run("diff", main, shape).err == note
    assert run("--output", "json", "diff", main).err == ""
    assert run("diff", old, main).err == "1 added\n"
    assert run("diff", main, main).err == "no difference\n"
    scene.put("main", {"b": "2"})
    assert run("diff", main).err == "1 added\n"


def test_staged_changes_that_are_left_out_are_named(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    main, dev = scene.uri("main"), scene.branch("dev")
    scene.put("dev", {"b": "2"})
    note = f"the staged changes of {dev} are not compared: `sparklake diff {dev}` shows them"
    assert run("diff", main, dev).err == f"no difference\n{note}\n"
    assert run("diff", dev, main, "--summary").err == f"{note}\n"
    assert run("diff", main, f"{dev}~1").err == "1 removed\n"
    note = note.replace("compared", "merged")
    assert run("merge", dev, main, "--if-needed").err.splitlines()[-1] == note
    said("commit", dev, "-m", "b")
    scene.put("dev", {"c": "3"})
    assert run("merge", dev, main, "--dry-run").err == f"{note}\n"
    scene.put("main", {"d": "4"})
    line = "staged changes of main stay staged: the merge is rejected"
    assert line in run("merge", dev, main, "--dry-run").out.decode()
    assert json.loads(run("--output", "json", "merge", dev, main, "--dry-run").out)["dirty"]
    assert run("merge", dev, main).err == f"{note}\n"


def test_a_misspelled_format_is_refused_before_spark_starts(scene: Scene) -> None:
    refusal = "Spark has no format 'cvs' (did you mean 'csv'?)"
    target = scene.uri("main", "t")
    assert refusal in failed(2, "write", target, "--from", "/nothing.csv", "--source-format", "cvs")
    assert refusal in failed(2, "import", scene.uri("main"), "--rows", "/no.csv", "--format", "cvs")


def test_a_path_that_ends_with_a_slash_is_a_folder(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1")
    for uri in (scene.uri("main", "raw/"), scene.uri("main", "")):
        ok("put", str(file), uri)
    assert scene.paths("main") == ["a.csv", "raw/a.csv"]
    assert "stdin has no name" in failed(2, "put", "-", scene.uri("main", "raw/"))


def test_merged_changes_that_were_reverted_are_brought_back_as_proposed(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    main, dev = scene.uri("main"), scene.uri("dev")
    ok("branch", "create", dev, "--source", main)
    scene.commit("dev", {"b": "2"})
    ok("merge", dev, main)
    ok("revert", main, main, "--parent-number", "1")
    assert scene.paths("main") == ["a"]
    error = failed(4, "merge", dev, main)
    assert "reverted them in commit" in error
    ok(*proposed(error))
    assert scene.paths("main") == ["a", "b"]
    assert "reverted" not in failed(4, "merge", dev, main)


def test_a_number_that_is_none(scene: Scene) -> None:
    error = run("log", scene.uri("main"), "-n", "abc").err
    assert "'abc' is not a valid whole number" in error


def test_paths_without_objects_are_not_found(scene: Scene) -> None:
    scene.commit("main", {"raw/orders.csv": "1", "raw/old": "1", "raw/olds": "1"})
    scene.commit("main", {"raw/old": None})
    uri = scene.uri("main")
    hint = "did you mean 'raw/orders.csv'?"
    for words in (
        ("ls", f"{uri}/raw/order.csv"),
        ("ls", "-r", f"{uri}/raw/order.csv"),
        ("blame", f"{uri}/raw/order.csv"),
        ("log", uri, "--path", "raw/order.csv"),
        ("log", uri, "--prefix", "raw/order.csv"),
    ):
        assert hint in failed(13, *words)
    assert "did you mean 'raw/'?" in failed(13, "ls", f"{uri}/rav/")
    assert len(said("log", uri, "--path", "raw/old")) == 2
    failed(13, "log", uri, "--path", "raw/o")
    assert said("log", uri, "--path", "raw/olds", "--author", "nobody") == []
    assert said("ls", scene.uri("main$", "raw/")) == []


def test_refs_beside_a_uri_need_no_repository(scene: Scene) -> None:
    scene.commit("main", {"a": "1"})
    main, dev = scene.uri("main"), scene.uri("dev")
    ok("branch", "create", dev, "--source", "main")
    scene.commit("dev", {"b": "2"})
    for pair in (("main", dev), (main, "dev")):
        assert [each["path"] for each in said("diff", *pair)] == ["b"]
        assert said("merge-base", *pair)["id"] == said("show", main)["id"]
    said("merge", "dev", main)
    said("tag", "create", scene.uri("v1"), "dev")
    said("restore", main, "--from", "main~1", "--path", "b")
    said("reset", main, "--yes")
    said("revert", main, "main", "--parent-number", "1")
    assert scene.paths("main") == ["a"]
    for text in (f"{main}..{dev}", f"{main}...dev", f"{main}..dev"):
        right = text.partition("..")[2].lstrip(".")
        assert f"write two refs, {main} {right}" in failed(2, "diff", text)
    assert "different repositories" in failed(2, "diff", main, "lakefs://other/dev")
    assert "does not start with" in failed(2, "diff", "main")


def test_two_refs_alone_need_a_lake_of_one_repository(dsn: str, tmp_path: Path) -> None:
    lake = ("--dsn", dsn)
    ok("repo", "create", "lakefs://one", str(tmp_path / "one"), *lake)
    ok("branch", "create", "lakefs://one/dev", "--source", "main", *lake)
    assert said("diff", "main", "dev", *lake) == []
    ok("repo", "create", "lakefs://two", str(tmp_path / "two"), *lake)
    for verb in ("diff", "merge"):
        error = failed(2, verb, "main", "dev", *lake)
        assert "the lake has 2 repositories" in error
        assert proposed(error) == [verb, "lakefs://REPO/main", "lakefs://REPO/dev"]
    for name in ("one", "two"):
        ok("repo", "delete", f"lakefs://{name}", "--yes", *lake)
