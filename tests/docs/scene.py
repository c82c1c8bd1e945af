"""The surroundings of snippets: a home, an empty lake, its Postgres and its buckets."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec
import psycopg
import pytest

import sparklake
from sparklake.errors import SparklakeError
from sparklake.fs import SparklakeFileSystem
from sparklake.fs.lakes import _LAKES
from sparklake.testing.s3_server import aws_client, make_bucket
from tests.docs.commands import VARIABLE, listening
from tests.docs.pages import ROOT, Page, Step
from tests.docs.shell import Shell, running_shell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETUPS = Path(__file__).with_name("setups")
_BUCKET = re.compile(r"\bs3a?://([a-z0-9][a-z0-9.-]+)")
_ID = re.compile(r"\b[0-9a-f]{7,64}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+\d\d:\d\d)?")
_ANY = "..."


@dataclass
class Scene:
    """One page as it runs: a folder, a shell, and the names that Python's snippets share."""

    page: Page
    home: Path
    dsn: str
    shell: Shell
    spark: SparkSession | None
    closing: ExitStack
    names: dict[str, Any] = field(default_factory=dict)
    replacements: dict[str, str] = field(default_factory=dict)
    output: str = ""

    def run(self, step: Step) -> None:
        """Run one step; fail with the place of its snippet."""
        text = self._replaced(step.text)
        getattr(self, f"_run_{step.kind.value}")(step, text)

    def _replaced(self, text: str) -> str:
        for name, value in self.replacements.items():
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", lambda _, v=value: v, text)
        return text

    def _run_sh(self, step: Step, text: str) -> None:
        expected = int(step.argument or 0)
        ran = self.shell.run(text, expected)
        self.output = ran.output
        if ran.code:
            wanted = f", expected {expected}" if expected else ""
            self._fail(step, f"the shell ended with {ran.code}{wanted}\n{text}\n---\n{ran.output}")

    def _run_where(self, step: Step, text: str) -> None:
        ran = self.shell.run(text)
        if ran.code or not ran.output.strip():
            self._fail(step, f"no value of {step.argument}: {ran}")
        self.replacements[step.argument] = ran.output.strip()

    def _run_python(self, step: Step, text: str) -> None:
        self._find_usual_names()
        source = f"{self.page.name}:{step.line}"
        # Errors show the lines of the snippet.
        linecache.cache[source] = (len(text), None, text.splitlines(keepends=True), source)
        code = compile(text, source, "exec", dont_inherit=True)
        try:
            exec(code, self.names)
        except Exception as error:  # noqa: BLE001  (a reader's snippet raises anything)
            if type(error).__name__ == step.argument:
                return
            pytest.fail(f"{source}: {error!r}", pytrace=not isinstance(error, SparklakeError))
        if step.argument:
            self._fail(step, f"no {step.argument} was raised")

    def _find_usual_names(self) -> None:
        """Give Python's snippets the names that all pages use without an introduction."""
        names = self.names
        if "sparklake" not in names:
            lake = sparklake.connect(dsn=self.dsn, spark=self.spark)
            names.update(sparklake=sparklake, lake=lake)
            if self.spark is not None:
                names["spark"] = self.spark
        found = {each.name: each for each in names["lake"].repositories()}
        if "repo" not in names and "lake" in found:
            names["repo"] = found["lake"]
        if "repo" in names:
            for name, branch in (("main", "main"), ("branch", "dev")):
                heads = {each.name: each for each in names["repo"].branches()}
                if name not in names and branch in heads:
                    names[name] = heads[branch]

    def _run_sql(self, step: Step, text: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(text)

    def _run_file(self, step: Step, text: str) -> None:
        path = self.home / step.argument
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
        decode = {".toml": msgspec.toml.decode, ".yaml": msgspec.yaml.decode}.get(path.suffix)
        if path.suffix == ".json":
            decode = msgspec.json.decode
        if decode is not None:
            decode(text)

    def _run_output(self, step: Step, text: str) -> None:
        if not is_shown(text, self.output):
            self._fail(step, f"the page shows\n{text}\n--- but the output is\n{self.output}")

    def _fail(self, step: Step, reason: str) -> None:
        pytest.fail(f"{self.page.name}:{step.line}: {reason}", pytrace=False)


def is_shown(shown: str, output: str) -> bool:
    """Tell whether an output has the shown lines in this order.

    Ids and times may differ, and "..." stands for any text.
    """
    lines = iter(output.splitlines())
    for line in shown.splitlines():
        if line.strip() in {"", _ANY}:
            continue
        parts = (re.escape(each) for each in _neutral(line).split(_ANY))
        pattern = re.compile(".*".join(parts))
        if not any(pattern.fullmatch(_neutral(each)) for each in lines):
            return False
    return True


def _neutral(line: str) -> str:
    line = _TIME.sub("<time>", _ID.sub("<id>", line))
    return " ".join(line.replace("…", _ANY).split())


@contextmanager
def scene_of(
    page: Page, home: Path, dsn: str, variables: Mapping[str, str], spark: SparkSession | None
) -> Iterator[Scene]:
    """Yield a page that is ready to run; remove its buckets at the end."""
    buckets = sorted({name for step in page.steps for name in _BUCKET.findall(step.text)})
    environment = _environment(home, variables)
    environment |= {} if "embedded" in page.needs else {"SPARKLAKE_DSN": dsn}
    for name in buckets:
        make_bucket(environment, name)
    try:
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(sys, "path", [str(home), *sys.path]),
            warnings.catch_warnings(),
            _shell(page, environment, home) as shell,
            ExitStack() as closing,
        ):
            closing.callback(os.chdir, Path.cwd())
            closing.callback(_close_shared_lakes, set(_LAKES))
            connect = sparklake.connect

            def connect_until_the_end(*arguments: Any, **options: Any) -> Any:
                return closing.enter_context(connect(*arguments, **options))

            closing.enter_context(mock.patch.object(sparklake, "connect", connect_until_the_end))
            os.chdir(home)
            yield Scene(page, home, dsn, shell, spark, closing)
    finally:
        for name in buckets:
            _remove_bucket(environment, name)


