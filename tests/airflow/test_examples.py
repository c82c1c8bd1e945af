"""The example DAGs, run by `airflow dags test`: success, retries after kills, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklake import Repository
from tests.airflow.conftest import IS_2, Airflow, adapted

# `airflow dags test` of Airflow 2 prints each line of a task twice.
LOGGED = 2 if IS_2 else 1

# Kills the process that runs the hook, once.
KILL_ONCE = """
on: {{{event}: {{branches: [main]}}}}
hooks:
  - id: kill
    type: shell
    properties:
      shell: true
      command: 'mkdir {flag} 2>/dev/null && kill -9 $PPID; true'
"""


def kill_once(repo: Repository, event: str, flag: Path) -> None:
    """Let a hook kill the first process that meets an event of main."""
    main = repo.branch("main")
    main.put("_sparklake/hooks/kill.yaml", KILL_ONCE.format(event=event, flag=flag).encode())
    main.commit("add a hook")


def inbox(folder: Path, date: str, **files: str) -> str:
    place = folder / "inbox"
    (place / date).mkdir(parents=True)
    for name, text in files.items():
        (place / date / f"{name}.csv").write_text(text)
    return str(place)


def messages(repo: Repository, ref: str = "main") -> list[str]:
    return [each.message for each in repo.log(ref, first_parent=True)]


def branches(repo: Repository) -> set[str]:
    return {each.name for each in repo.branches()} - {"main"}


def branch_of(date: str) -> str:
    return f"orders_load-load-{date.replace('-', '')}T000000"


# --- one process, no JVM --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "date"), [("pre-merge", "2026-07-01"), ("post-merge", "2026-07-02")]
)
def test_a_run_that_is_killed_and_repeated_takes_effect_once(
    airflow: Airflow, repo: Repository, tmp_path: Path, event: str, date: str
) -> None:
    params = {"inbox": inbox(tmp_path, date, a="1,2", b="3"), "repository": repo.name}
    kill_once(repo, event, tmp_path / "killed")
    before = messages(repo)
    died = airflow.test("orders_load", date, **params)
    assert died.code == -9, died.log
    is_merged = event == "post-merge"
    assert len(messages(repo)) - len(before) == is_merged
    head = repo.branch("main").head.id

    ran = airflow.test("orders_load", date, **params)
    assert ran.code == 0, ran.log
    result = airflow.results("orders_load", "load.merge")[-1]
    assert result["id"] == repo.branch("main").head.id
    assert result.get("repeated", False) is is_merged
    assert (result["id"] == head) is is_merged
    assert len(messages(repo)) == len(before) + 1
    written = airflow.results("orders_load", "load.write")[-1]
    assert written["repeated"]
    assert repo.read_bytes("main", f"orders/{date}/a.csv") == b"1,2"
    assert branches(repo) == {branch_of(date)}


def test_a_failed_check_and_a_conflict_leave_the_branch_and_name_it(
    airflow: Airflow, repo: Repository, tmp_path: Path
) -> None:
    date = "2026-07-03"
    params = {"inbox": inbox(tmp_path, date, a="1,2", b=""), "repository": repo.name}
    path, uri = f"orders/{date}/b.csv", f"lakefs://{repo.name}/{branch_of(date)}"
    head = repo.branch("main").head.id

    ran = airflow.test("orders_load", date, **params)
    assert ran.code == 1
    assert "1 of 2 files are empty" in ran.log
    assert f"{uri} is not merged into lakefs://{repo.name}/main" in ran.log
    assert f"sparklake branch delete {uri} --discard-staged" in ran.log
    states = airflow.states("orders_load", date)
    assert states["load.check"] == "failed"
    assert states["load.merge"] == "upstream_failed"
    assert repo.branch("main").head.id == head
    assert branches(repo) == {branch_of(date)}

    # Somebody corrects the branch, and somebody else writes the same file to main.
    repo.branch(branch_of(date)).put(path, b"3")
    repo.branch("main").put(path, b"4")
    theirs = repo.branch("main").commit("another load")
    ran = airflow.test("orders_load", date, **params)
    assert ran.code == 1
    assert airflow.states("orders_load", date)["load.merge"] == "failed"
    assert "failed with exit code 3" in ran.log
    assert ran.log.count("sparklake merge lakefs://") == LOGGED, "a conflict is not retried"
    assert f"{uri} is not merged into" in ran.log
    assert repo.branch("main").head.id == theirs.id

    # Errors are not recorded with the key, so the run succeeds when the reason is gone.
    repo.branch("main").revert(theirs.id)
    ran = airflow.test("orders_load", date, **params)
    assert ran.code == 0, ran.log
    assert repo.read_bytes("main", path) == b"3"


def test_a_sensor_waits_for_changes_since_its_last_run(airflow: Airflow, repo: Repository) -> None:
    heads = [repo.branch("main").head.id]
    assert airflow.test("on_commit", "2026-07-04", repository=repo.name).code == 0
    # With a third run, more than one earlier run has returned a commit.
    for date in ("2026-07-05", "2026-07-06"):
        repo.branch("main").put("raw/a", date.encode())
        heads.append(repo.branch("main").commit("raw").id)
        ran = airflow.test("on_commit", date, repository=repo.name)
        assert ran.code == 0, ran.log
        assert f"compared with {heads[-2]}" in ran.log
    assert airflow.results("on_commit", "wait")[-3:] == heads
    assert [each.commit_id for each in repo.tags()] == heads


ALERT = """
from datetime import datetime, timezone
from airflow.sdk import dag, task
from sparklake.airflow import SparklakeOperator, branch_per_run

