"""Files of Delta logs. As in Spark, unreadable checkpoints are skipped."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.errors import CorruptFileError, SparklakeError
from sparklake.graveler.keys import key_prefix, prefix_interval
from sparklake.metadata.delta.actions import decode_actions
from sparklake.metadata.delta.file_names import LOG_FOLDER, LogFiles, files_of_version, log_listing
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects.content_file import ContentReader
from sparklake.verbs.base.content import ObjectContent, read_body
from sparklake.verbs.tables.version import TableVersion

_LOG = logging.getLogger("sparklake.tables")


def log_files(table: TableVersion) -> Iterator[tuple[str, ObjectInfo]]:
    folder = f"{table.folder}{LOG_FOLDER}"
    for each in table.objects.within(prefix_interval(key_prefix(folder))):
        yield each.path.removeprefix(folder), each


def are_readable(files: Sequence[ObjectInfo], ref: str) -> bool:
    """Return whether a checkpoint is neither empty nor truncated, and warn if it is."""
    broken = next((each for each in files if not is_whole(each, ref)), None)
    if broken is not None:
        _LOG.warning(
            "the checkpoint %s cannot be read, and is skipped: Delta writes another one "
            "later, and you can delete this one",
            broken.path,
        )
    return broken is None


def is_whole(file: ObjectInfo, ref: str) -> bool:
    """Return whether a file is JSON, or has a footer of Parquet, which is all that is read."""
    try:
        if file.path.endswith(".json"):
            return bool(decode_actions(read_body(file, ref), file.path))
        return bool(
            pq.read_metadata(ContentReader(ObjectContent(file, ref), file.path)).num_columns
        )
    except CorruptFileError:
        return False
    except SparklakeError:
        raise
    except (pa.ArrowException, OSError):
        return False


def files_to_read(
    log: Mapping[str, ObjectInfo], ref: str, version: int | None = None, *, history: bool = False
) -> LogFiles:
    """Return a version's log files since its latest readable checkpoint."""
    return files_of_version(
        log_listing((name, name) for name in log),
        version,
        history=history,
        is_readable=lambda names: are_readable([log[each] for each in names], ref),
    )
