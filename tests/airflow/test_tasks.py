"""Parts of tasks that need no run of a DAG: keys, errors, the sensor's comparison, masks."""

from __future__ import annotations

import json
import os
import textwrap
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sparklake import Repository
from sparklake.airflow.once_keys import once_key, with_once
from sparklake.errors import ExpiredError
from tests.airflow.conftest import PASSWORD, Airflow

DATE = datetime(2026, 7, 1, 2, tzinfo=timezone(timedelta(hours=2)))
OPTIONS = frozenset({"--once", "--message"})


@dataclass(frozen=True)
class Task:
    dag_id: str = "load"
    task_id: str = "merge"
    map_index: int = -1


@dataclass(frozen=True)
class DagRun:
    logical_date: datetime | None = DATE
    run_id: str = "manual__2026-07-01T00:00:00+00:00_Xy"


def key(task: Task = Task(), run: DagRun = DagRun()) -> str:
    return once_key({"ti": task, "dag_run": run})


def test_a_key_names_the_dag_the_task_and_the_logical_date_in_utc() -> None:
    assert key() == "airflow/load/merge/2026-07-01T00:00:00+00:00"
    assert key(Task(map_index=3)) == "airflow/load/merge/2026-07-01T00:00:00+00:00/3"
    assert key(run=DagRun(run_id="backfill__1")) == key()
    manual = "airflow/load/merge/manual__2026-07-01T00:00:00+00:00_Xy"
    assert key(run=DagRun(logical_date=None)) == manual


def test_long_keys_are_shortened_and_stay_different() -> None:
    long = [key(Task("d" * 250, "t" * 250, index)) for index in (1, 2)]
    assert {len(each) for each in long} == {255}
    assert len(set(long)) == 2


@pytest.mark.parametrize(
    ("arguments", "once", "added"),
    [
        (["a"], True, ["--once", key()]),
        (["a"], "mine", ["--once", "mine"]),
        (["a"], False, []),
        (["--once", "own"], True, []),
        (["--once=own"], True, []),
    ],
)
def test_a_key_is_added_where_the_verb_takes_one(
    arguments: list[str], once: Any, added: list[str]
) -> None:
    context = {"ti": Task(), "dag_run": DagRun()}
    assert with_once(arguments, OPTIONS, once, context) == [*arguments, *added]
    assert with_once(arguments, OPTIONS - {"--once"}, once, context) == arguments


