"""`sparklake refs`: what is dumped is restored, and said in text and JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.cli.running import Scene, failed, ok, run, said


def test_a_dump_and_a_restore(scene: Scene, tmp_path: Path, dsn: str) -> None:
    head = scene.commit("main", {"a": "1"})
    scene.branch("dev")
    ok("tag", "create", scene.uri("v1"), scene.uri("main"))
    scene.put("dev", {"b": "staged"})
    made = said("refs", "dump", scene.uri())
    manifest = json.loads((scene.namespace / "_lakefs" / "refs_manifest.json").read_text())
    counts = {"branches": 2, "tags": 1, "commits": 2, "dirty": ["dev"], "warnings": []}
    counts |= {"refused_branches": [], "refused_tags": []}
    assert made == {**manifest, **counts}
    text = run("refs", "dump", scene.uri())
    assert (text.code, text.text) == (
        0,
        f"2 branches, 1 tag and 2 commits of {scene.uri()} are in file://{scene.namespace}\n",
    )
    assert text.err == "staged changes are not dumped: commit those of dev\n"

    lake = ("--dsn", dsn)
    restored = said(*lake, "refs", "restore", "lakefs://again", str(scene.namespace))
    assert restored in said(*lake, "repo", "list")
    assert restored["storage_namespace"] == f"file://{scene.namespace}"
    assert said(*lake, "log", "lakefs://again/v1")[0] == head
    assert ok(*lake, "cat", "lakefs://again/main/a") == "1"
    assert "restored to 'again'" in failed(14, "refs", "dump", scene.uri())
    ok(*lake, "repo", "delete", "--yes", "lakefs://again")


def test_a_restore_is_told_in_text_and_takes_options(scene: Scene, tmp_path: Path) -> None:
    scene.commit("main", {"a": "1"})
    scene.branch("dev")
    ok("refs", "dump", scene.uri())
    copy = tmp_path / "copy"
    shutil.copytree(scene.namespace, copy)
    other = f"{scene.uri()}-2"
    words = ("refs", "restore", other, str(copy), "--default-branch", "dev")
    assert ok(*words, "--range-records", "4096") == (
        f"{other} is restored from file://{copy}, with 2 branches and 0 tags\n"
    )
    assert "already" in failed(14, *words)
    assert {each["name"]: each["default_branch"] for each in said("repo", "list")}[
        f"{scene.name}-2"
    ] == "dev"


def test_names_are_changed_and_warned_about(scene: Scene, tmp_path: Path) -> None:
    scene.commit("main", {"a": "1"})
    scene.branch("a.b")
    ran = run("refs", "dump", scene.uri(), "--no-check-addresses")
    assert "lakeFS rejects the names of some branches" in ran.err
    copy = tmp_path / "copy"
    shutil.copytree(scene.namespace, copy)
    other = f"{scene.uri()}-3"
    ran = run("refs", "restore", other, str(copy), "--rename", "a.b=a-b", "--rename", "main=trunk")
    assert ran.code == 0
    assert "were not migrated" in ran.err
    assert [each["name"] for each in said("branch", "list", other)] == ["a-b", "trunk"]
    assert "is not OLD=NEW" in failed(2, "refs", "restore", other, str(copy), "--rename", "x")
    both = ("--rename", "a.b=x", "--rename", "a.b=y")
    assert "both 'x' and 'y'" in failed(2, "refs", "restore", other, str(copy), *both)


def test_what_is_refused(scene: Scene, tmp_path: Path) -> None:
    assert "no dump" in failed(10, "refs", "restore", "lakefs://nothing", str(scene.namespace))
    ok("refs", "dump", scene.uri())
    assert "overlaps" in failed(14, "refs", "restore", "lakefs://nothing", str(scene.namespace))
    words = ("refs", "restore", "lakefs://nothing", str(scene.namespace))
    assert "no branch 'dev'" in failed(2, *words, "--default-branch", "dev")
    assert "names more than" in failed(2, "refs", "dump", scene.uri("main"))
    assert "no repository" in failed(13, "refs", "dump", "lakefs://nothing")
    (scene.namespace / "_lakefs" / "refs_manifest.json").write_text("{")
    assert run("--output", "json", *words).json["kind"] == "corrupt_file"


def test_the_manifest_comes_from_stdin_or_a_file(scene: Scene, tmp_path: Path) -> None:
    scene.commit("main", {"a": "1"})
    made = said("refs", "dump", scene.uri())
    manifest = scene.namespace / "_lakefs" / "refs_manifest.json"
    body = manifest.read_bytes()
    (tmp_path / "made.json").write_text(json.dumps(made))
    for number, (place, given) in enumerate((("-", body), (str(tmp_path / "made.json"), b""))):
        copy, name = tmp_path / f"copy{number}", f"{scene.uri()}-{number}"
        shutil.copytree(scene.namespace, copy)
        (copy / "_lakefs" / "refs_manifest.json").unlink()
        assert "--manifest" in failed(10, "refs", "restore", name, str(copy))
        ran = run("refs", "restore", name, str(copy), "--manifest", place, stdin=given)
        assert ran.code == 0
        assert ran.err.startswith("the dump was written at ")
        assert json.loads((copy / "_lakefs" / "refs_manifest.json").read_text()) == json.loads(body)
    words = ("refs", "restore", f"{scene.uri()}-none", str(copy), "--manifest", "-")
    assert "the manifest on stdin is damaged" in failed(10, *words)


def test_an_old_dump_of_lakefs_is_refused(scene: Scene, tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "golden"
    for part in ("namespace", "dump"):
        shutil.copytree(golden / part, tmp_path / "ns", dirs_exist_ok=True)
    older = tmp_path / "older"
    said("repo", "create", f"{scene.uri()}-older", str(older))
    said("refs", "dump", f"{scene.uri()}-older")
    for path in (older / "_lakefs").iterdir():
        shutil.copy(path, tmp_path / "ns" / "_lakefs" / path.name)
    (tmp_path / "ns" / "_lakefs" / "dummy").unlink()
    words = ("refs", "restore", f"{scene.uri()}-again", str(tmp_path / "ns"))
    assert "another dump of lakeFS there has" in failed(4, *words)
    assert "is restored" in ok(*words, "--accept-old")
