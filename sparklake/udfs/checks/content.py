"""Comparison of objects' bytes with their checksums."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparklake.errors import CorruptFileError, MissingFileError, SparklakeError
from sparklake.interrupts import Threads
from sparklake.namespace.lookups import OBJECT_THREADS
from sparklake.rows.findings import FindingKind
from sparklake.stores.objects import open_object
from sparklake.stores.objects.destinations import ExpectedObject
from sparklake.udfs.checks.lookups import Problem

if TYPE_CHECKING:
    import pyarrow as pa

_PART_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class ContentProblems:
    """The number of objects read, and per kind a message for each row, "" without a problem."""

    read: int = 0
    by_kind: Mapping[FindingKind, Any] = field(default_factory=dict)


def content_problems(objects: pa.Table) -> ContentProblems:
    """Compare objects with their checksums. An object with several checksums is read for each."""
    names = ("address", "checksum", "size")
    rows = list(zip(*(objects.column(name).to_pylist() for name in names), strict=True))
    distinct = list(dict.fromkeys(rows))
    with Threads(min(OBJECT_THREADS, len(distinct)), "sparklake-content") as threads:
        problems = threads.map(lambda row: content_problem(*row), distinct)
        by_row = dict(zip(distinct, problems, strict=True))
    by_kind: dict[FindingKind, Any] = {}
    for at, row in enumerate(rows):
        if (problem := by_row[row]) is not None:
            texts = by_kind.setdefault(problem.kind, np.full(len(rows), "", object))
            texts[at] = problem.detail
    return ContentProblems(len({address for address, _, _ in distinct}), by_kind)


def content_problem(address: str, checksum: str, size: int) -> Problem | None:
    """Return the fault of an object's bytes, or None."""
    expected = ExpectedObject("", address, size, checksum, "")
    try:
        store, key = open_object(address)
        digest, at = hashlib.md5(usedforsecurity=False), 0
        while at < size:
            part = store.get_part(key, at, min(at + _PART_BYTES, size))
            if part.size != size or not part.body:
                return Problem(FindingKind.OBJECT_SIZE_DIFFERS, f"it has {part.size:,} bytes")
            digest.update(part.body)
            at += len(part.body)
        expected.check(at, digest.hexdigest(), partial(store.find, key))
    except MissingFileError:
        return Problem(FindingKind.OBJECT_MISSING, "it disappeared during the check")
    except CorruptFileError:
        return Problem(FindingKind.OBJECT_CONTENT_DIFFERS, f"its MD5 is not {checksum}")
    except SparklakeError as error:
        return Problem(FindingKind.OBJECT_UNREADABLE, str(error))
    return None
