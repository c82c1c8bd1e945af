"""Sources of lost objects: equal objects, and copies elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

from sparklake.errors import SparklakeError
from sparklake.graveler.chunks import sliced
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import RangeInfo
from sparklake.layout import DATA_FOLDER
from sparklake.rows.findings import Finding
from sparklake.stores.objects.digests import may_be_md5
from sparklake.udfs.checks.content import content_problem
from sparklake.udfs.repairs import equal_body
from sparklake.udfs.tasks import encode_tasks
from sparklake.verbs.base.context import Context
from sparklake.verbs.repairs.trees import TreeSources

_MAX_CANDIDATES = 1000
"""The maximum number of objects of equal size that are read for one lost object."""

Content = tuple[str, int]
"""The checksum and the size of an object."""


def equal_objects(
    context: Context, sources: TreeSources, findings: Sequence[Finding]
) -> Mapping[Content, Sequence[str]]:
    """Return candidates from history and from `data/`, by the content of lost objects."""
    checksums = sorted({each.checksum for each in findings if each.checksum})
    if not checksums:
        return {}
    infos: dict[str, RangeInfo] = {}
    for ranges in sources.trees.values():
        infos.update((each.id, each) for each in ranges)
    records = sum(each.count for each in infos.values())
    runner = context.runner(records, "repair", "equal objects")
    shares = sliced(infos.values(), runner.task_records(records), attrgetter("count"))
    work = encode_tasks(shares)
    candidates: dict[Content, dict[str, None]] = {}
    for batch in runner.collect(partial(equal_body, context.workspace, checksums), work):
        for row in batch.to_pylist():
            candidates.setdefault((row["checksum"], row["size"]), {})[row["address"]] = None
    for content, address in _stored_candidates(sources.store, findings):
        addresses = candidates.setdefault(content, {})
        if len(addresses) < _MAX_CANDIDATES:
            addresses[address] = None
    return {content: list(addresses) for content, addresses in candidates.items()}


def _stored_candidates(
    store: ObjectStore, findings: Sequence[Finding]
) -> Iterator[tuple[Content, str]]:
    by_size: dict[int, set[str]] = {}
    for finding in findings:
        if finding.checksum:
            by_size.setdefault(finding.size, set()).add(finding.checksum)
    for each in store.list(DATA_FOLDER):
        for checksum in by_size.get(each.size, ()):
            unknown = may_be_md5(checksum) and not may_be_md5(each.checksum)
            if unknown or each.checksum == checksum:
                yield (checksum, each.size), f"{store.uri}/{each.key}"


def find_source(
    finding: Finding, equal: Iterable[str], copies: Sequence[str], namespace: str
) -> str | None:
    """Return the address of a readable object with identical content."""
    places = [each for each in equal if each != finding.subject]
    if may_be_md5(finding.checksum):  # Nothing else proves the content of a copy.
        key = finding.subject.removeprefix(f"{namespace}/")
        keys = [key] if key != finding.subject else [finding.subject.rpartition("/")[2]]
        places += [
            f"{copy.rstrip('/')}/{each}" for copy in copies for each in (*keys, finding.first_path)
        ]
    return next((each for each in places if is_equal(each, finding)), None)


def is_equal(address: str, finding: Finding) -> bool:
    """Return whether the bytes at an address are those of an entry."""
    try:
        return content_problem(address, finding.checksum, finding.size) is None
    except SparklakeError:
        return False