def test_a_sensor_compares_the_branch_or_a_path(airflow: Airflow, repo: Repository) -> None:
    main = repo.branch("main")
    start = main.head.id
    main.put("raw/a", b"1")
    main.put("other", b"1")
    first = main.commit("first").id
    main.put("raw/b", b"1")
    second = main.commit("second").id
    script = f"""
        import json
        from sparklake.airflow import SparklakeHook
        from sparklake.airflow.changes import change

        with SparklakeHook().get_conn() as lake:
            print(json.dumps([
                [change(lake, "lakefs://{repo.name}/main" + path, since) for path in
                 ("", "/", "/raw/", "/raw", "/raw/a", "/other", "/none")]
                for since in ("", {start!r}, {first!r}, {second!r})
            ]))
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    rows = json.loads(ran.log.splitlines()[-1])
    assert {head for row in rows for head, _ in row} == {second}
    assert [[has_changed for _, has_changed in row] for row in rows] == [
        [True] * 7,
        [True, True, True, False, True, True, False],
        [True, True, True, False, False, False, False],
        [False] * 7,
    ]


def test_a_sensor_waits_for_a_commit_with_metadata_in_the_triggerer(
    airflow: Airflow, repo: Repository, tmp_path: Path
) -> None:
    flag = tmp_path / "deferred"
    main = repo.branch("main")
    start = main.head.id
    script = f"""
        import asyncio, json, os, threading, time
        from sparklake.airflow import CommitSensor
        from sparklake.airflow.triggers import CommitTrigger
        from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

        def sensor(uri, **options):
            return CommitSensor(task_id="wait", uri=uri, since={start!r}, deferrable=True,
                                poke_interval=0.2, metadata={{"kind": "nightly"}}, **options)

        def event(trigger):
            kind, arguments = trigger.serialize()
            assert "password" not in json.dumps(arguments), arguments
            async def first():
                async for each in CommitTrigger(**arguments).run():
                    return each.payload
            return asyncio.run(first())

        task = sensor("lakefs://{repo.name}/main/raw/")
        try:
            task.execute({{}})
        except TaskDeferred as deferred:
            print("deferred", deferred.method_name)
            open("{flag}", "w").close()
            print("head", task.execute_complete({{}}, event(deferred.trigger)))
        gone = sensor("lakefs://{repo.name}/none")
        arguments = dict(uri=gone.uri, since="", metadata={{}}, poke_interval=1,
                         sparklake_conn_id="sparklake_default")
        try:
            gone.execute_complete({{}}, event(CommitTrigger(**arguments)))
        except AirflowFailException as error:
            print(error)
    """

    def write() -> None:
        patience = time.monotonic() + 60
        while not flag.exists() and time.monotonic() < patience:
            time.sleep(0.1)
        for path, kind in (("raw/a", "hourly"), ("other", "nightly"), ("raw/b", "nightly")):
            time.sleep(0.5)
            main.put(path, b"1")
            main.commit(path, metadata={"kind": kind})

    writer = Thread(target=write)
    writer.start()
    ran = airflow.python(textwrap.dedent(script))
    writer.join()
    assert ran.code == 0, ran.log
    assert "deferred execute_complete" in ran.log
    assert f"head {main.head.id}" in ran.log
    assert "has no branch 'none'" in ran.log


def test_a_path_counts_as_changed_since_an_expired_commit(
    airflow: Airflow, repo: Repository
) -> None:
    main = repo.branch("main")
    ids = []
    for body in (b"1", b"2"):
        main.put("raw/a", body)
        ids.append(main.commit("raw").id)
    repo.settings.set_retention(0, tree_days=0)
    repo.collect_garbage(grace=timedelta())
    with pytest.raises(ExpiredError):
        list(repo.diff(ids[0], "main"))
    script = f"""
        from sparklake.airflow import SparklakeHook
        from sparklake.airflow.changes import change

        with SparklakeHook().get_conn() as lake:
            print(change(lake, "lakefs://{repo.name}/main/other", {ids[0]!r}))
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    assert ran.log.rstrip().endswith(str((ids[1], True)))


def test_errors_are_retried_only_where_that_may_help(airflow: Airflow, repo: Repository) -> None:
    script = """
        import json
        from sparklake import errors
        from sparklake.airflow.failures import code_of_kind, failing
        from airflow.sdk.exceptions import AirflowException, AirflowFailException

        def outcome(error):
            try:
                with failing("verb"):
                    raise error
            except AirflowFailException as failed:
                return "failed", str(failed)
            except AirflowException as failed:
                return "retried", str(failed)

        found = [outcome(each("why")) for each in (
            errors.RaceLostError, errors.RefStoreUnavailableError, errors.IdempotencyKeyInUseError,
            errors.InvalidInputError, errors.NoChangesError, errors.RefNotFoundError)]
        kinds = [code_of_kind(each) for each in ("merge_conflict", "store", "of a later version")]
        print(json.dumps([found, kinds]))
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    found, kinds = json.loads(ran.log.splitlines()[-1])
    assert [each for each, _ in found] == ["retried"] * 3 + ["failed"] * 3
    assert found[3][1] == "sparklake verb failed with exit code 2: why"
    assert kinds == [3, 12, 1]


def test_logs_show_neither_the_dsn_nor_its_password(airflow: Airflow) -> None:
    script = """
        import logging
        from airflow.sdk.log import redact
        from sparklake.airflow import SparklakeHook

        place = SparklakeHook().place
        password = place.dsn.partition("password=")[2].split()[0]
        print(repr(place), redact(f"a DSN: {place.dsn}; a password: {password}"), len(password))
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    assert "a DSN: ***; a password: ***" in ran.log
    assert ran.log.rstrip().endswith(str(len(PASSWORD)))


