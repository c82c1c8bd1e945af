"""Whole tasks of kernels and of their Python definitions give equal results.

A case is a small base, two versions of it, staged layers and pieces. Some files are damaged.
`SPARKLAKE_KERNEL_CASES` and `SPARKLAKE_SEED` choose how many cases there are, and which.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from campaigns.faults.damaged_tables import with_block
from sparklake.errors import CorruptFileError
from sparklake.graveler import kernel_choice
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.keys import Interval, successor
from sparklake.graveler.planning.packing import Task, TaskPiece
from sparklake.graveler.planning.path_filter import ALL, PathFilter
from sparklake.graveler.planning.plan import OpenPiece, SideStream
from sparklake.graveler.ports import StoreTraits
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.records import Record, tombstone
from sparklake.graveler.sstable.directory import DIRECTORY
from sparklake.graveler.sstable.layout import meta_blocks
from sparklake.graveler.sstable.range_files import tree_file_key, verify_table, write_ranges
from sparklake.graveler.sstable.reader import DataBlocks, read_sstable
from sparklake.rows.objects import OBJECT_SCHEMA
from sparklake.rows.settings import Workspace
from sparklake.stores.objects.local.store import LocalStore
from sparklake.strategies.judging import Judge
from sparklake.strategies.resolution import Resolution
from sparklake.udfs import compiled_tasks, diffs, objects
from sparklake.udfs import write_ranges as bodies
from sparklake.udfs.compiled_tasks import Applied, Merged, decided_once
from sparklake.udfs.observed_changes import ObservedChanges
from sparklake.udfs.range_sink import RangeSink, emptied, open_sink
from tests.graveler.test_kernel_cases import (
    AT_ONCE,
    SEED,
    changed,
    damaged,
    new_entry,
    new_tree,
    outcome,
    plain_part,
    records_of,
    staged,
)
from tests.support.compiled import needs_kernels

CASES = int(os.environ.get("SPARKLAKE_KERNEL_CASES", "100000"))


@dataclass
class Files:
    """A store of tree files in memory."""

    files: dict[str, bytes] = field(default_factory=dict)
    traits: StoreTraits = field(default_factory=StoreTraits)

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        return iter([self.files[key] for key in keys])

    def add(self, records: Sequence[Record], size: int, *, compress: bool) -> tuple[RangeInfo, ...]:
        blocks = [block_of_records(records)] if records else []
        ranges = list(write_ranges(blocks, size, compress=compress))
        self.files.update((tree_file_key(each.info.id), file) for each, file in ranges)
        return tuple(each.info for each, _ in ranges)


@dataclass(frozen=True)
class Case:
    store: Files
    sound: Files
    size: int
    compress: bool
    merge: Task
    apply: Task
    diff: Task
    path_filter: PathFilter
    resolution: Resolution


def new_case(seed: str, *, compress: bool | None = None) -> Case:
    chance = random.Random(seed)
    size = chance.choice((4, 8, 64, 64, 4096))
    compress = chance.random() < 0.3 if compress is None else compress
    base = new_tree(chance)
    store = Files(traits=StoreTraits(verifies=chance.random() < 0.5))
    with kernel_choice.only_definitions():
        # Both ways read the same files.
        trees = [base, changed(base, chance), changed(base, chance)]
        sides = [SideStream(store.add(records_of(each), size, compress=compress)) for each in trees]
        layers = [staged(base, chance) for _ in range(chance.choice((1, 1, 2, 3)))]
        if chance.random() < 0.5:
            over = [SideStream(rows=tuple(each)) for each in layers]
        else:
            over = [SideStream(store.add(each, size, compress=False)) for each in layers]
    sound = Files(dict(store.files), store.traits)
    if store.files and chance.random() < 0.2:
        key = chance.choice(list(store.files))
        store.files[key] = damaged(store.files[key], chance)
        try:
            verify_table(key.rpartition("/")[2], store.files[key])
        except CorruptFileError:
            store.traits = StoreTraits()  # A store that verifies tree files would reject it.
    resolution = Resolution(chance.choice((None, *Strategy)))
    keys = sorted({key for each in (*map(records_of, trees), *layers) for key, _ in each})
    pieces = new_pieces(keys, chance)
    return Case(
        store,
        sound,
        size,
        compress,
        merge=new_task(pieces, sides),
        apply=new_task(pieces, [sides[0], *over]),
        diff=new_task(pieces, sides[1:]),
        path_filter=ALL if chance.random() < 0.7 else PathFilter(tuple(new_pieces(keys, chance))),
        resolution=resolution,
    )


def new_pieces(keys: Sequence[bytes], chance: random.Random) -> list[Interval]:
    """Return one piece of everything, or some with gaps between them."""
    if chance.random() < 0.4 or len(keys) < 4:
        return [Interval(b"", None)]
    bounds: list[bytes | None] = sorted(chance.sample(list(keys), chance.choice((2, 4))))
    if chance.random() < 0.5:
        bounds[-1] = None
    return [
        Interval(start or b"", stop) for start, stop in zip(bounds[::2], bounds[1::2], strict=True)
    ]


def new_task(pieces: Sequence[Interval], sides: Sequence[SideStream]) -> Task:
    # As in a plan, rows are in the pieces only, and a range may reach beyond them.
    def within(side: SideStream, piece: Interval) -> SideStream:
        rows = tuple(each for each in side.rows if each[0] in piece)
        ranges = tuple(
            each
            for each in side.ranges
            if each.max_key >= piece.start and (piece.stop is None or each.min_key < piece.stop)
        )
        return SideStream(ranges, rows)

    return Task(
        tuple(
            TaskPiece(number, OpenPiece(piece, tuple(within(each, piece) for each in sides)))
            for number, piece in enumerate(pieces)
        )
    )


def report(sink: RangeSink, result: Applied | Merged, *, in_bytes: bool) -> Any:
    """Return the report of a task with its files, and with their index entries decompressed."""
    files = [
        (range_id, in_bytes and plain_part(range_id, content_of(file), sink.compress))
        for range_id, file in sink._files.items()
    ]
    keys = result.changed.keys
    parts = [result.pieces, keys and sorted(keys), files]
    return [*parts, result.counts] if isinstance(result, Applied) else parts


def content_of(file: bytes | Path) -> bytes:
    return file if isinstance(file, bytes) else file.read_bytes()


def results(case: Case, new_sink: Callable[[], RangeSink], *, in_bytes: bool = True) -> list[Any]:
    def applied() -> Any:
        sink = new_sink()
        result = bodies._applied(sink, case.apply, case.path_filter)
        return report(sink, result, in_bytes=in_bytes)

    def merged() -> Any:
        sink, judge = new_sink(), Judge(case.resolution, "s3://bucket")
        observed = ObservedChanges(case.resolution)
        decide = decided_once(judge.decide)
        merged = bodies._merged(sink, case.merge, case.path_filter, decide, observed)
        conflicts = (judge.conflicts, judge.unresolved, judge.reported)
        return [
            report(sink, merged, in_bytes=in_bytes),
            *conflicts,
            tuple(sorted(observed.logs)),
            observed.added,
        ]

    def differing() -> Any:
        changes = diffs._differences(new_sink().store, case.diff)
        return [row for each in changes for row in each]

    def listed() -> Any:
        batches = objects._listed(new_sink().store, case.apply, "s3://bucket")
        return pa.Table.from_batches(batches, OBJECT_SCHEMA).to_pylist()

    return [outcome(applied), outcome(merged), outcome(differing), outcome(listed)]


def sink_of(case: Case) -> Callable[[], RangeSink]:
    return partial(RangeSink, case.store, case.size, case.compress, withheld=True)  # type: ignore[arg-type]


def check(seed: str) -> int:
    """Compare both results of one case, and return the number of failed tasks."""
    case = new_case(seed)
    with kernel_choice.only_definitions():
        defined = results(case, sink_of(case))
    compiled = results(case, sink_of(case))
    if repr(compiled) != repr(defined):
        with kernel_choice.only_definitions():
            sound = replace(case, store=case.sound)
            expected = results(sound, sink_of(sound), in_bytes=False)
        # A kernel opens fewer data blocks. It may miss damage that does not change its result, and
        # copies damaged bytes with the right checksum.
        without_bytes = results(case, sink_of(case), in_bytes=False)
        differ = [repr(one) != repr(other) for one, other in zip(compiled, defined, strict=True)]
        for actual, error, result in compress(
            zip(without_bytes, defined, expected, strict=True), differ
        ):
            assert error[0] is CorruptFileError, f"case {seed!r}"
            is_same_error = isinstance(actual, tuple) and actual[0] is CorruptFileError
            assert is_same_error or repr(actual) == repr(result), f"case {seed!r}"
    return sum(isinstance(each, tuple) for each in defined)


@needs_kernels
def test_random_tasks_give_equal_results() -> None:
    failures = sum(check(f"a sample {number}") for number in range(60))
    assert failures > 2, "damage is noticed"


@needs_kernels
def test_a_data_block_with_swapped_first_and_last_keys_is_read() -> None:
    """In this case the last key is damaged, and all checksums are right."""
    check("sparklake 0 1330")


@needs_kernels
def test_a_last_key_beyond_the_metarange_is_damage() -> None:
    """In this case the key is also above the next range, so a search would miss its records."""
    assert check("sparklake 1 2778")


@needs_kernels
def test_a_wrong_first_key_ends_no_interval() -> None:
    chance, store = random.Random(3), Files()
    base = {f"k/{number:03}": replace(new_entry(chance), metadata={}) for number in range(300)}
    (info,) = store.add(records_of(base), 4096, compress=False)
    key = tree_file_key(info.id)
    file = store.files[key]
    block = read_sstable(key, file)
    assert block is not None
    (blocks,) = block.units
    assert isinstance(blocks, DataBlocks)
    first, last = blocks.first_keys[1], blocks.last_keys[1]
    handle = meta_blocks(file)[DIRECTORY]
    content = file[handle.offset : handle.offset + handle.size + 1].replace(first, last, 1)
    store.files[key] = with_block(file, handle, content)
    task = new_task([Interval(b"", successor(first))], [SideStream((info,))])
    batches = objects._listed(store, task, "s3://bucket")  # type: ignore[arg-type]
    paths = [path.encode() for each in batches for path in each["path"].to_pylist()]
    assert paths == [path.encode() for path in sorted(base) if path.encode() <= first]


@needs_kernels
def test_plain_objects_are_listed_by_the_kernel() -> None:
    """Overlaid by staged layers, and within the pieces' interval only."""
    if kernel_choice.CHOICE.library is None:
        return  # `make test-fallback` turns them off.
    chance, store = random.Random(3), Files()
    base = {f"k/{number:03}": new_entry(chance) for number in range(200)}
    base = {path: replace(each, metadata={}) for path, each in base.items()}
    changed = {
        f"k/{number:03}": replace(new_entry(chance), metadata={}) for number in range(99, 300)
    }
    layer = [tombstone(b"k/050"), *records_of(changed)]
    sides = [SideStream(store.add(each, 8, compress=True)) for each in (records_of(base), layer)]
    task = new_task([Interval(b"k/010", b"k/250")], sides)
    # The store has only what tasks read.
    (batch,) = compiled_tasks.list_task(store, task, "s3://bucket")  # type: ignore[arg-type]
    expected = {**base, **changed}
    paths = [path for path in sorted(expected) if "k/010" <= path < "k/250" and path != "k/050"]
    assert batch["path"].to_pylist() == paths
    assert batch["size"].to_pylist() == [expected[path].size for path in paths]


