"""The rules by which the same code runs on every kind of Spark; no JVM is started."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pyspark import cloudpickle

import sparklake
from sparklake.engine.spark import _pack, reported
from sparklake.graveler.algebra.classify import Strategy
from sparklake.rows.imports import ImportTaskSettings
from sparklake.rows.settings import Workspace
from sparklake.udfs import diffs
from sparklake.udfs import gc as collecting
from sparklake.udfs import staged_rows as staging
from sparklake.udfs import write_ranges as writing
from sparklake.udfs.imports.tasks import ranges_body
from sparklake.udfs.objects import list_body
from tests.support.cases import for_each

PACKAGE = Path(sparklake.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

CLASSIC_ONLY = re.compile(
    r"_jvm|_jdf|_jsparkSession|_jsc|_sc|sparkContext|SparkContext|rdd|RDD|broadcast|newSession"
)
"""Matches names that Spark Connect, Databricks shared clusters and serverless do not have."""

WORKSPACE = Workspace("s3://a-bucket-of-a-long-name/with/a/prefix", 1024)
BODIES = {
    "apply": partial(writing.apply_body, WORKSPACE),
    "merge": partial(writing.merge_body, WORKSPACE, Strategy.SOURCE_WINS),
    "run": partial(writing.run_body, WORKSPACE),
    "list": partial(list_body, WORKSPACE),
    "diff": partial(diffs.diff_body, WORKSPACE),
    "staged diff": partial(diffs.staged_diff_body, WORKSPACE),
    "three-way diff": partial(diffs.three_way_diff_body, WORKSPACE),
    "stage": partial(staging.stage_body, WORKSPACE, 0),
    "import": partial(
        ranges_body, WORKSPACE, ImportTaskSettings("prefix/", 0, False, "s3://elsewhere")
    ),
    "collect": partial(collecting.garbage_body, WORKSPACE, 0, ("data/open/",)),
}


def words_of(module: Path) -> Iterator[tokenize.TokenInfo]:
    """Yield the names in a module, so neither its comments nor its texts."""
    with module.open("rb") as file:
        yield from (
            token for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME
        )


def test_nothing_needs_more_than_the_data_frame_api() -> None:
    found = [
        f"{module.relative_to(PACKAGE)}:{word.start[0]}: {word.line.strip()}"
        for module in MODULES
        for word in words_of(module)
        if CLASSIC_ONLY.fullmatch(word.string)
    ]
    # Those of the engine are reached on classic Spark 3.5 only; the others do nothing on Connect.
    assert [each.partition(":")[0] for each in found] == [
        *["engine/spark.py"] * 2,
        *["frames/tables/spark_sources.py"] * 2,
    ]


def test_only_the_session_module_builds_sessions_and_changes_settings() -> None:
    elsewhere = [module for module in MODULES if module != PACKAGE / "session.py"]
    sets = re.compile(r"\bconf\s*\.\s*(set|unset)\b|\bSparkSession\s*\.\s*builder\b")
    assert [each for each in elsewhere if sets.search(each.read_text(encoding="utf-8"))] == []


def test_frames_have_no_actions() -> None:
    # Of functions, which F holds, some have the names of actions.
    names = r"collect|count|first|head|take|show|toPandas|toArrow|foreach\w*"
    actions = re.compile(rf"(?<!\bF)\.({names})\(")
    frames = [each for each in MODULES if each.parent.name == "frames"]
    assert [each for each in frames if actions.search(each.read_text(encoding="utf-8"))] == []


@for_each("wrap", [_pack, reported])
@for_each("name", BODIES)
def test_what_is_shipped_to_a_task_is_a_few_hundred_bytes(name: str, wrap: object) -> None:
    shipped = cloudpickle.dumps(partial(wrap, BODIES[name]))
    assert len(shipped) < 600
    for heavy in (b"pyspark", b"psycopg", b"Store", b"Session"):
        assert heavy not in shipped
