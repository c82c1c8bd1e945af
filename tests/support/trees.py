"""Trees of records in a local store, made and compared by the real bodies, plans and stitching."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from unittest import mock

from sparklake.engine.base import Runner
from sparklake.engine.execution import PlanResult, finish, row_of, run_plan
from sparklake.engine.threads import LocalRunner
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.layers import plan_apply
from sparklake.graveler.planning.plan import SideStream, plan_merge, plan_replace
from sparklake.graveler.planning.split import RangeRow
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ranges import MetaRange, RangeInfo, Ranges
from sparklake.graveler.records import Record, decode_record, encode_record, tombstone
from sparklake.graveler.sstable.range_files import make_meta_range, read_meta_range, read_ranges
from sparklake.rows.records import record_batch
from sparklake.rows.results import PieceResult, decode_results
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.strategies.resolution import Resolution
from sparklake.testing.folders import memory_folder
from sparklake.udfs.write_ranges import apply_body, merge_body, run_body
from tests.support.blocks import flat
from tests.support.oracle import Contents


@dataclass(frozen=True)
class Run:
    """A staged layer kept as a metarange."""

    tree: MetaRange


@dataclass(frozen=True)
class Rows:
    """A staged layer kept as rows."""

    records: tuple[Record, ...]


Layer = Run | Rows


@contextmanager
def open_trees(range_records: int, runner: Runner | None = None) -> Iterator[Trees]:
    """Yield an empty store, deleted at the end. Its plans run here or by a runner."""
    with memory_folder() as folder:
        root, scratch = folder / "namespace", folder / "scratch"
        root.mkdir()
        scratch.mkdir()
        with mock.patch.dict(os.environ, {"SPARKLAKE_SCRATCH": str(scratch)}):
            yield Trees(root, scratch, range_records, runner or LocalRunner())


class Trees:
    """A maker and reader of trees in one storage namespace."""

    def __init__(self, root: Path, scratch: Path, range_records: int, runner: Runner) -> None:
        self.workspace = Workspace(f"file://{root}", range_records)
        self.store: ObjectStore = open_store(self.workspace.storage_namespace)
        self.scratch = scratch
        self.runner = runner

    def with_range_records(self, range_records: int) -> Trees:
        """Return the same store with another rule for range ends."""
        root = Path(self.workspace.storage_namespace.removeprefix("file://"))
        return Trees(root, self.scratch, range_records, self.runner)

    def names(self) -> set[str]:
        """Return the names of all tables in the store."""
        return {each.key.rpartition("/")[2] for each in self.store.list("_lakefs/")}

    def write(self, contents: Mapping[bytes, bytes], data: bytes = b"") -> MetaRange:
        """Write records in one go."""
        return self.write_records(records_of(contents, data))

    def write_records(self, records: Sequence[Record], cuts: Sequence[int] = ()) -> MetaRange:
        """Write records with one body per partition, cut at the given positions."""
        return self.finish(self.write_pieces(records, cuts))

    def write_pieces(self, records: Sequence[Record], cuts: Sequence[int] = ()) -> list[RangeRow]:
        """Write the ranges of records, without stitching."""
        bounds = [0, *sorted(min(at, len(records)) for at in cuts), len(records)]
        results = (
            result
            for start, stop in pairwise(bounds)
            for result in decode_results(
                run_body(self.workspace, [record_batch(records[start:stop])])
            )
        )
        return [row_of(each.written) for each in results if isinstance(each, PieceResult)]

    def finish(self, pieces: Sequence[RangeRow]) -> MetaRange:
        """Stitch pieces and write their metarange."""
        return finish(self.store, self.workspace, pieces)

    def read_back(self, tree: MetaRange) -> MetaRange:
        """Read a metarange from the store."""
        return read_meta_range(self.store, tree.id)

    def records(self, ranges: Sequence[RangeInfo]) -> list[Record]:
        """Read the records of ranges."""
        return flat(read_ranges(self.store, ranges))

    def contents(self, tree: MetaRange) -> Contents:
        """Read a tree by its id."""
        return identities(self.records(self.read_back(tree).ranges))

    def rows(self, changes: Mapping[bytes, bytes | None]) -> Rows:
        """Return a staged layer of rows."""
        return Rows(tuple(staged_records(changes)))

    def run(self, changes: Mapping[bytes, bytes | None], cuts: Sequence[int] = ()) -> Run:
        """Write a staged layer as a run."""
        return Run(self.write_records(staged_records(changes), cuts))

    def commit(
        self, base: MetaRange, layers: Sequence[Layer], task_records: int | None = None
    ) -> tuple[MetaRange, PlanResult]:
        """Apply staged layers, newest first, to a base."""
        plan = plan_apply(base.ranges, [side_of(layer) for layer in layers], touched(layers))
        outcome = run_plan(self.runner, partial(apply_body, self.workspace), plan, task_records)
        return self.finish(outcome.pieces), outcome

    def merge(
        self,
        base: MetaRange,
        source: MetaRange,
        dest: MetaRange,
        how: Strategy | Resolution | None,
        task_records: int | None = None,
    ) -> PlanResult:
        """Run a merge up to its stitching."""
        plan = plan_merge(base.ranges, source.ranges, dest.ranges)
        resolution = how if isinstance(how, Resolution) else Resolution(how)
        body = partial(merge_body, self.workspace, resolution)
        return run_plan(self.runner, body, plan, task_records)

    def replace(
        self,
        base: MetaRange,
        replacement: MetaRange,
        within: Interval,
        task_records: int | None = None,
    ) -> MetaRange:
        """Replace the contents of a base in an interval by a tree."""
        plan = plan_replace(base.ranges, replacement.ranges, within)
        body = partial(apply_body, self.workspace)
        return self.finish(run_plan(self.runner, body, plan, task_records).pieces)


def records_of(contents: Mapping[bytes, bytes], data: bytes = b"") -> list[Record]:
    """Return the records of contents in key order."""
    return [encoded(key, identity, data) for key, identity in sorted(contents.items())]


# Tests make and read the same few records a million times.
@lru_cache(maxsize=200_000)
def encoded(key: bytes, identity: bytes, data: bytes) -> Record:
    """Return a stored record."""
    return encode_record(key, identity, data)


@lru_cache(maxsize=200_000)
def identity(key: bytes, stored: bytes) -> bytes:
    """Return the identity of a stored record."""
    return decode_record(key, stored).identity


def staged_records(changes: Mapping[bytes, bytes | None]) -> list[Record]:
    """Return staged records and tombstones in key order."""
    return [
        tombstone(key) if identity is None else encoded(key, identity, b"")
        for key, identity in sorted(changes.items())
    ]


def identities(records: Sequence[Record]) -> Contents:
    """Return the contents of records in key order."""
    contents = {key: identity(key, stored) for key, stored in records}
    assert len(contents) == len(records), "a key is there twice"
    assert list(contents) == sorted(contents), "records are out of order"
    return contents


def touched(layers: Sequence[Layer]) -> list[Interval]:
    """Return the key intervals that layers touch."""
    spots = []
    for layer in layers:
        if isinstance(layer, Run):
            spots += [(each.min_key, successor(each.max_key)) for each in layer.tree.ranges]
        else:
            spots += [(key, successor(key)) for key, _ in layer.records]
    return [Interval(*spot) for spot in sorted(spots)]


def side_of(layer: Layer) -> SideStream:
    """Return a staged layer as a side of a plan."""
    return (
        SideStream(tuple(layer.tree.ranges))
        if isinstance(layer, Run)
        else SideStream(rows=layer.records)
    )


def write_meta_range(store: ObjectStore, ranges: Ranges) -> MetaRange:
    """Write the metarange of ranges in key order, durably, where no collection runs."""
    tree, files = make_meta_range(ranges)
    store.put_many_if_absent(files)
    return tree
