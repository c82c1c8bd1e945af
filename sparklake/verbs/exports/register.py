"""Registration of exported Iceberg tables in a Spark catalog."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.graveler.ports import ObjectStore
from sparklake.metadata.iceberg.documents import decode_document, encode_document, moved
from sparklake.metadata.iceberg.edits import without_places
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER
from sparklake.metadata.iceberg.live import with_moved_paths
from sparklake.metadata.iceberg.manifests import (
    MovedDeletes,
    manifests_in,
    moved_list,
    moved_manifest,
)
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import kept_commit
from sparklake.verbs.exports.marks import find_mark
from sparklake.verbs.iceberg.tree_table import IcebergTable, describing, open_iceberg, read_checked
from sparklake.verbs.tables.version import open_table

_FOLDER = f"{METADATA_FOLDER}registered/"
_NAME_PARTS = 2


@dataclass(frozen=True, slots=True)
class Registration:
    """The metadata of an exported table, and the statement that registers it in a catalog."""

    metadata: str
    statement: str


def register(
    context: Context, ref: str, path: str, exported: str, name: str, *, run: bool
) -> Registration:
    """Write metadata with the paths of an export, and `run` the statement or return it only."""
    catalog, *parts = name.split(".")
    if len(parts) < _NAME_PARTS or "'" in name:
        raise InvalidInputError(f"{name!r} is not a table's name: write CATALOG.DATABASE.TABLE")
    commit, store = kept_commit(context, ref), open_store(exported)
    mark = find_mark(store)
    if mark is None or mark.uid != context.info.uid or mark.origins != (commit.id,):
        raise InvalidInputError(
            f"{store.uri} is not an export of {commit.id[:12]}: export {ref!r} to it first"
        )
    table = open_table(context, commit.id, path)
    iceberg = open_iceberg(table)
    if iceberg is None or not iceberg.table.folder.startswith(mark.prefix):
        raise ObjectNotFoundError(f"the export has no Iceberg table at {path!r}")
    with describing(table, "cannot be registered"):
        metadata = _Export(iceberg, store, commit.id).put_metadata()
    statement = (
        f"CALL {catalog}.system.register_table(table => '{'.'.join(parts)}', "
        f"metadata_file => '{metadata}')"
    )
    if run:
        context.runners.session().sql(statement).collect()
    return Registration(metadata, statement)


class _Export:
    """A table at its destination. Rewritten files are beside the exported ones."""

    def __init__(self, iceberg: IcebergTable, store: ObjectStore, commit: str) -> None:
        self._iceberg, self._store, self._commit = iceberg, store, commit
        self._folder = f"{iceberg.table.folder}{_FOLDER}{commit}/"
        self._manifests = dict[str, tuple[str, int]]()
        self._deletes = dict[str, MovedDeletes]()

    def put_metadata(self) -> str:
        document = decode_document(self._body(None))
        lists = [each["manifest-list"] for each in document.get("snapshots") or []]
        places = {each: self._put_list(each) for each in lists}
        location = f"{self._store.uri}/{self._iceberg.table.folder.rstrip('/')}"
        document = moved(document, location, lambda path: places.get(path) or self._place(path))
        document = without_places({**document, "metadata-log": []})
        # Catalogs read the version from the name.
        return self._put(f"00000-{self._commit}.metadata.json", encode_document(document))[0]

    def _put_list(self, path: str) -> str:
        body = self._body(path)
        manifests = {each.path: self._put_manifest(each.path) for each in manifests_in(body)}
        return self._put(self._name(path), moved_list(body, manifests))[0]

    def _put_manifest(self, path: str) -> tuple[str, int]:
        if path not in self._manifests:
            body = moved_manifest(self._body(path), self._place, self._put_deletes)
            self._manifests[path] = self._put(self._name(path), body)
        return self._manifests[path]

    def _put_deletes(self, path: str) -> MovedDeletes:
        if path not in self._deletes:
            body, first, last = with_moved_paths(self._body(path), path, self._place)
            place, size = self._put(self._name(path), body)
            self._deletes[path] = MovedDeletes(place, size, first.encode(), last.encode())
        return self._deletes[path]

    def _body(self, path: str | None) -> bytes:
        iceberg = self._iceberg
        return read_checked(iceberg.table, iceberg.name if path is None else iceberg.path(path))

    def _place(self, path: str) -> str:
        return f"{self._store.uri}/{self._iceberg.path(path)}"

    def _name(self, path: str) -> str:
        return self._iceberg.path(path).removeprefix(self._iceberg.table.folder)

    def _put(self, name: str, body: bytes) -> tuple[str, int]:
        key = f"{self._folder}{name}"
        self._store.replace(key, body)
        return f"{self._store.uri}/{key}", len(body)
