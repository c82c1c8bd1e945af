"""A real git, to compare its answers about commit graphs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

History = Mapping[str, Sequence[str]]
"""The parents of each commit; parents come first."""

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")

_WHO = "tester <tester@example.com>"
_START = 1_700_000_000
_HEADS = "refs/heads/"


class Git:
    """A bare repository without content. Each commit has a branch with its name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run("init", "--bare", "--quiet", str(folder), at=folder.parent)
        self._tree = self._run("hash-object", "-w", "-t", "tree", "--stdin")

    def commit_tree(self, history: History) -> None:
        """Make commits one by one."""
        ids: dict[str, str] = {}
        for name, parents in history.items():
            words = [word for parent in parents for word in ("-p", ids[parent])]
            ids[name] = self._run("commit-tree", "-m", name, *words, self._tree)
            self._run("update-ref", f"{_HEADS}{name}", ids[name])

    def import_fast(self, history: History) -> None:
        """Make many commits in one run. Each is one second younger than the one before."""
        commands: list[str] = []
        for number, (name, parents) in enumerate(history.items()):
            commands += [f"commit {_HEADS}{name}", f"mark :{number + 1}"]
            commands += [f"committer {_WHO} {_START + number} +0000", "data 0"]
            words = ("from", *["merge"] * len(parents))
            commands += [
                f"{word} {_HEADS}{each}" for word, each in zip(words, parents, strict=False)
            ]
            commands.append("")
        self._run("fast-import", "--quiet", "--force", stdin="\n".join(commands) + "\n")

    def ids(self, expressions: Sequence[str]) -> list[str | None]:
        """Return the commit ids of expressions, or None where there is no such commit."""
        lines = self._run("cat-file", "--batch-check", stdin="".join(f"{e}\n" for e in expressions))
        answers = [line.rsplit(" ", 2) for line in lines.splitlines()]
        return [words[0] if words[1:2] == ["commit"] else None for words in answers]

    def merge_bases(self, left: str, right: str) -> list[str]:
        """Return the ids of all best common ancestors."""
        return self._run("merge-base", "--all", left, right, fails=True).split()

    def _run(
        self, *words: str, stdin: str = "", at: Path | None = None, fails: bool = False
    ) -> str:
        environment = {
            **{name: each for name, each in os.environ.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "tester",
            "GIT_AUTHOR_EMAIL": "tester@example.com",
            "GIT_COMMITTER_NAME": "tester",
            "GIT_COMMITTER_EMAIL": "tester@example.com",
        }
        ran = subprocess.run(
            ["git", *words],
            cwd=at or self._folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
        )
        # git ends with 1, and says nothing, where there is no merge base.
        assert ran.returncode == 0 or (fails and ran.returncode == 1 and not ran.stderr), ran
        return ran.stdout.strip()
