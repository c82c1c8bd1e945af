"""Delta tables with Iceberg metadata beside (UniForm): their logs unite, the metadata are files."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from sparklake.testing.lakes import contents
from tests.support.delta_desks import names
from tests.support.table_pairs import Pair, repository
from tests.support.written_tables import Action, WrittenTable, add, created

TABLE = "tables/t/"
HINT = "metadata/version-hint.text"
_CONFIGURATION = {
    "delta.universalFormat.enabledFormats": "iceberg",
    "delta.enableIcebergCompatV2": "true",
    "delta.columnMapping.mode": "name",
}


def uniform() -> list[Action]:
    protocol, metadata = created("t")
    features = {"minWriterVersion": 7, "writerFeatures": ["columnMapping", "icebergCompatV2"]}
    protocol["protocol"] |= {"minReaderVersion": 2, **features}
    metadata["metaData"]["configuration"] = _CONFIGURATION
    return [protocol, metadata]


@pytest.fixture
def pair(folder: Path) -> Pair:
    """Is an imported table of the file f1, with metadata, on two branches."""
    actions = [*uniform(), add("f1")]
    files = {
        f"_delta_log/{names(0)[0]}": "".join(f"{json.dumps(each)}\n" for each in actions),
        "f1": "f1",
        "metadata/v1.metadata.json": "{}",
        HINT: "1",
    }
    place = folder / "elsewhere"
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    repo = repository(folder, 3)
    repo.branch("main").import_objects(str(place), TABLE)
    assert contents(repo, "main") == {TABLE + name: text.encode() for name, text in files.items()}
    repo.create_branch("dev", "main")
    pair = Pair(repo, WrittenTable(repo, "main"), WrittenTable(repo, "dev"))
    for table in (pair.main, pair.dev):
        table.change(add(table.branch))
        repo.branch(table.branch).put(f"{TABLE}metadata/v2-{table.branch}.metadata.json", b"{}")
        table.commit()
    return pair


def files_of_view(pair: Pair) -> set[str]:
    """Return the contents of the files in the view of main, which are their names."""
    log = Path(unquote(urlparse(pair.repo.view("main", TABLE)).path)) / "_delta_log"
    lines = [line for each in log.glob("*.json") for line in each.read_text().splitlines()]
    adds = [each["add"]["path"] for each in map(json.loads, lines) if "add" in each]
    return {Path(unquote(urlparse(each).path)).read_text() for each in adds}


def test_appends_unite_beside_the_metadata_of_both_sides(pair: Pair) -> None:
    pair.repo.merge("dev", "main")
    assert pair.main.state().files == files_of_view(pair) == {"f1", "main", "dev"}
    assert not pair.main.state().lost
    assert pair.main.state().created == uniform()
    found = {each.path.removeprefix(TABLE) for each in pair.repo.objects("main", TABLE)}
    metadata = {f"metadata/{each}.metadata.json" for each in ("v1", "v2-main", "v2-dev")}
    assert {each for each in found if each.startswith("metadata/")} == {HINT, *metadata}


def test_metadata_that_both_sides_changed_is_a_conflict(pair: Pair) -> None:
    for table in (pair.main, pair.dev):
        pair.repo.branch(table.branch).put(TABLE + HINT, table.branch.encode())
        table.commit()
    pair.refused("both sides changed the Iceberg metadata of a Delta table")
    pair.repo.merge("dev", "main", "source-wins")
    assert contents(pair.repo, "main")[TABLE + HINT] == b"dev"
    assert pair.main.state().files == files_of_view(pair) == {"f1", "main", "dev"}
