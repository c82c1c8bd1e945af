"""Data files of tables as Arrow rows: addresses and partition values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklake.graveler.arrow_batches import required_schema
from sparklake.metadata.delta.paths import PLAIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = set("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(0x20)}
"""The characters that Spark escapes in the names of partition folders."""

Partition = tuple[tuple[str, str], ...]
"""The names and values in a file's folders, outermost first."""

FILE_SCHEMA = required_schema(
    uri=pa.string(), relative=pa.string(), size=pa.int64(), mtime=pa.int64()
)
"""`uri` is in Spark's form, `relative` below the table, `mtime` in unix milliseconds."""

# Spark skips markers, logs, temporary files, files that Hadoop is copying, and markers of folders.
HIDDEN = r"(^|/)(\.|_[^/=]*(/|$)|[^/]*\._COPYING_(/|$)|$)"
_STRAY = r"^([^/=]+/)+[^/]*$"
SKIPPED = rf"{HIDDEN}|{_STRAY}"
"""The files without rows of a plain table: Spark also skips folders that are no partitions."""
_HIDDEN_KEY, _SKIPPED_KEY = re.compile(HIDDEN.encode()), re.compile(SKIPPED.encode())
_TO_QUOTE = rf"[^A-Za-z0-9{re.escape(PLAIN)}]"


def data_files(
    batches: Iterable[pa.RecordBatch], folder: str, spark_uris: Callable[[pa.Array], pa.Array]
) -> Iterator[pa.RecordBatch]:
    """Convert a table's visible objects from OBJECT_SCHEMA to FILE_SCHEMA."""
    for batch in batches:
        relative = pc.utf8_slice_codeunits(batch.column("path"), len(folder))
        files = [
            spark_uris(batch.column("address")),
            relative,
            batch.column("size"),
            pc.cast(batch.column("mtime"), pa.timestamp("ms", tz="UTC"), safe=False).cast("int64"),
        ]
        rows = pa.record_batch(files, schema=FILE_SCHEMA)
        yield rows.filter(pc.invert(pc.match_substring_regex(relative, HIDDEN)))


def plain_files(
    batches: Iterable[pa.RecordBatch],
    folder: str,
    spark_uris: Callable[[pa.Array], pa.Array],
    observe: Callable[[pa.RecordBatch], Any] = len,
) -> Iterator[pa.RecordBatch]:
    """Convert the objects with rows of a table without metadata, as `data_files`.

    `observe` gets all visible files: those in other folders may be in conflict.
    """
    for rows in data_files(batches, folder, spark_uris):
        observe(rows)
        has_rows = pc.invert(pc.match_substring_regex(rows.column("relative"), _STRAY))
        yield rows.filter(pc.and_(has_rows, pc.greater(rows.column("size"), 0)))


def is_hidden(relative: bytes) -> bool:
    """Return whether Spark skips a file in any folder, given its key below the table."""
    return _HIDDEN_KEY.search(relative) is not None


def is_skipped(relative: bytes) -> bool:
    """Return whether a file has no rows of a plain table, given its key below the table."""
    return _SKIPPED_KEY.search(relative) is not None


def folders_of(relative: pa.Array) -> pa.DictionaryArray:
    """Return the folder of each path: "" or with a trailing slash."""
    return pc.replace_substring_regex(relative, "[^/]*$", "").dictionary_encode()


def partition_of(folder: str) -> Partition:
    """Parse the partition in folders: `p=1/q=2/` has (p, 1) and (q, 2)."""
    return partition_below(folder)[1]


def partition_below(folder: str) -> tuple[str, Partition]:
    """Return the root of a partition, and its values: the innermost `name=value` in a row."""
    parts = folder.split("/")[:-1]
    while parts and "=" not in parts[-1]:
        parts.pop()
    values = list[tuple[str, str]]()
    while parts and "=" in parts[-1]:
        name, _, value = parts.pop().partition("=")
        values.append((unquote(name), value))
    return "".join(f"{each}/" for each in parts), tuple(reversed(values))


def partition_folder(values: Iterable[tuple[str, Any]]) -> str:
    """Return the folders of a partition, as Spark names them: `p=1/q=2/` for (p, 1) and (q, 2)."""
    return "".join(f"{_escaped(name)}={_folder_text(value)}/" for name, value in values)


def _folder_text(value: Any) -> str:
    # Spark reads an empty text as null, too.
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return _escaped(text) if value is not None and text else NULL_PARTITION


def _escaped(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in text)


def partition_value(text: str) -> str | None:
    return None if text == NULL_PARTITION else unquote(text)


def quoted(uris: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(uris, _TO_QUOTE)).as_py():
        return uris
    return pa.array([quote(uri, safe=PLAIN) for uri in uris.to_pylist()], pa.string())


# --- one file under several names -----------------------------------------------------------------


def hashes(uris: pa.Array) -> NDArray[np.int64]:
    """Hash URIs. The hashes are valid in this process only."""
    return np.fromiter(map(hash, uris.to_pylist()), np.int64, len(uris))


def repeated(batches: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    numbers = np.sort(np.concatenate([np.zeros(0, np.int64), *batches]))
    return np.unique(numbers[1:][numbers[1:] == numbers[:-1]])


def unlike(uris: pa.Array, names: pa.Array, shared: NDArray[np.int64]) -> pa.Array:
    """Return quoted URIs, with a unique fragment for shared files.

    A Delta table contains each path once. The fragment is the file's name in the table, and
    file systems ignore it.
    """
    addresses = quoted(uris)
    if not len(shared):
        return addresses
    unique = pc.binary_join_element_wise(addresses, quoted(names), "#")
    return pc.if_else(pa.array(np.isin(hashes(uris), shared)), unique, addresses)
