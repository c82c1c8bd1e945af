"""The files required to restore a dump."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from sparklake.errors import CorruptFileError
from sparklake.graveler.dumps.dump import DumpManifest
from sparklake.graveler.dumps.ref_files import MESSAGES, Entity, read_ref_records, ref_table_ids
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.records import ValueRecord


def dump_table_ids(store: ObjectStore, manifest: DumpManifest) -> list[str]:
    return [
        table_id
        for root, entity in dump_roots(manifest)
        for table_id in ref_table_ids(store, root, entity)
    ]


def dump_roots(manifest: DumpManifest) -> tuple[tuple[str, Entity], ...]:
    """Return a dump's metaranges, each with its kind of records."""
    return (
        (manifest.branches_meta_range_id, Entity.BRANCH),
        (manifest.commits_meta_range_id, Entity.COMMIT),
        (manifest.tags_meta_range_id, Entity.TAG),
    )


def dump_trees(store: ObjectStore, manifest: DumpManifest) -> set[MetaRangeId]:
    """Return the trees of the dumped branches and tags."""
    heads = set()
    for table_id, entity in (
        (manifest.branches_meta_range_id, Entity.BRANCH),
        (manifest.tags_meta_range_id, Entity.TAG),
    ):
        for each in read_ref_records(store, table_id, entity):
            heads.add(_message(entity, each).commit_id)
    commits = read_ref_records(store, manifest.commits_meta_range_id, Entity.COMMIT)
    found = (_message(Entity.COMMIT, each) for each in commits)
    return {MetaRangeId(each.meta_range_id) for each in found if each.id in heads}


def _message(entity: Entity, record: ValueRecord) -> Any:
    try:
        return MESSAGES[entity].FromString(record.data)
    except DecodeError as error:
        raise CorruptFileError(
            f"the dump has a damaged {entity.value} {record.key!r}: dump the refs again"
        ) from error
