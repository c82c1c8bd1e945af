"""The session that sparklake makes when there is none, and what it says without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from sparklake import session
from sparklake.engine.choice import Runners
from sparklake.errors import MissingDependencyError

OWN_SESSION = """
import json
from sparklake.engine.choice import Runners
from sparklake.session import active_session, spark_session

assert active_session() is None
spark = spark_session("an app")
runners = Runners("spark")
assert active_session() is spark is runners.session()
names = ["spark.app.name", "spark.master", "spark.ui.enabled", "spark.sql.session.timeZone"]
print(json.dumps([spark.conf.get(name) for name in names] + [spark.range(10).count()]))
spark.stop()
assert active_session() is None
assert runners.session() is active_session() is not spark
active_session().stop()
"""


@pytest.mark.system
@pytest.mark.spark
def test_a_session_of_our_own_is_local_and_quiet() -> None:
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    command = [sys.executable, "-c", OWN_SESSION]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["an app", "local[*]", "false", "UTC", 10]
    noise = [line for line in done.stderr.splitlines() if "incubator" not in line]
    assert noise == []


def test_without_spark_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    message = r"pip install 'sparklake\[spark\]', or use --engine local"
    with pytest.raises(MissingDependencyError, match=message):
        session.spark_session()
    with pytest.raises(MissingDependencyError, match=message):
        Runners("spark").session()


def test_no_session_is_at_hand_where_spark_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert session.active_session() is None
    assert "pyspark" not in sys.modules