@dag(
    schedule=None,
    start_date=datetime(2026, 7, 1, tzinfo=timezone.utc),
    params={"repository": ""},
    default_args={"trigger_rule": "all_done"},
)
def alert():
    with branch_per_run("load", repository="{{ params.repository }}") as load:
        write = SparklakeOperator(task_id="write", verb="rm", arguments=[load.path("a")])

        @task
        def check():
            raise ValueError("the check failed")

        @task
        def tell():
            print("told")

        write >> check() >> tell()

alert()
"""


def test_a_failed_check_is_not_merged_although_a_task_after_it_succeeds(
    airflow: Airflow, repo: Repository, tmp_path: Path
) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "alert.py").write_text(adapted(ALERT))
    folder = {"AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags")}
    airflow = replace(airflow, environment={**airflow.environment, **folder})
    repo.branch("main").put("a", b"1")
    head = repo.branch("main").commit("a").id
    date = "2026-07-09"
    ran = airflow.test("alert", date, repository=repo.name)
    assert ran.code == 1, ran.log
    states = airflow.states("alert", date)
    assert states["load.check"] == "failed"
    assert states["load.tell"] == "success"
    assert {states[f"load.{each}"] for each in ("no_failure", "commit", "merge")} == {
        "upstream_failed"
    }
    assert repo.branch("main").head.id == head


# --- spark-submit ---------------------------------------------------------------------------------


def test_a_table_is_written_by_spark_on_a_branch_and_merged(
    airflow: Airflow, repo: Repository, tmp_path: Path
) -> None:
    date = "2026-07-06"
    (tmp_path / "source" / date).mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "source" / date / "part.parquet")
    params = {"source": str(tmp_path / "source"), "repository": repo.name}
    ran = airflow.test("orders_on_spark", date, **params)
    assert ran.code == 0, ran.log
    (written,) = airflow.results("orders_on_spark", "load.append")
    assert "repeated" not in written
    (merged,) = airflow.results("orders_on_spark", "load.merge")
    assert merged["id"] == repo.branch("main").head.id
    paths = [each.path for each in repo.objects("main", "tables/orders/")]
    assert [each for each in paths if each.endswith(".parquet")]


def test_airflow_retries_a_killed_driver_and_gets_the_first_result(
    airflow: Airflow, repo: Repository, tmp_path: Path
) -> None:
    date = "2026-07-07"
    kill_once(repo, "post-merge", tmp_path / "killed")
    nightly = repo.create_branch("nightly", "main")
    nightly.put("new", b"1")
    nightly.commit("new")
    before = messages(repo)
    ran = airflow.test("nightly_merge", date, repository=repo.name)
    assert ran.code == 0, ran.log
    assert (tmp_path / "killed").is_dir()
    (merged,) = airflow.results("nightly_merge", "merge")
    assert merged["repeated"] is True
    assert merged["id"] == repo.branch("main").head.id
    assert len(messages(repo)) == len(before) + 1


def test_a_conflict_that_a_job_reports_is_not_retried(airflow: Airflow, repo: Repository) -> None:
    nightly = repo.create_branch("nightly", "main")
    for branch, body in ((nightly, b"1"), (repo.branch("main"), b"2")):
        branch.put("same", body)
        branch.commit("change")
    head = repo.branch("main").head.id
    ran = airflow.test("nightly_merge", "2026-07-08", repository=repo.name)
    assert ran.code == 1
    assert "sparklake merge failed with exit code 3: the merge was not applied" in ran.log
    assert ran.log.count("Spark-Submit cmd") == LOGGED
    assert repo.branch("main").head.id == head
