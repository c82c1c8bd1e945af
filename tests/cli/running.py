"""Runs the command in this process, as a shell would."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

from sparklake.cli.main import main


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, stdin: bytes = b"", program: Callable[[Sequence[str]], int] = main) -> Ran:
    """Run a command of this program, whatever comes of it."""
    out, err, given = (
        io.TextIOWrapper(io.BytesIO(raw), "utf-8", newline="") for raw in (b"", b"", stdin)
    )
    with redirect_stdout(out), redirect_stderr(err), mock.patch.object(sys, "stdin", given):
        code = program(arguments)
        out.flush()
        err.flush()
    return Ran(code, out.buffer.getvalue(), err.buffer.getvalue().decode())  # type: ignore[attr-defined]


def ok(*arguments: str, stdin: bytes = b"") -> str:
    """Run a command that must succeed; return its text."""
    ran = run(*arguments, stdin=stdin)
    assert ran.code == 0, (arguments, ran)
    return ran.text


def said(*arguments: str, stdin: bytes = b"") -> Any:
    """Run a command that must succeed; return its JSON."""
    ran = run("--output", "json", *arguments, stdin=stdin)
    assert ran.code == 0, (arguments, ran)
    assert ran.err == ""
    return ran.json


def failed(code: int, *arguments: str, stdin: bytes = b"") -> str:
    """Run a command that must fail alike in text and JSON; return what it says."""
    return str(failure(code, *arguments, stdin=stdin)["error"])


def failure(code: int, *arguments: str, stdin: bytes = b"") -> dict[str, Any]:
    """Run a command that must fail alike in text and JSON; return its error as JSON."""
    ran = run("--output", "json", *arguments, stdin=stdin)
    assert ran.code == code, (arguments, ran)
    assert ran.err == ""
    error: dict[str, Any] = ran.json
    text = run(*arguments, stdin=stdin)
    assert (text.code, text.err) == (code, f"error: {error['error']}\n")
    return error


class Scene:
    """A fresh repository with a branch `main`, and short ways to change it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.name = f"r{uuid4().hex[:12]}"
        self.namespace = folder / "namespace"
        ok("repo", "create", self.uri(), str(self.namespace), *options)

    def uri(self, ref: str | None = None, key: str | None = None) -> str:
        return "lakefs://" + "/".join(part for part in (self.name, ref, key) if part is not None)

    def put(self, ref: str, objects: dict[str, str | None]) -> None:
        """Stage objects; None removes."""
        for key, body in objects.items():
            if body is None:
                ok("rm", self.uri(ref, key))
            else:
                ok("put", "-", self.uri(ref, key), stdin=body.encode())

    def commit(self, ref: str, objects: dict[str, str | None], message: str = "change") -> Any:
        """Stage objects and commit them."""
        self.put(ref, objects)
        return said("commit", self.uri(ref), "-m", message)

    def branch(self, name: str, source: str = "main") -> str:
        ok("branch", "create", self.uri(name), "--source", self.uri(source))
        return self.uri(name)

    def paths(self, ref: str, prefix: str | None = None) -> Sequence[str]:
        return [each["path"] for each in said("ls", "-r", self.uri(ref, prefix))]

    def diverge(self) -> tuple[str, str]:
        """Make main and dev conflict over `both`; return their URIs."""
        self.commit("main", {"both": "base", "left": "1", "right": "1"})
        dev = self.branch("dev")
        self.commit("main", {"both": "main", "left": "2"})
        self.commit("dev", {"both": "dev!", "right": None})
        return dev, self.uri("main")