@needs_kernels
@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(-(-CASES // AT_ONCE)))
def test_very_many_random_tasks_give_equal_results(number: int) -> None:
    for case in range(min(AT_ONCE, CASES - number * AT_ONCE)):
        check(f"{SEED} {number} {case}")


@needs_kernels
@pytest.mark.parametrize("number", range(8))
def test_local_files_equal_files_in_memory(tmp_path: Path, number: int) -> None:
    """Local files are read and written by the kernel, and no temporary one stays."""
    case = new_case(f"local {number}", compress=False)
    local = LocalStore(tmp_path / "lake")
    local.root.mkdir()
    local.put_many_if_absent(case.store.files)
    workspace = Workspace(local.uri, case.size)
    expected = results(case, sink_of(case))
    sinks = []

    def new_sink() -> RangeSink:
        sinks.append(open_sink(workspace, withheld=True))
        return sinks[-1]

    assert repr(results(case, new_sink)) == repr(expected)
    for sink in sinks:
        files = {each: content_of(file) for each, file in sink._files.items()}
        sink.put()
        assert {each: local.get(tree_file_key(each)) for each in files} == files
    assert list(local.temporary_files()) == []


@needs_kernels
def test_a_late_conflict_leaves_no_temporary_file(tmp_path: Path) -> None:
    """The ranges before it are written when it is found."""
    chance, store = random.Random(5), Files()
    base = {f"k/{number:03}": new_entry(chance) for number in range(200)}
    trees = [base] + [base | {path: new_entry(chance) for path in ("k/000", "k/199")} for _ in "sd"]
    trees[2]["k/000"] = base["k/000"]
    sides = [SideStream(store.add(records_of(each), 8, compress=False)) for each in trees]
    local = LocalStore(tmp_path / "lake")
    local.root.mkdir()
    local.put_many_if_absent(store.files)
    task, conflicts = new_task([Interval(b"", None)], sides), list[Conflict]()

    def decide(some: Sequence[Conflict]) -> list[bytes | None]:
        conflicts.extend(some)
        assert list(local.temporary_files()) == []
        return [each.source for each in some]

    with emptied(open_sink(Workspace(local.uri, 8), withheld=True)) as sink:
        result = bodies._merged(sink, task, ALL, decide, None)
        assert result.changed.keys == {b"k/000", b"k/199"}
        assert [each.key for each in conflicts] == [b"k/199"]
        assert len(list(local.temporary_files())) == len(result.pieces[0].written) > 1
    assert list(local.temporary_files()) == []


@needs_kernels
@pytest.mark.parametrize("way", [nullcontext, kernel_choice.only_definitions])
def test_a_failed_task_leaves_no_temporary_file(tmp_path: Path, way: Any) -> None:
    case = next(
        case
        for number in range(1000)
        if isinstance(
            results(case := new_case(f"damage {number}", compress=False), sink_of(case))[0], tuple
        )
    )
    local = LocalStore(tmp_path / "lake")
    local.root.mkdir()
    local.put_many_if_absent(case.store.files)
    with way():
        results_of_tasks = results(
            case, lambda: open_sink(Workspace(local.uri, case.size), withheld=True)
        )
    assert isinstance(results_of_tasks[0], tuple)
    assert list(local.temporary_files()) == []
