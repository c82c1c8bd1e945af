"""A real cluster: spark-submit, a driver, and executors that are processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.cluster import Cluster
from campaigns.postgres import public_folder, system_folder

APP = Path(__file__).with_name("cluster_app.py")
WRITE_APP = Path(__file__).with_name("write_app.py")

# A second copy of a task as soon as it takes longer than others: that there is one, is our default.
SPECULATION = {
    "spark_speculation_interval": "100ms",
    "spark_speculation_quantile": "0.1",
    "spark_speculation_multiplier": "1.1",
}


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_cluster_makes_the_same_trees_whatever_befalls_its_tasks(cluster: Cluster) -> None:
    with system_folder(), public_folder() as folder:
        ui = {"spark_ui_enabled": "true", "spark_ui_port": "0"}
        done = cluster.submit(APP, str(folder), **ui, **SPECULATION)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    said = json.loads(done.stdout.strip().rpartition("\n")[2])
    assert said["master"] == cluster.master, "what spark-submit says is not overridden"
    assert said["executors"] == 2
    assert all(f"{cluster.archive.name}/" in each for each in said["packages"])
    assert not said["near the ref store"]

    expected = said["trees"].pop("local")
    assert len(set(expected)) == 4
    assert len(said["trees"]) == 4
    for engine, trees in said["trees"].items():
        assert trees == expected, engine
    struck = said["struck by"]
    assert struck["exit_once"] == ["exited"], "after it had written, and it ran again"
    assert struck["kill_executor"] == ["killed"]
    assert struck["straggle"] == ["first", "second"]
    failed = struck["fail_first"]
    assert failed == [f"failed-{task}" for task in range(len(failed))]
    assert len(failed) > 2

    assert said["garbage"] == [40, 20, 20]

    # Imports of rows: the same tree, counts and table of errors, in which no row is twice.
    here = said["imports"].pop("local")
    assert here[3] == here[4]
    assert set(here[2]) == {"invalid_size", "duplicate_path"}
    assert said["imports"] == {"fail_first_ranges": here, "kill_encoder": here}
    assert struck["fail_first_ranges"][0] == "failed-0"
    assert struck["kill_encoder"] == ["killed"]

    assert {
        "sparklake import spark: main",
        "sparklake stage spark: ours",
        "sparklake commit spark: theirs",
        "sparklake merge spark: theirs -> ours",
    } <= set(said["jobs"])
    assert "" not in said["jobs"]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_cluster_stages_what_a_job_has_committed_whatever_befalls_its_tasks(
    cluster: Cluster,
) -> None:
    with system_folder(), public_folder() as folder:
        done = cluster.submit(WRITE_APP, str(folder), **SPECULATION)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    said = json.loads(done.stdout.strip().rpartition("\n")[2])
    failed = said.pop("fail_always")
    assert (failed["failed"], failed["rows"], failed["staged"]) == (True, [0, 0], 0)
    assert failed["writes"] == ["abandoned"]
    for name, each in said.items():
        assert not each["failed"], name
        assert each["rows"] == [400, sum(range(400))], name
        assert each["staged"] == 12, name
        assert each["staged is all"], name
        assert each["writes"] == [], name
    assert said["fail_first"]["marks"] == [f"failed-{number}" for number in range(4)]
    assert said["kill_executor"]["marks"] == ["killed"]
    assert said["straggle"]["marks"] == ["first", "second"]
