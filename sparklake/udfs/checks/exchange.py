"""Rows and results of check tasks, exchanged through files.

A task writes its rows in buckets to one file; a later task reads one bucket of all files. A check
therefore needs no shuffle, and a resumed check continues from the existing files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from sparklake.graveler.arrow_batches import pack_batches, required_schema, unpack
from sparklake.graveler.ports import ObjectStore
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.udfs.tasks import Batches, BatchStream, encoded_tasks

Share = TypeVar("Share")
Result = TypeVar("Result")

RESULT_SCHEMA = required_schema(share=pa.string(), result=pa.binary())

_OFFSET = "<u8"
_OFFSET_BYTES = 8


@dataclass(frozen=True, slots=True)
class CheckPlace:
    """The repository to check, and the URIs for exchanged files and for findings.

    `buckets` is the number of buckets of referenced objects.
    """

    workspace: Workspace
    folder: str
    report: str
    buckets: int = 1

    def open_folder(self) -> ObjectStore:
        return open_store(self.folder)

    def open_report(self) -> ObjectStore:
        return open_store(self.report)


def rows_key(step: str, name: str) -> str:
    return f"parts/{step}-{name}.rows"


@dataclass(frozen=True, slots=True)
class Step(Generic[Share, Result]):
    """A step of a check. `work` receives the place, the name of a share, and the share."""

    name: str
    work: Callable[[CheckPlace, str, Share], Result]
    share: type[Share]
    result: type[Result]

    def result_key(self, name: str) -> str:
        return f"parts/{self.name}-{name}.result"

    def rows_key(self, share: Share) -> str:
        return rows_key(self.name, share_name(encode_share(share)))


encode_share = msgspec.msgpack.Encoder().encode


def share_name(encoded: bytes) -> str:
    """Hash a share. Equal shares have equal names, so a rerun finds its result."""
    return sha256(encoded).hexdigest()[:32]


def step_body(place: CheckPlace, step: Step[Any, Any], batches: Batches) -> BatchStream:
    """Yield RESULT_SCHEMA for shares, each result once it is durable."""
    folder = place.open_folder()
    for encoded in encoded_tasks(batches):
        name, share = share_name(encoded), msgspec.msgpack.decode(encoded, type=step.share)
        result = encode_share(step.work(place, name, share))
        folder.replace(step.result_key(name), result)
        yield pa.record_batch([[name], [result]], schema=RESULT_SCHEMA)


def write_buckets(folder: ObjectStore, key: str, rows: pa.Table, bucket: Any, buckets: int) -> None:
    """Write rows by their bucket as one file: offsets, then an Arrow stream per bucket."""
    order = np.argsort(bucket, kind="stable")
    ordered = rows.take(pa.array(order))
    bounds = np.searchsorted(np.asarray(bucket)[order], np.arange(buckets + 1))
    streams = [
        pack_batches(ordered.slice(start, stop - start).combine_chunks().to_batches(), "lz4")
        if start < stop
        else b""
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    first = _OFFSET_BYTES * (buckets + 1)
    offsets = first + np.cumsum([0, *map(len, streams)])
    folder.replace(key, offsets.astype(_OFFSET).tobytes() + b"".join(streams))


def read_bucket(folder: ObjectStore, keys: Iterable[str], bucket: int) -> list[bytes]:
    """Read one bucket of several files, as encoded Arrow streams."""
    streams = []
    for key in keys:
        at = bucket * _OFFSET_BYTES
        header = folder.get_part(key, at, at + 2 * _OFFSET_BYTES).body
        start, stop = np.frombuffer(header, _OFFSET).tolist()
        if start < stop:
            streams.append(folder.get_part(key, start, stop).body)
    return streams


def decode_bucket(streams: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """Decode the columns of a schema, file by file."""
    batches = [each for body in streams for each in unpack(body, schema.names)]
    return pa.Table.from_batches(batches, schema).combine_chunks()
