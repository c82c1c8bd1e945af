"""The task body comparing change summaries with the changes of their commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparklake.errors import SparklakeError
from sparklake.graveler.blocks.align import unequal_rows
from sparklake.graveler.blocks.block import concatenated
from sparklake.graveler.blocks.verification import shown_key
from sparklake.graveler.ids import MetaRangeId
from sparklake.graveler.keys import Interval, common, successor
from sparklake.graveler.planning.change_summary import ChangeSummary, decode_summary, names_hashed
from sparklake.graveler.planning.segments import changed_intervals
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.sstable.range_files import read_meta_range, read_ranges
from sparklake.rows.findings import Finding, FindingKind
from sparklake.udfs.checks.exchange import CheckPlace, Step


@dataclass(frozen=True, slots=True)
class SummarisedCommit:
    """A commit's stored change summary, its tree and its first parent's tree."""

    id: str
    before: MetaRangeId
    after: MetaRangeId
    summary: bytes


def check_summaries(
    place: CheckPlace, name: str, share: tuple[SummarisedCommit, ...]
) -> list[Finding]:
    """Return findings about incomplete summaries."""
    store, findings = place.workspace.open_store(), list[Finding]()
    for each in share:
        summary = decode_summary(each.summary)
        try:
            keys = iter(()) if summary is None else _omitted_keys(store, each, summary)
            key = next(keys, None)
        except SparklakeError:
            continue  # The table has a finding of its own.
        if key is not None:
            path = shown_key(key)
            detail = f"it lacks the change of {path!r}"
            findings.append(Finding(FindingKind.SUMMARY_WRONG, each.id, detail, "", path, path))
    return findings


CHECK_SUMMARIES = Step("summaries", check_summaries, tuple[SummarisedCommit, ...], list[Finding])


def _omitted_keys(
    store: ObjectStore, commit: SummarisedCommit, summary: ChangeSummary
) -> Iterator[bytes]:
    """Yield the changed keys missing from a summary."""
    trees = [read_meta_range(store, each).ranges for each in (commit.before, commit.after)]
    for window in changed_intervals(trees[0], trees[1], sum(map(len, trees))):
        if any(common(window, each) == window for each in summary.intervals):
            continue
        before, after = (concatenated(list(read_ranges(store, each, window))) for each in trees)
        rows = unequal_rows(before.ids, after.ids)
        for side, changed in zip((before, after), rows, strict=True):
            for key in side.take(changed).key_array().to_pylist():
                one = Interval(key, successor(key))
                if not all(summary.may_hold(one, each) for each in names_hashed([key])):
                    yield key
