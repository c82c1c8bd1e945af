"""Staging of objects and tables, as campaign cases."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from campaigns.faults.scenes import Scene, VerbCase
from campaigns.faults.table_writes import edit_delta, edit_iceberg, iceberg_append, write
from sparklake.errors import NoChangesError, ObjectNotFoundError, WriteFinishedError
from sparklake.stores.objects import normalise_store_uri, open_store
from sparklake.testing.lakes import stage_table
from sparklake.verbs.tables.write_request import WriteMode

DELTA_APPEND = (
    b'{"add":{"path":"part-1","partitionValues":{},"size":6,"modificationTime":1,'
    b'"dataChange":true}}\n'
)


def clean(scene: Scene) -> None:
    scene.create_branch({})


def dirty(scene: Scene) -> None:
    """Stage rows, a run, and rows again."""
    branch = scene.create_branch({"own": b"own"})
    branch.put("base/4", b"below")
    branch.delete("base/3")
    stage_run(scene)
    branch.put("base/6", b"above")
    branch.put("new", b"new")


def stage_run(scene: Scene, path: str = "bulk") -> None:
    """Stage another name of an object, and a removal, as a run."""
    existing = scene.repository.stat("main", "base/5")
    row = {"path": path, "size": existing.size, "address": existing.address}
    scene.branch.stage(stage_table([row, {"path": "base/8", "deleted": True}]))


def put_folder(scene: Scene) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b", "c"):
            (Path(folder) / name).write_text(name)
        scene.branch.put_folder("folder/", folder)


def put_file(scene: Scene) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"file")
        file.flush()
        scene.branch.put_file("base/1", file.name)


def write_file(scene: Scene) -> None:
    with scene.branch.open("opened", "w") as file:
        file.write("opened")


def write_table(scene: Scene) -> None:
    names = ["p=1/part-1", "_SUCCESS"]
    write(scene.repository, scene.label, "table", names, WriteMode.OVERWRITE)


def append_to_delta(scene: Scene) -> None:
    files = {"part-1": b"part-1", f"_delta_log/{1:020}.json": DELTA_APPEND}
    edit_delta(scene.repository, scene.label, "delta", files)


def append_to_iceberg(scene: Scene) -> None:
    with edit_iceberg(scene.repository, scene.label, "iceberg") as (place, _):
        store = open_store(scene.repository.info.storage_namespace)
        document = json.loads(store.get(f"{place}/metadata/v1.metadata.json"))
        document["properties"]["team"] = "sales"
        files = iceberg_append(document)
        store.put_many_if_absent({f"{place}/{name}": body for name, body in files.items()})


def iceberg_properties(scene: Scene) -> Any:
    paths = [each.path for each in scene.repository.objects(scene.label, "iceberg/metadata/")]
    newest = max(each for each in paths if each.endswith(".metadata.json"))
    document: dict[str, Any] = json.loads(scene.branch.open(newest).read())
    return document.get("properties", {})


def begin_write(scene: Scene) -> None:
    scene.create_branch({})
    context = scene.repository._context
    context.refs.writes.begin(f"write-{scene.label}", f"data/{scene.label}", scene.label, "me")


def abandon(scene: Scene) -> None:
    scene.repository.abandon_write(f"write-{scene.label}")


def write_states(scene: Scene) -> list[str]:
    return [each.state.value for each in scene.repository.writes() if each.branch == scene.label]


def put_source(scene: Scene) -> None:
    scene.create_branch({"imported/gone": b"gone"})
    files = {f"{number}": b"%d" % number for number in range(5)}
    open_store(normalise_store_uri(scene.source)).put_many_if_absent(files)


OBJECT_CASES = {
    "put": VerbCase(clean, lambda scene: scene.branch.put("k", b"v")),
    "put, dirty": VerbCase(dirty, lambda scene: scene.branch.put("new", b"newer")),
    "put_many": VerbCase(
        dirty, lambda scene: scene.branch.put_many({"base/1": b"1", "many": b"many"})
    ),
    "put_file": VerbCase(clean, put_file),
    "put_folder": VerbCase(clean, put_folder),
    "open": VerbCase(clean, write_file),
    "stage": VerbCase(dirty, lambda scene: stage_run(scene, "base/0")),
    "delete": VerbCase(dirty, lambda scene: scene.branch.delete("base/2")),
    "delete_prefix": VerbCase(dirty, lambda scene: scene.branch.delete_prefix("base/")),
    "remove_many": VerbCase(
        clean,
        lambda scene: scene.branch.remove_many(["base/2", "base/7"]),
        done=(ObjectNotFoundError,),
    ),
    "copy": VerbCase(
        clean, lambda scene: scene.branch.copy("base/", "copied/", recursive=True, force=True)
    ),
    "move": VerbCase(
        clean,
        lambda scene: scene.branch.move("base/", "moved/", recursive=True),
        done=(ObjectNotFoundError,),
    ),
    "reset": VerbCase(dirty, lambda scene: scene.branch.reset()),
    "reset_prefix": VerbCase(dirty, lambda scene: scene.branch.reset(prefix="base/")),
    "reset_path": VerbCase(dirty, lambda scene: scene.branch.reset(path="new")),
    "restore_paths": VerbCase(
        dirty, lambda scene: scene.branch.restore("main", ["base/"]), done=(NoChangesError,)
    ),
    "import": VerbCase(
        put_source,
        lambda scene: scene.branch.import_objects(scene.source, "imported/"),
        done=(NoChangesError,),
    ),
    "write": VerbCase(clean, write_table),
    "edit_delta": VerbCase(clean, append_to_delta, repeats=False),
    "edit_iceberg": VerbCase(clean, append_to_iceberg, repeats=False, effects=iceberg_properties),
    "abandon_write": VerbCase(
        begin_write, abandon, done=(WriteFinishedError,), effects=write_states
    ),
}