def test_a_connection_without_a_lake_is_refused(airflow: Airflow) -> None:
    script = """
        import os
        os.environ["AIRFLOW_CONN_EMPTY"] = '{"conn_type": "sparklake", "host": "db"}'
        from airflow.sdk.exceptions import AirflowFailException
        from sparklake.airflow import SparklakeHook, SparklakeOperator

        try:
            SparklakeOperator(task_id="t", verb="repo list", sparklake_conn_id="empty").execute({})
        except AirflowFailException as error:
            print(error)
        print(SparklakeHook("empty").test_connection()[0])
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    assert "the connection 'empty' has no DSN and no home folder" in ran.log
    assert ran.log.rstrip().endswith("False")


def test_the_result_file_of_an_earlier_try_is_removed(airflow: Airflow, tmp_path: Path) -> None:
    earlier = tmp_path / "result.json"
    earlier.write_text('{"id": "of an earlier try"}')
    script = f"""
        from sparklake.airflow import SparklakeSubmitOperator

        task = SparklakeSubmitOperator(task_id="t", verb="merge", result_file="{earlier}")
        with task._result_path() as path:
            print(path, path.exists())
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    assert ran.log.rstrip().endswith(f"{earlier} False")


def test_statements_are_submitted_with_their_ref(airflow: Airflow) -> None:
    script = """
        from unittest.mock import patch
        from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
        from sparklake.airflow import SparklakeSubmitOperator

        task = SparklakeSubmitOperator(task_id="t", ref="lakefs://a/dev", sql="-- all\\nSHOW TAGS")
        with patch.object(SparkSubmitOperator, "execute"):
            task.execute({})
        *words, path, dashes, sql = task.application_args
        print(words, dashes, repr(sql))
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    words = ["sql", "--ref", "lakefs://a/dev", "--result-file"]
    assert ran.log.rstrip().endswith(f"{words} -- '-- all\\nSHOW TAGS'")


def test_only_a_regular_file_is_replaced_by_a_result(airflow: Airflow, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    script = f"""
        from airflow.sdk.exceptions import AirflowFailException
        from sparklake.airflow import SparklakeSubmitOperator

        task = SparklakeSubmitOperator(task_id="t", verb="merge", result_file="{tmp_path}/fifo")
        try:
            with task._result_path():
                print("submitted")
        except AirflowFailException as error:
            print(error)
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    assert "is not a regular file" in ran.log.splitlines()[-1]
    assert (tmp_path / "fifo").is_fifo()


def test_a_verb_that_does_not_exist_and_wrong_usage_are_refused(airflow: Airflow) -> None:
    script = """
        from airflow.sdk.exceptions import AirflowFailException
        from sparklake.airflow import SparklakeOperator, SparklakeSubmitOperator

        for kind, verb, arguments in (
            (SparklakeOperator, "mergee", []),
            (SparklakeOperator, "merge", ["lakefs://a/b", "--no-such"]),
            (SparklakeOperator, "merge", ["lakefs://none/b", "lakefs://none/c"]),
            (SparklakeSubmitOperator, "mergee", []),
        ):
            try:
                kind(task_id="t", verb=verb, arguments=arguments, once="k").execute({})
            except AirflowFailException as error:
                print(error)
    """
    ran = airflow.python(textwrap.dedent(script))
    assert ran.code == 0, ran.log
    assert ran.log.count("there is no command 'mergee'") == 2
    assert "exit code 2: Usage: sparklake merge" in ran.log
    assert "No such option: --no-such" in ran.log
    assert "exit code 13" in ran.log
