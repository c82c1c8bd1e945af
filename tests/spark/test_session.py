"""The session that sparklake makes when there is none, and what it says without Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from benchmarks.spark import JARS
from sparklake import session
from sparklake.engine.choice import Runners
from sparklake.errors import MissingDependencyError

OWN_SESSION = """
import json
import sys
from sparklake.engine.choice import Runners
from sparklake.session import active_session, spark_session

assert active_session() is None
spark = spark_session("an app")
runners = Runners("spark")
assert active_session() is spark is runners.session()
names = ["spark.app.name", "spark.master", "spark.ui.enabled", "spark.sql.session.timeZone"]
spark.range(10).write.format("delta").save(sys.argv[1])
rows = spark.read.format("delta").load(sys.argv[1]).count()
print(json.dumps([spark.conf.get(name) for name in names] + [rows]))
spark.stop()
assert active_session() is None
assert runners.session() is active_session() is not spark
active_session().stop()
"""


BARE_SESSION = """
import sys
from pyspark.sql import SparkSession
from sparklake.errors import MissingDependencyError
from sparklake.frames.tables.spark_sources import check_delta
from sparklake.session import find_java_home
import os

os.environ["JAVA_HOME"] = str(find_java_home())
bare = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for package in ("installed", "missing"):
    try:
        check_delta(bare)
    except MissingDependencyError as error:
        print(error)
    sys.modules["delta"] = None
"""

NOWHERE = """
<ivysettings>
  <settings defaultResolver="nothing"/>
  <resolvers>
    <filesystem name="nothing"><artifact pattern="{}/[artifact].jar"/></filesystem>
  </resolvers>
</ivysettings>
"""


POM = """<project><modelVersion>4.0.0</modelVersion><groupId>io.delta</groupId>
<artifactId>{}</artifactId><version>{}</version></project>
"""


def _run(code: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, env={**environment, **more}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.system
@pytest.mark.spark
def test_a_session_of_our_own_is_local_and_quiet_and_has_delta(tmp_path: Path) -> None:
    done = _run(OWN_SESSION, str(tmp_path / "table"), SPARKLAKE_JARS=str(JARS))
    assert json.loads(done.stdout) == ["an app", "local[*]", "false", "UTC", 10]
    assert done.stderr == ""


@pytest.mark.system
@pytest.mark.spark
def test_a_session_starts_without_delta_where_its_jars_cannot_be_had(tmp_path: Path) -> None:
    settings = tmp_path / "ivy.xml"
    settings.write_text(NOWHERE.format(tmp_path))
    defaults = f"spark.jars.ivySettings {settings}\n"
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    code = "from sparklake.session import spark_session; print(spark_session().range(7).count())"
    done = _run(code, HOME=str(tmp_path), SPARK_CONF_DIR=str(tmp_path))
    # Spark itself reports the settings.
    assert done.stdout.splitlines()[-1] == "7"
    (warning,) = done.stderr.splitlines()
    assert "this session has no Delta, because the jars of io.delta:delta-spark_" in warning
    assert "set SPARKLAKE_JARS to a folder with these jars" in warning
    assert "UNRESOLVED" in next(tmp_path.glob(".ivy*/sparklake.log")).read_text()


@pytest.mark.system
@pytest.mark.spark
def test_what_a_session_lacks_for_delta_is_named() -> None:
    installed, missing = _run(BARE_SESSION).stdout.splitlines()
    for said in (installed, missing):
        for name, value in (session.DELTA_EXTENSION, session.DELTA_CATALOG):
            assert f"the setting {name}={value}" in said
    assert f"it lacks the jar {session.delta_package()} and" in installed
    assert "pip" not in installed
    assert "it lacks the jar io.delta:delta-spark and" in missing
    assert "pip install 'sparklake[delta]', and start one" in missing


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("SPARKLAKE_JARS")
    return tmp_path


@pytest.mark.system
def test_deltas_jars_are_downloaded_once(home: Path) -> None:
    package = session.delta_package()
    assert package is not None
    _, artifact, version = package.split(":")
    repository = home / "repository" / "io" / "delta"
    for name in (artifact, "delta-storage"):
        folder = repository / name / version
        folder.mkdir(parents=True)
        with ZipFile(folder / f"{name}-{version}.jar", "w") as jar:
            jar.writestr("a", "")
        (folder / f"{name}-{version}.pom").write_text(POM.format(name, version))
    (home / "spark-defaults.conf").write_text(
        f"spark.jars.repositories {(home / 'repository').as_uri()}\n"
    )
    settings = session._jar_settings()
    assert settings.items() >= {session.DELTA_EXTENSION, session.DELTA_CATALOG}
    jars = [Path(each) for each in settings["spark.jars"].split(",")]
    shutil.rmtree(home / "repository")
    assert session._jar_settings() == settings
    jars[0].write_bytes(b"interrupted")
    (home / "spark-defaults.conf").write_text(f"spark.jars.ivySettings {home / 'ivy.xml'}\n")
    (home / "ivy.xml").write_text(NOWHERE.format(home))
    assert session._jar_settings() == {}


def test_the_users_own_settings_of_spark_are_extended(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "spark-defaults.conf").write_text(
        "# ours\nspark.jars.packages  org.apache.hadoop:hadoop-aws:3.5.0\n"
        "spark.jars=/opt/one.jar\nspark.sql.extensions my.Extension\n"
        "spark.sql.catalog.spark_catalog my.Catalog\n"
    )
    monkeypatch.setenv("SPARKLAKE_JARS", str(home))
    jar = "delta-spark_4.2_2.13-4.4.0.jar"
    (home / jar).touch()
    settings = session._jar_settings()
    assert settings["spark.jars"] == f"/opt/one.jar,{home}/{jar}"
    assert settings["spark.sql.extensions"] == f"my.Extension,{session.DELTA_EXTENSION[1]}"
    # Their packages and their catalog are theirs.
    assert not settings.keys() & {"spark.jars.packages", "spark.sql.catalog.spark_catalog"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages a:b:1 pyspark-shell")
    assert session._jar_settings() == {}


def test_without_delta_spark_only_the_users_jars_are_added(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "delta", None)
    assert session._jar_settings() == {}
    monkeypatch.setenv("SPARKLAKE_JARS", str(home))
    (home / "two.jar").touch()
    assert session._jar_settings() == {"spark.jars": f"{home}/two.jar"}
    (home / "delta-spark_4.2_2.13-4.4.0.jar").touch()
    assert session._jar_settings().items() >= {session.DELTA_EXTENSION, session.DELTA_CATALOG}


def test_without_spark_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    message = r"cannot be imported \(.*halted.*\): pip install 'sparklake\[spark\]', or use"
    with pytest.raises(MissingDependencyError, match=message):
        session.spark_session()
    with pytest.raises(MissingDependencyError, match=message):
        Runners("spark").session()


def test_no_session_is_at_hand_where_spark_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert session.active_session() is None
    assert "pyspark" not in sys.modules
