"""Data files of tables as Arrow rows: their addresses and their partition values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

Partition = tuple[tuple[str, str], ...]
"""The names and values in a file's folders, outermost first."""

FILE_SCHEMA = pa.schema(
    [
        pa.field("uri", pa.string(), nullable=False),
        pa.field("relative", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime", pa.int64(), nullable=False),
    ]
)
"""The columns of a data file.

`uri` is in Spark's form, `relative` the path below the table, `mtime` in unix milliseconds.
"""

# Names that Spark skips: markers, logs and temporary files.
_HIDDEN = r"(^|/)(\.|_[^/=]*(/|$))"
_PLAIN = "/:=@,;!$&'()*+~._-"
_TO_QUOTE = rf"[^A-Za-z0-9{re.escape(_PLAIN)}]"


def data_files(
    batches: Iterable[pa.RecordBatch], folder: str, spark_uris: Callable[[pa.Array], pa.Array]
) -> Iterator[pa.RecordBatch]:
    """Yield FILE_SCHEMA for a table's visible objects, given as OBJECT_SCHEMA.

    `spark_uris` converts addresses to Spark's spelling.
    """
    for batch in batches:
        relative = pc.utf8_slice_codeunits(batch.column("path"), len(folder))
        files = [
            spark_uris(batch.column("address")),
            relative,
            batch.column("size"),
            pc.cast(batch.column("mtime"), pa.timestamp("ms", tz="UTC"), safe=False).cast("int64"),
        ]
        rows = pa.record_batch(files, schema=FILE_SCHEMA)
        yield rows.filter(pc.invert(pc.match_substring_regex(relative, _HIDDEN)))


def folders_of(relative: pa.Array) -> pa.DictionaryArray:
    """Return the folder of each path, with a trailing '/', or "" without a folder."""
    return pc.replace_substring_regex(relative, "[^/]*$", "").dictionary_encode()


def partition_of(folder: str) -> Partition:
    """Return the names and values in folders: `p=1/q=2/` has (p, 1) and (q, 2)."""
    parts = (part.partition("=") for part in folder.split("/")[:-1])
    return tuple((unquote(name), value) for name, equals, value in parts if name and equals)


def partition_value(text: str) -> str | None:
    """Return the value of a folder's text; None is null."""
    return None if text == NULL_PARTITION else unquote(text)


def quoted(uris: pa.Array) -> pa.Array:
    """Percent-encode URIs, as in Delta's log."""
    if not pc.any(pc.match_substring_regex(uris, _TO_QUOTE)).as_py():
        return uris
    return pa.array([quote(uri, safe=_PLAIN) for uri in uris.to_pylist()], pa.string())


# --- one file under several names -----------------------------------------------------------------


def hashes(uris: pa.Array) -> NDArray[np.int64]:
    """Hash each URI. Equal URIs have equal hashes within this process."""
    return np.fromiter(map(hash, uris.to_pylist()), np.int64, len(uris))


def repeated(batches: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the repeated numbers, sorted. Memory is 8 bytes per file."""
    numbers = np.sort(np.concatenate([np.zeros(0, np.int64), *batches]))
    return np.unique(numbers[1:][numbers[1:] == numbers[:-1]])


def unlike(uris: pa.Array, names: pa.Array, shared: NDArray[np.int64]) -> pa.Array:
    """Return quoted URIs, with a unique fragment for shared files.

    A Delta table contains each path once. The fragment is the file's name in the table, and
    file systems ignore it.
    """
    found = quoted(uris)
    is_shared = np.isin(hashes(uris), shared) if len(shared) else np.zeros(len(uris), bool)
    if not is_shared.any():
        return found
    named = pc.binary_join_element_wise(found, quoted(names), "#")
    return pc.if_else(pa.array(is_shared), named, found)
