"""Tables among imported files that sparklake cannot read, found by their protocol."""

from __future__ import annotations

import re
from collections.abc import Callable

from sparklake.errors import SparklakeError
from sparklake.graveler.ports import ObjectStore
from sparklake.metadata.delta.actions import decode_actions, fields_of
from sparklake.metadata.delta.checkpoints import checkpoint_parts, fields_in
from sparklake.metadata.delta.features import problem_of_log
from sparklake.metadata.delta.file_names import (
    LOG_FOLDER,
    files_of_version,
    is_log_file,
    log_listing,
)
from sparklake.metadata.iceberg.file_names import METADATA_FOLDER, metadata_version
from sparklake.metadata.iceberg.metadata import NEWEST_VERSION, decompressed
from sparklake.stores.objects import normalise_object_uri, open_store

_PROTOCOL_BYTES = 1 << 20
"""The start of a commit that is read, in bytes. Writers put the protocol before the files."""

_FORMAT_VERSION = re.compile(rb'"format-version"\s*:\s*([0-9]+)')


class TableProtocols:
    """The problems of tables, by the folder of their metadata. Each is read once."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}

    def problem(self, path: str, address: str) -> str:
        """Return why the table of a metadata file is rejected, or ""."""
        find: Callable[[ObjectStore], str]
        *_, kind, name = f"/{path}".split("/")
        if f"{kind}/" == LOG_FOLDER and is_log_file(name):
            find = _problem_of_delta
        elif f"{kind}/" == METADATA_FOLDER and metadata_version(name) >= 0:
            find = _problem_of_iceberg
        else:
            return ""
        folder = address.rpartition("/")[0]
        if folder not in self._problems:
            try:
                self._problems[folder] = find(open_store(normalise_object_uri(folder)))
            except SparklakeError:
                self._problems[folder] = ""  # Damaged metadata is imported like other files.
        return self._problems[folder]


def _problem_of_delta(log: ObjectStore) -> str:
    files = files_of_version(log_listing((each.key, each.key) for each in log.list("")))
    protocol = None
    for part in checkpoint_parts(files.checkpoint, log.get, "protocol"):
        protocol = next(fields_in(part, "protocol"), protocol)
    for name in files.commits:
        start = log.get_part(name, 0, _PROTOCOL_BYTES)
        body = start.body
        if start.size > len(body):
            body = body[: body.rfind(b"\n") + 1]
        protocol = next(fields_of(decode_actions(body, name), "protocol"), protocol)
    return problem_of_log(protocol, "this Delta table")


def _problem_of_iceberg(folder: ObjectStore) -> str:
    latest = max((each.key for each in folder.list("")), key=metadata_version)
    body = decompressed(folder.get(latest))
    found = [int(each) for each in _FORMAT_VERSION.findall(body)]
    if max(found, default=1) <= NEWEST_VERSION:
        return ""
    return (
        f"this Iceberg table has the format version {max(found)}, and sparklake reads 1 to "
        f"{NEWEST_VERSION}: copy it into a table of an earlier version, and import that"
    )
