"""The example project of dbt runs on a branch, which is merged."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from campaigns.postgres import embedded_home
from sparklake import Repository, connect
from sparklake.dbt import _LakeSql, main
from sparklake.session import find_java_home

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "dbt"

# dbt and Python 3.13 disagree about what is deprecated.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Return a repository with a branch dev, where dbt finds a copy of the example."""
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    with embedded_home() as home, connect(home=home) as lake:
        for name, value in {
            "SPARKLAKE_HOME": home,
            "JAVA_HOME": find_java_home(),
            "DBT_PROJECT_DIR": project,
            "DBT_PROFILES_DIR": project,
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        }.items():
            monkeypatch.setenv(name, str(value))
        repo = lake.create_repository("lake", str(tmp_path / "storage"))
        put_orders(repo, "main", {"id": [1, 2], "price": [10.0, 25.0]})
        repo.branch("main").commit("orders")
        repo.create_branch("dev")
        yield repo


def put_orders(repo: Repository, branch: str, columns: dict[str, list[float | None]]) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    repo.branch(branch).put("tables/orders/1.parquet", file.getvalue())


def rows(repo: Repository, ref: str, table: str) -> list[dict[str, Any]]:
    files = [each for each in repo.objects(ref, f"models/{table}/") if ".parquet" in each.path]
    bodies = (pq.read_table(io.BytesIO(repo.read_bytes(ref, each.path))) for each in files)
    return sorted((row for body in bodies for row in body.to_pylist()), key=repr)


def test_tables_are_listed_with_their_formats(repo: Repository) -> None:
    for path in (
        "parquet/1.parquet",
        "delta/_delta_log/00000000000000000000.json",
        "iceberg/metadata/v1.metadata.json",
    ):
        repo.branch("dev").put(f"models/{path}", b"{}")
    with connect() as lake:
        names = dict(_LakeSql(lake)._names("lakefs.lake.dev.models"))
    assert names == {each: each for each in ("parquet", "delta", "iceberg")}


@pytest.mark.timeout(300)
def test_models_are_built_on_a_branch_and_merged(repo: Repository) -> None:
    dev = repo.branch("dev")
    assert main(["build"]) == 0
    assert dev.head.message.startswith("dbt ")
    assert not dev.is_dirty
    assert rows(repo, "dev", "totals") == [{"orders": 2, "price": 70.0}]
    assert main(["run", "--select", "history", "totals"]) == 0  # Adds rows, and replaces rows.
    assert len(rows(repo, "dev", "history")) == 4
    assert rows(repo, "dev", "totals") == [{"orders": 2, "price": 70.0}]
    head = dev.head.id
    assert main(["test"]) == 0
    assert dev.head.id == head
    put_orders(repo, "dev", {"id": [3], "price": [None]})
    assert main(["build", "--select", "prices"]) == 1  # Its test fails, and nothing is committed.
    assert (dev.head.id, dev.is_dirty) == (head, True)
    dev.reset()
    assert rows(repo, "main", "totals") == []
    repo.merge("dev", "main")
    assert rows(repo, "main", "prices") == [{"id": 1, "price": 20.0}, {"id": 2, "price": 50.0}]


SEED = """\
id,name,price,since,active
9007199254740993,O'Neil \\n 50%,1.5,2024-01-31,true
2,,,,
"""


@pytest.mark.timeout(300)
def test_seeds_are_tables_of_the_branch(repo: Repository) -> None:
    project = Path(os.environ["DBT_PROJECT_DIR"])
    (project / "seeds").mkdir()
    (project / "seeds" / "people.csv").write_text(SEED)
    with (project / "dbt_project.yml").open("a") as file:
        file.write("\nseeds:\n  +column_types: {id: bigint}\n")
    (project / "models" / "names.sql").write_text("select name from {{ ref('people') }}")
    assert main(["build", "--select", "people", "names"]) == 0
    expected = [
        {
            "id": 9007199254740993,
            "name": "O'Neil \\n 50%",
            "price": 1.5,
            "since": date(2024, 1, 31),
            "active": True,
        },
        {"id": 2, "name": None, "price": None, "since": None, "active": None},
    ]
    by_id = sorted(rows(repo, "dev@", "people"), key=lambda row: -row["id"])
    assert by_id == expected
    assert len(rows(repo, "dev@", "names")) == 2
    (project / "seeds" / "people.csv").write_text(SEED.replace("O'Neil", "Neil"))
    assert main(["seed"]) == 0  # Replaces the rows.
    assert [row["name"] for row in rows(repo, "dev", "people") if row["name"]] == ["Neil \\n 50%"]
    assert rows(repo, "main", "people") == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("branch", "name"), [("pr_12", "pr_12"), ("fix-1", "`fix-1`")])
def test_a_target_for_each_branch(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, branch: str, name: str
) -> None:
    repo.create_branch(branch, "main")
    head = repo.branch("main").head.id
    monkeypatch.setenv("LAKE_BRANCH", name)
    assert main(["build", "--target", "ci"]) == 0
    assert rows(repo, branch, "totals") == [{"orders": 2, "price": 70.0}]
    others = [repo.branch(each) for each in ("dev", "main")]
    assert [(each.head.id, each.is_dirty) for each in others] == [(head, False)] * 2


@pytest.mark.timeout(300)
def test_ephemeral_models_previews_and_docs(
    repo: Repository, capfd: pytest.CaptureFixture[str]
) -> None:
    project = Path(os.environ["DBT_PROJECT_DIR"])
    selected = (
        "{{ config(materialized='ephemeral') }} select * from {{ ref('prices') }} where id = 2"
    )
    (project / "models" / "selected.sql").write_text(selected)
    (project / "models" / "shown.sql").write_text(
        "select price + 7 as cost from {{ ref('selected') }}"
    )
    assert main(["build", "--select", "prices", "selected", "shown"]) == 0
    assert rows(repo, "dev", "shown") == [{"cost": 57.0}]
    assert rows(repo, "dev", "selected") == []
    assert main(["show", "--select", "shown"]) == 0
    assert re.search(r"cost[^\w]*57", capfd.readouterr().out)
    assert main(["docs", "generate"]) == 0
    nodes = json.loads((project / "target" / "catalog.json").read_text())["nodes"]
    assert nodes["model.shop.shown"]["columns"].keys() == {"cost"}


def test_views_are_refused(repo: Repository, capfd: pytest.CaptureFixture[str]) -> None:
    view = Path(os.environ["DBT_PROJECT_DIR"], "models", "totals.sql")
    view.write_text("{{ config(materialized='view') }} select 1 as id")
    assert main(["run", "--select", "totals"]) == 1
    assert "lakefs.lake.dev.models.totals cannot be a view" in capfd.readouterr().out
    assert not repo.branch("dev").is_dirty


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "dbt.md").read_text(encoding="utf-8")
    fences = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    files = [each.read_text(encoding="utf-8") for each in EXAMPLE.rglob("*.sql")]
    assert len(fences) == 2
    assert [each for each in fences if not any(each in text for text in files)] == []
