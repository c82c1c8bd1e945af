"""Hostile dumps: tables of refs with valid checksums and names, and wrong contents.

A restore refuses such a dump, or the result is consistent: each commit is one of the original
commits, with its own tree.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from campaigns.faults.checking import ViolationError
from campaigns.faults.damaged_tables import block_handles, damaged
from campaigns.faults.rounds import Cell
from campaigns.faults.specimens import Specimen, listing
from sparklake import SparklakeError
from sparklake.graveler.dumps.ref_files import MESSAGES, Entity, make_ref_tables, read_ref_records
from sparklake.graveler.records import Record, decode_record, plain_value
from sparklake.layout import NAMESPACE_MARKER_KEY, REFS_MANIFEST_KEY
from sparklake.stores.objects import open_store
from sparklake.testing.lakes import memory_lake

HOSTILE = "hostile dump"

_FIELDS = {
    Entity.BRANCH: "branches_meta_range_id",
    Entity.COMMIT: "commits_meta_range_id",
    Entity.TAG: "tags_meta_range_id",
}
_NAMES = ("", "main", "../main", "a b", "\0", "x" * 300, "-dash", "main@", "ref/~1", "ü", "0" * 64)


def hostile_round(specimen: Specimen, chance: Random) -> Cell:
    """Restore one hostile dump. An inconsistent repository is a violation."""
    with copied(specimen) as place:
        name = chance.choice([*CHANGES])
        CHANGES[name](place, chance)
        return f"{HOSTILE}, {name}", restored(specimen, place)


@contextmanager
def copied(specimen: Specimen) -> Iterator[Path]:
    """Yield a copy of the namespace."""
    place = specimen.folder / f"hostile-{uuid4().hex}"
    shutil.copytree(specimen.namespace, place, copy_function=os.link)
    try:
        for key in (NAMESPACE_MARKER_KEY, REFS_MANIFEST_KEY):
            body = (place / key).read_bytes()
            (place / key).unlink()
            (place / key).write_bytes(body)
        yield place
    finally:
        shutil.rmtree(place)


def restored(specimen: Specimen, place: Path) -> str:
    """Restore a dump into another lake. An inconsistent repository is a violation."""
    original = specimen.repository
    with memory_lake() as lake:
        try:
            repository = lake.restore_repository("hostile", f"file://{place}")
        except SparklakeError:
            if lake.repositories():
                raise ViolationError("a refused dump has left a repository") from None
            return "refused"
        originals = {each.id: each for each in original._context.refs.snapshot().commits}
        for each in repository._context.refs.snapshot().commits:
            before = originals.get(each.id)
            # No id covers the generation, which only has to be above those of the parents.
            if before is None or replace(each, generation=before.generation) != before:
                raise ViolationError(f"the dump has invented the commit {each.id}")
            if listing(repository, each.id) != specimen.tree(each.id):
                raise ViolationError(f"the commit {each.id} has another tree")
    return "restored, consistent"


# --- changes --------------------------------------------------------------------------------------


def change_record(place: Path, chance: Random) -> None:
    """Change bytes of one message."""

    def change(entity: Entity, records: list[Record]) -> list[Record]:
        at = chance.randrange(len(records))
        key, value = records[at]
        record = decode_record(key, value)
        data = bytearray(record.data)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.choice(
                [0, 0x7F, 0xFF, chance.randrange(256)]
            )
        records[at] = (key, plain_value(record.identity, bytes(data)))
        return records

    _rewrite(place, chance, change)


def change_identity(place: Path, chance: Random) -> None:
    """Change the identity of a record."""

    def change(entity: Entity, records: list[Record]) -> list[Record]:
        at = chance.randrange(len(records))
        record = decode_record(*records[at])
        identity = chance.choice([b"0" * 64, record.identity[:-1] + b"0", b"x"])
        records[at] = (record.key, plain_value(identity, record.data))
        return records

    _rewrite(place, chance, change)


def rename(place: Path, chance: Random) -> None:
    """Give a branch, a tag or a commit another name."""

    def change(entity: Entity, records: list[Record]) -> list[Record]:
        at = chance.randrange(len(records))
        record = decode_record(*records[at])
        message: Any = MESSAGES[entity].FromString(record.data)
        message.id = chance.choice(_NAMES)
        value = plain_value(record.identity, message.SerializeToString(deterministic=True))
        records[at] = (message.id.encode() or b"\0", value)
        return sorted(dict(records).items())

    _rewrite(place, chance, change)


def drop_record(place: Path, chance: Random) -> None:
    """Leave out one record."""

    def change(entity: Entity, records: list[Record]) -> list[Record]:
        del records[chance.randrange(len(records))]
        return records

    _rewrite(place, chance, change)


def change_message(place: Path, chance: Random | None = None) -> None:
    """Change the message of the first commit."""

    def change(entity: Entity, records: list[Record]) -> list[Record]:
        record = decode_record(*records[0])
        message: Any = MESSAGES[entity].FromString(record.data)
        message.message = "another"
        value = plain_value(record.identity, message.SerializeToString(deterministic=True))
        return [(record.key, value), *records[1:]]

    _rewrite(place, chance or Random(0), change, Entity.COMMIT)


def change_commit(place: Path, chance: Random) -> None:
    """Change a field of a commit, and keep its id."""

    def change(entity: Entity, records: list[Record]) -> list[Record]:
        at = chance.randrange(len(records))
        record = decode_record(*records[at])
        message: Any = MESSAGES[Entity.COMMIT].FromString(record.data)
        field = chance.choice(["message", "committer", "generation", "tree", "parents", "version"])
        if field in ("message", "committer"):
            setattr(message, field, "another")
        elif field == "tree":
            message.meta_range_id = chance.choice(["", "0" * 64, "no id"])
        elif field == "parents":
            message.parents.append(chance.choice(["0" * 64, message.id, "no id"]))
        else:
            setattr(message, field, chance.choice([-1, 7, 2**31 - 1]))
        value = plain_value(record.identity, message.SerializeToString(deterministic=True))
        records[at] = (record.key, value)
        return records

    _rewrite(place, chance, change, Entity.COMMIT)


def change_manifest(place: Path, chance: Random) -> None:
    """Change the names of tables."""
    manifest = json.loads((place / REFS_MANIFEST_KEY).read_text())
    field = chance.choice([*manifest])
    others = [*manifest.values(), "", "0" * 64, "../dummy", "dummy", None, 7, []]
    manifest[field] = chance.choice(others)
    if chance.random() < 0.2:
        del manifest[field]
    (place / REFS_MANIFEST_KEY).write_text(json.dumps(manifest))


def repair_checksums(place: Path, chance: Random) -> None:
    """Change bytes of a block, and repair its checksum."""
    manifest = json.loads((place / REFS_MANIFEST_KEY).read_text())
    table = place / "_lakefs" / manifest[_FIELDS[chance.choice([*Entity])]]
    body = table.read_bytes()
    damage = [(chance.random(), chance.random(), chance.randrange(256)) for _ in range(3)]
    table.unlink()
    table.write_bytes(damaged(body, block_handles(body), damage))


CHANGES: dict[str, Callable[[Path, Random], None]] = {
    each.__name__: each
    for each in (
        *(change_record, change_identity, rename, drop_record, change_message),
        *(change_commit, change_manifest, repair_checksums),
    )
}


def _rewrite(
    place: Path,
    chance: Random,
    change: Callable[[Entity, list[Record]], list[Record]],
    entity: Entity | None = None,
) -> None:
    """Rewrite the tables of one ref kind, with valid names."""
    entity = entity or chance.choice([*Entity])
    manifest = json.loads((place / REFS_MANIFEST_KEY).read_text())
    store = open_store(f"file://{place}")
    ref_records = read_ref_records(store, manifest[_FIELDS[entity]], entity)
    records = [(each.key, plain_value(each.identity, each.data)) for each in ref_records]
    table_id, files = make_ref_tables(entity, change(entity, records))
    store.put_many_if_absent(files)
    (place / REFS_MANIFEST_KEY).write_text(json.dumps({**manifest, _FIELDS[entity]: table_id}))