@contextmanager
def _shell(page: Page, environment: Mapping[str, str], home: Path) -> Iterator[Shell]:
    """Run a shell. Its commands run in this process, which is quicker and may have a session."""
    if page.submits or "embedded" in page.needs:
        with running_shell(environment, home, None) as shell:
            yield shell
        return
    path = home.with_name("commands")
    programs = os.pathsep.join([str(SETUPS / "session"), environment["PATH"]])
    inside = {**environment, "PATH": programs, VARIABLE: str(path)}
    with listening(path) as listener, running_shell(inside, home, listener) as shell:
        yield shell


def _environment(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a reader: commands on the path, and a home of their own."""
    programs = [str(SETUPS), sysconfig.get_path("scripts"), os.environ["PATH"]]
    kept = ("TMPDIR", "LANG", "JAVA_HOME", "SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS", "PYSPARK_PYTHON")
    kept += ("SPARKLAKE_JARS",)
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        **variables,
        "HOME": str(home),
        "USER": "reader",
        "PATH": os.pathsep.join(programs),
        "PYTHONPATH": str(ROOT),
        "SPARKLAKE_CACHE_BYTES": "0",
        "SPARKLAKE_COMMITTER": "reader",
    }


def _close_shared_lakes(before: set[Any]) -> None:
    """Close the lakes that file systems have opened: their database is dropped."""
    # fsspec keeps file systems, and those without options are equal on every page.
    SparklakeFileSystem.clear_instance_cache()
    for each in set(_LAKES) - before:
        _LAKES.pop(each).close()


def _remove_bucket(environment: Mapping[str, str], name: str) -> None:
    client = aws_client("s3", environment)
    for listing in client.get_paginator("list_objects_v2").paginate(Bucket=name):
        for each in listing.get("Contents", ()):
            client.delete_object(Bucket=name, Key=each["Key"])
    client.delete_bucket(Bucket=name)


def run_page(page: Page, scene: Scene) -> None:
    """Run all steps of a page in order."""
    for step in page.steps:
        scene.run(step)
