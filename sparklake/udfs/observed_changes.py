"""Changed table metadata, and samples of Parquet files, in merge tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.algebra.changes import BlockChanges, DifferingKeys
from sparklake.metadata import registry
from sparklake.metadata.delta.file_names import MAX_TABLES, too_many_tables
from sparklake.metadata.delta.table_files import HIDDEN, is_hidden
from sparklake.rows.merges import MAX_FOLDERS, AddedFiles, Samples, add_tables
from sparklake.strategies.resolution import Resolution


@dataclass(frozen=True, slots=True)
class ObservedChanges:
    """The changed metadata of tables and added Parquet files for a resolution."""

    resolution: Resolution
    logs: set[bytes] = field(default_factory=set)
    added: AddedFiles = field(default_factory=AddedFiles)
    tables: set[bytes] = field(default_factory=set)
    """The tables to which one side alone added data files, or in which it changed them."""

    def observe(self, changes: BlockChanges) -> None:
        self.observe_keys(changes.differing())

    def observe_keys(self, differing: DifferingKeys) -> None:
        with_rules = self.resolution.unite_tables
        self.logs.update(registry.changed_folders(differing.keys, with_rules=with_rules))
        if len(self.logs) > MAX_TABLES:
            raise too_many_tables()
        self._observe_tables(differing)
        if self.resolution.schema_check:
            observe_added(self.added, differing)

    def _observe_tables(self, differing: DifferingKeys) -> None:
        keys, in_dest, in_source, by_source, conflicts = differing
        own = np.where(by_source, in_source, in_dest & ~conflicts)
        keys = keys.filter(pa.array(own))
        files = keys.filter(pc.match_substring_regex(keys, DATA_FILE))
        tables = pc.unique(pc.replace_substring_regex(files, IN_TABLE, ""))
        add_tables(self.tables, tables.to_pylist())


DATA_FILE = r"(^|/)(part-[0-9][^/]*|[^/._][^/]*\.(parquet|orc|avro))$"
"""A file of a table: Spark's names of any format, and formats that only tables have."""


def metadata_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the folders of tables' metadata with a key in a two-way diff."""
    folders = sorted(registry.changed_folders(changes.keys()))
    return pa.record_batch([pa.array(folders, pa.binary())], names=["key"])


_ENDING = ".parquet"
# Folders of partitions, and the file.
IN_TABLE = r"(?s:([^/]*=[^/]*/)*[^/]*)$"
_FILE = re.compile(IN_TABLE.encode())
_DATA_FILE = re.compile(DATA_FILE.encode())


def observe_added(files: AddedFiles, differing: DifferingKeys) -> None:
    """Add the files among the differences between source and dest."""
    keys, in_dest, in_source, by_source, conflicts = differing
    by_dest = ~by_source & ~conflicts
    add_samples(files.source, keys.filter(pa.array(in_source & ~in_dest & by_source)))
    add_samples(files.dest, keys.filter(pa.array(in_dest & ~in_source & by_dest)))


def add_samples(samples: Samples, keys: pa.BinaryArray) -> None:
    """Add the first Parquet file of each folder. `keys` are additions in key order."""
    keys = keys.filter(pc.ends_with(keys, _ENDING))
    _add_keys(samples, keys.filter(pc.invert(pc.match_substring_regex(keys, HIDDEN))))


def _add_keys(samples: Samples, keys: pa.Array) -> None:
    if not len(keys):
        return
    for folder, key in first_files(keys, IN_TABLE):
        if len(samples) < MAX_FOLDERS:
            samples.setdefault(folder, key.as_py())


def first_files(keys: pa.Array, in_folder: str) -> Iterator[tuple[bytes, pa.Scalar]]:
    """Yield each folder with its first key. The pattern matches the part below the folder."""
    folders = pc.replace_substring_regex(keys, in_folder, "").dictionary_encode()
    _, first = np.unique(folders.indices.to_numpy(), return_index=True)
    yield from zip(folders.dictionary.to_pylist(), keys.take(pa.array(first)), strict=True)


def table_folder(key: bytes) -> bytes | None:
    """Return the folder of a Parquet file, or None for another file."""
    if not key.endswith(_ENDING.encode()) or is_hidden(key):
        return None
    return table_root(key)


def is_data_file(key: bytes) -> bool:
    return _DATA_FILE.search(key) is not None


def table_root(key: bytes) -> bytes:
    """Return the folder of a file's table: its own without the folders of partitions."""
    return _FILE.sub(b"", key)


def added_batch(changes: BlockChanges) -> pa.RecordBatch:
    """Return the sampled keys of a two-way diff."""
    samples: Samples = {}
    add_samples(samples, changes.where(~changes.left.present).keys())
    return pa.record_batch([pa.array(samples.values(), pa.binary())], names=["key"])
