"""docs/backup-and-moving.md is run as it is, and every version is compared afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparklake
from sparklake.testing.lakes import contents

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "backup-and-moving.md"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
SNIPPET = re.compile(r"^(<!-- [^\n]* -->\n)?```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)

REFS = ("main", "v1", "dev", "main~1")


def snippets() -> dict[str, list[str]]:
    """Return the commands of each section that run."""
    _, *parts = SECTION.split(PAGE.read_text(encoding="utf-8"))
    return {
        title: [text for comment, text in SNIPPET.findall(body) if _runs(comment)]
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _runs(comment: str) -> bool:
    return "not run" not in comment or "test_backup_page.py runs it" in comment


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, with `sparklake` on the path and a home of its own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "sparklake"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sparklake.cli "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("SPARKLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPARKLAKE_DSN", raising=False)
    folder = tmp_path / "page"
    folder.mkdir()
    return folder


def run_section(title: str, folder: Path) -> None:
    found = snippets()[title]
    assert found
    for text in found:
        command = ["bash", "-euo", "pipefail", "-c", text]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"


def versions(home: Path) -> dict[str, object]:
    """Return the commits, refs and contents of the lake in a home."""
    with sparklake.connect(home=home, engine="local") as lake:
        repo = lake.repository("lake")
        assert not any(each.is_dirty for each in repo.branches())
        return {
            "branches": {each.name: each.head.id for each in repo.branches()},
            "tags": {each.name: each.commit_id for each in repo.tags()},
            "log": [each.id for each in repo.log("main")],
            **{ref: contents(repo, ref) for ref in REFS},
        }


def test_what_is_backed_up_is_restored_and_moved(shell: Path, tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", shell / "elsewhere"
    run_section("Back up", shell)
    before = versions(home)
    assert set(before["v1"]) == {"raw/orders.csv", "notes/review.txt"}  # type: ignore[call-overload]
    backup = files_of(shell / "backup")
    run_section("Restore somewhere else", shell)
    assert versions(elsewhere) == before
    assert versions(home) == before
    assert files_of(shell / "backup") == backup
    run_section("Move a namespace", shell)
    assert namespace(home).endswith("/moved-storage")
    assert versions(home) == before
    run_section("Imports whose source goes away", shell)
    assert not (shell / "data").exists()
    assert versions(home) == before


def namespace(home: Path) -> str:
    with sparklake.connect(home=home, engine="local") as lake:
        return lake.repository("lake").info.storage_namespace


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file()
    }
