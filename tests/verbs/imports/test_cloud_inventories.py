"""Imports of Azure Blob Inventories and of reports of Google's Storage Insights."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from datetime import datetime, timezone
from hashlib import md5
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from sparklake import Branch, Inventory, Lake, Repository
from sparklake.errors import CorruptFileError, InvalidInputError
from sparklake.stores.objects import open_store
from sparklake.testing.azurite import container_client, fresh_container
from sparklake.testing.lakes import contents
from tests.support.gcs_server import Buckets, fresh_gcs_bucket

TIME = datetime(2024, 5, 31, 12, 30, 1, tzinfo=timezone.utc)
BODIES = {"raw/a b%20.csv": b"odd", "raw/deep/é": b"deep", "raw/_SUCCESS": b"", "other/z": b"z"}
NONE_OF_THEM = ["folder", "old version", "snapshot", "gone"]


def encoded(rows: pa.Table, form: str) -> bytes:
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(rows, sink)
    else:
        csv.write_csv(rows, sink)
    return sink.getvalue()


@pytest.fixture
def repo(small_lake: Lake, azure_env: dict[str, str]) -> Repository:
    return small_lake.create_repository("lake", fresh_container(azure_env))


def azure_inventory(container: str, client: Any, form: str, **changes: Any) -> str:
    """Put objects and their inventory; return the URI of its manifest."""
    name = container.rpartition("/")[2]
    for key, body in BODIES.items():
        client.upload_blob(key, body, overwrite=True)
    store = open_store(container)
    keys = [f"{name}/{key}" for key in [*BODIES, *NONE_OF_THEM]] + ["elsewhere/raw/a"]
    etags = [store.find(key).checksum for key in BODIES] + ["0x1"] * 5  # type: ignore[union-attr]
    times: Any = pa.array([TIME] * 9, pa.timestamp("ms", tz="UTC"))
    texts = pa.array(["2024-05-31T12:30:01.0000000Z"[:23] + "Z"] * 9)
    columns = {
        "Name": keys,
        "Content-Length": [*map(len, BODIES.values()), 0, 1, 1, 1, 1],
        "ETag": etags,
        "Last-Modified": times if form == "parquet" else texts,
        "hdi_isfolder": [""] * 4 + ["true"] + [""] * 4,
        "IsCurrentVersion": ["true"] * 5 + ["false"] + ["true", "", ""],
        "Snapshot": [""] * 6 + ["2024-05-30T00:00:00Z", "", ""],
        "Deleted": [""] * 7 + ["true", ""],
    }
    client.upload_blob(f"inv/rule.{form}", encoded(pa.table(columns), form), overwrite=True)
    manifest = {
        "destinationContainer": name,
        "endpoint": container.rpartition("/")[0],
        "files": [{"blob": f"inv/rule.{form}", "size": 1}],
        "ruleDefinition": {"format": form, "objectType": "blob", "schemaFields": list(columns)},
        "status": "Succeeded",
        **changes,
    }
    client.upload_blob("inv/rule-manifest.json", json.dumps(manifest), overwrite=True)
    return f"{container}/inv/rule-manifest.json"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_inventory_of_azure(repo: Repository, azure_env: dict[str, str], form: str) -> None:
    main = repo.branch("main")
    container = fresh_container(azure_env)
    name = container.rpartition("/")[2]
    manifest = azure_inventory(container, container_client(azure_env, name), form)
    with pytest.raises(InvalidInputError, match="choose one with a prefix"):
        main.import_objects(Inventory(manifest))
    main.import_objects(Inventory(manifest, name))
    found = {each.path: each for each in repo.objects("main")}
    assert set(found) == set(BODIES)
    store = open_store(container)
    for path, each in found.items():
        stored = store.find(path)
        assert stored is not None
        assert (each.size, each.checksum) == (stored.size, stored.checksum)
        assert each.address == f"{container}/{path}"
        assert each.mtime == int(TIME.timestamp()) * 10**9
    main.import_objects(Inventory(manifest, f"{name}/raw"), "part")


def test_inventories_of_azure_that_cannot_be_used(main: Branch, azure_env: dict[str, str]) -> None:
    container = fresh_container(azure_env)
    client = container_client(azure_env, container.rpartition("/")[2])
    rule = {"format": "csv", "objectType": "blob", "schemaFields": ["Name", "Content-Length"]}
    for changes, words in (
        ({"status": "Pending"}, "complete inventory"),
        ({"ruleDefinition": {**rule, "objectType": "container"}}, "complete inventory"),
        ({"ruleDefinition": {**rule, "schemaFields": ["Name"]}}, "optional field Content-Length"),
        ({"ruleDefinition": {**rule, "format": "avro"}}, "only Parquet, ORC and CSV"),
        ({"files": None}, "not the manifest"),
        ({"endpoint": "https://host"}, "does not name a container"),
    ):
        manifest = azure_inventory(container, client, "csv", **changes)
        with pytest.raises(InvalidInputError, match=words):
            main.import_objects(Inventory(manifest, "x"))
    manifest = azure_inventory(container, client, "csv")
    client.upload_blob("inv/rule.csv", b"a,b\n1,2\n", overwrite=True)
    with pytest.raises(CorruptFileError, match="does not match its manifest"):
        main.import_objects(Inventory(manifest, "x"))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_report_of_google(
    small_lake: Lake, gcs_env: dict[str, str], gcs_double: tuple[str, Buckets], form: str
) -> None:
    uri = fresh_gcs_bucket(gcs_double[1])
    name = uri.removeprefix("gs://")
    for key, body in BODIES.items():
        gcs_double[1].put(name, key, body, None)
    digests = [b64encode(md5(each).digest()).decode() for each in BODIES.values()]
    texts: Any = pa.array([f"2024-05-31T12:30:0{1}.000Z"] * 5)
    times = pa.array([TIME] * 5, pa.timestamp("us", tz="UTC"))
    rows = pa.table(
        {
            "bucket": [name] * 5,
            "name": [*BODIES, "gone"],
            "size": [*map(len, BODIES.values()), 1],
            # A composite object has no MD5: its checksum is looked up.
            "md5Hash": ["", *digests[1:], "x"],
            "updated": times if form == "parquet" else texts,
            "timeDeleted": [""] * 4 + ["2024-05-31T12:30:01Z"],
        }
    )
    parts = [f"id_2024-05-31T00:00_{number}.{form}" for number in range(2)]
    for part, piece in zip(parts, (rows.slice(0, 2), rows.slice(2)), strict=True):
        gcs_double[1].put(name, f"reports/{part}", encoded(piece, form), None)
    options = {"metadata_fields": rows.schema.names, "storage_filters": {"bucket": name}}
    manifest = {
        "report_config": {"object_metadata_report_options": options},
        "report_shards_file_names": parts,
    }
    gcs_double[1].put(name, "reports/manifest.json", json.dumps(manifest).encode(), None)
    repo = small_lake.create_repository("lake", f"{uri}/lake")
    repo.branch("main").import_objects(Inventory(f"{uri}/reports/manifest.json"))
    assert contents(repo, "main") == BODIES
    for each in repo.objects("main"):
        assert each.checksum == md5(BODIES[each.path]).hexdigest()
        assert each.address == f"{uri}/{each.path}"
        assert each.mtime == int(TIME.timestamp()) * 10**9
    repo.branch("main").import_objects(Inventory(f"{uri}/reports/manifest.json", "raw/"), "part")
    assert contents(repo, "main")["part/deep/é"] == b"deep"
