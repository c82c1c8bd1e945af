"""Random cases with compiled kernels and with their definitions in Python: equal in everything.

A case is a small tree, two changed versions of it and a staged layer, as tables of small ranges.
Some tables are damaged. Trees, files, diffs, listings, conflicts, lookups and errors are compared.
`SPARKLAKE_KERNEL_CASES` and `SPARKLAKE_SEED` choose how many cases there are, and which.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from campaigns.faults.damaged_tables import block_handles
from campaigns.faults.damaged_tables import damaged as repaired
from sparklake.errors import SparklakeError
from sparklake.graveler import kernel_choice, kernels
from sparklake.graveler.algebra.changes import ChangeCounts
from sparklake.graveler.algebra.compare import diff, three_way_diff
from sparklake.graveler.algebra.staged import apply
from sparklake.graveler.algebra.three_way_merge import merge
from sparklake.graveler.blocks.block import Block, block_of_records
from sparklake.graveler.blocks.columns import keys_of
from sparklake.graveler.blocks.edit import renamed
from sparklake.graveler.blocks.entry_columns import object_columns
from sparklake.graveler.blocks.verification import record_problem
from sparklake.graveler.entries import AddressType, Entry, entry_record
from sparklake.graveler.records import Record, tombstone
from sparklake.graveler.sstable.range_files import write_ranges
from sparklake.graveler.sstable.reader import DataBlocks, read_sstable
from sparklake.graveler.times import SECOND
from sparklake.namespace.addresses import OwnNamespace
from sparklake.udfs.checks.named import named_columns
from tests.support.compiled import CARGO_PATH, needs_cargo, needs_kernels

CASES = int(os.environ.get("SPARKLAKE_KERNEL_CASES", "40000"))
SEED = os.environ.get("SPARKLAKE_SEED", "sparklake")
AT_ONCE = 5_000
INPUTS = 10_000_000
CRATE = Path(__file__).parents[2] / "kernels"
PREFIXES = ("", "a/", "a/b/", "ž/", "data/part-0001/obj-0000000000")

Tree = dict[str, Entry]


def new_entry(chance: random.Random) -> Entry:
    """Return an entry, sometimes with metadata that kernels leave to Python."""
    number = chance.randrange(1 << 40)
    return Entry(
        address=f"data/{number:x}",
        size=chance.choice((0, 200, number)),
        checksum=f"{number:032x}"[: chance.choice((0, 32, 32))],
        mtime=chance.randrange(2 * 10**9) * SECOND + chance.randrange(3),
        metadata={"n": str(number)} if chance.random() < 0.01 else {},
        content_type=chance.choice(("", "application/octet-stream", "text/csv")),
        address_type=chance.choice((AddressType.RELATIVE, AddressType.FULL)),
    )


def new_tree(chance: random.Random) -> Tree:
    count = chance.choice((0, 1, 2, 5, 10, 20, 60))
    prefix = chance.choice(PREFIXES)
    numbers = [chance.randrange(300) for _ in range(count)]
    return {f"{prefix}{number:0{chance.choice((1, 4))}}": new_entry(chance) for number in numbers}


def changed(tree: Tree, chance: random.Random) -> Tree:
    """Return a version of a tree with a few changes, or with many."""
    share = chance.choice((0.0, 0.03, 0.3, 0.9))
    result = {path: each for path, each in tree.items() if chance.random() > share / 2}
    for path in result:
        if chance.random() < share / 2:
            result[path] = new_entry(chance)
    if share:
        result.update(dict(list(new_tree(chance).items())[: chance.choice((0, 1, 5))]))
    return result


def records_of(tree: Tree) -> list[Record]:
    return sorted(entry_record(path, each) for path, each in tree.items())


def staged(tree: Tree, chance: random.Random) -> list[Record]:
    """Return the records of a layer over a tree: new objects and tombstones."""
    layer = {path.encode(): tombstone(path.encode()) for path in tree if chance.random() < 0.1}
    layer.update((each[0], each) for each in records_of(changed(tree, chance))[::3])
    return [layer[key] for key in sorted(layer)]


def files_of(records: Sequence[Record], size: int, *, compress: bool) -> list[tuple[str, bytes]]:
    """Return the ranges of records, by id."""
    blocks = [block_of_records(records)] if records else []
    return [(each.info.id, file) for each, file in write_ranges(blocks, size, compress=compress)]


def plain_part(name: str, file: bytes, compress: bool) -> Any:
    """Return the bytes of a file before the index, or its records.

    Snappy has several forms of the same bytes, and compresses each index.
    """
    block = read_sstable(name, file)
    assert block is not None
    (unit,) = block.units
    assert isinstance(unit, DataBlocks)
    return contents(block) if compress else unit.packed()


def damaged(file: bytes, chance: random.Random) -> bytes:
    """Return a file with other bytes. Half of the time, all its checksums are right."""
    if chance.random() < 0.5:
        places = [
            (chance.random(), chance.choice((chance.random(), 0.95)), chance.randrange(256))
            for _ in range(chance.choice((1, 1, 3)))
        ]
        return repaired(file, block_handles(file), places)
    body = bytearray(file)
    for _ in range(chance.choice((1, 1, 3))):
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    return bytes(body[: chance.choice((len(body), len(body), len(body) - 1))])


class Side:
    """A side as a stream of blocks, opened anew each time it is read."""

    def __init__(self, files: Sequence[tuple[str, bytes]]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[Block]:
        for name, file in self.files:
            block = read_sstable(name, file)
            if block is not None:
                yield block


def contents(block: Block) -> Any:
    return block.records(), block.ids.tobytes()


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error."""
    try:
        return call()
    except SparklakeError as error:
        return type(error), str(error)


def results(seed: str) -> list[Any]:
    """Return the results of all kernels' callers for one case."""
    chance = random.Random(seed)
    size, compress = chance.choice((8, 64, 64, 4096)), chance.random() < 0.3
    base = new_tree(chance)
    trees = [base, changed(base, chance), changed(base, chance)]
    layer = staged(base, chance)
    with kernel_choice.only_definitions():
        # Both ways read the same files.
        files_of_sides = [files_of(records_of(each), size, compress=compress) for each in trees]
        layers = [files_of(layer, size, compress=False)]
    if chance.random() < 0.2:
        some = [each for each in files_of_sides if each]
        if some:
            one = chance.choice(some)
            at = chance.randrange(len(one))
            one[at] = (one[at][0], damaged(one[at][1], chance))
    sides = [Side(each) for each in files_of_sides]
    over = [Side(each) for each in layers]
    searched = sorted({key for key, _ in layer} | {b"a/0001", b"zzz"})
    conflicts: list[Any] = []

    def decide(some: Any) -> list[bytes | None]:
        conflicts.extend(some)
        return [each.source if number % 2 else each.dest for number, each in enumerate(some)]

    def written_again(blocks: Iterator[Block]) -> Any:
        ranges = write_ranges(blocks, size, compress=compress)
        return [(each, plain_part(each.info.id, file, compress)) for each, file in ranges]

    def lookup(block: Block) -> Any:
        places, there = block.find(keys_of(searched))
        units = [unit for unit in block.units if isinstance(unit, DataBlocks)]
        single = [[unit.find(key) for key in searched[:5]] for unit in units]
        return (
            places.tolist(),
            there.tolist(),
            single,
            [unit.reaching(searched[0]) for unit in units],
        )

    def found_together(block: Block) -> Any:
        units = [unit for unit in block.units if isinstance(unit, DataBlocks)]
        many = [unit.find_many(keys_of(searched)) for unit in units]
        return [(values.to_pylist(), rows.tolist()) for values, rows in many]

    def listed(block: Block) -> Any:
        texts, numbers, metadata = object_columns(block, "s3://bucket")
        lists = [*(each.to_pylist() for each in texts), *(each.tolist() for each in numbers)]
        return lists, None if metadata is None else metadata.to_pylist()

    def addresses(block: Block) -> Any:
        *texts, sizes, hashes = named_columns(block, OwnNamespace("s3://bucket"))
        return [each.to_pylist() for each in texts], sizes.tolist(), [*map(list, hashes)]

    def moved(block: Block) -> Any:
        return contents(renamed(block, 0, b"new/"))

    filled = [records_of(each) for each in trees if each]
    base_side, source, dest = sides
    calls: list[Callable[[], Any]] = [
        lambda: [written_again(iter([block_of_records(each)])) for each in filled],
        lambda: [contents(block) for side in sides for block in side],
        lambda: [listed(block) for block in dest],
        lambda: [record_problem(block, block.encoded) for side in sides for block in side],
        lambda: [record_problem(block, block.encoded) for side in over for block in side],
        lambda: [addresses(block) for block in dest],
        lambda: [lookup(block) for block in base_side],
        lambda: [found_together(block) for block in base_side],
        lambda: [moved(block) for block in base_side],
        lambda: [list(each) for each in diff(base_side, source)],
        lambda: [list(each) for each in three_way_diff(*sides)],
        lambda: written_again(apply(over, base_side, ChangeCounts())),
        lambda: [listed(block) for block in apply(over, base_side, ChangeCounts())],
        lambda: written_again(merge(base_side, source, dest, decide)),
        lambda: conflicts,
    ]
    return [[name for files in files_of_sides for name, _ in files], *map(outcome, calls)]


def check(seed: str) -> int:
    """Compare both results of one case, and return the number of failed calls."""
    compiled = results(seed)
    with kernel_choice.only_definitions():
        defined = results(seed)
    assert len(compiled) == len(defined)
    for number, (one, other) in enumerate(zip(compiled, defined, strict=True)):
        assert repr(one) == repr(other), f"case {seed!r}, call {number}"
    return sum(isinstance(each, tuple) and isinstance(each[0], type) for each in defined)


@needs_kernels
def test_compiled_kernels_are_active() -> None:
    assert kernel_choice.is_compiled(), kernel_choice.description()


@needs_kernels
def test_kernels_accept_valid_records() -> None:
    entries = [Entry(f"data/{each}", each, "checksum", each * SECOND) for each in range(99)]
    records = sorted(entry_record(f"a/{each.size}", each) for each in entries)
    block = block_of_records(records)
    assert kernels.record_problem(block, block.encoded) == ""
    address, checksum, sizes, _ = kernels.named_objects(block, "s3://bucket")
    objects = sorted(zip(address.to_pylist(), checksum.to_pylist(), sizes.tolist(), strict=True))
    assert objects == sorted((f"s3://bucket/{e.address}", e.checksum, e.size) for e in entries)


@needs_kernels
def test_random_cases_give_equal_results() -> None:
    failures = sum(check(f"a sample {number}") for number in range(40))
    assert failures > 3, "damage is noticed"


@needs_kernels
def test_keys_out_of_order_are_reported_as_damage() -> None:
    """In this case a damaged key is below the one before it, and all checksums are right."""
    assert check("sparklake 5 3222")


@needs_kernels
@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(-(-CASES // AT_ONCE)))
def test_very_many_random_cases_give_equal_results(number: int) -> None:
    for case in range(min(AT_ONCE, CASES - number * AT_ONCE)):
        check(f"{SEED} {number} {case}")


@needs_cargo
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(300_000, marks=pytest.mark.system),
        pytest.param(INPUTS, marks=pytest.mark.exhaustive),
    ],
)
def test_hostile_inputs_never_crash_a_kernel(inputs: int, tmp_path: Path) -> None:
    """The crate's own tests: every kernel answers or declines, and never panics."""
    command = "test --release --quiet --locked --no-default-features -- --nocapture"
    done = subprocess.run(
        ["cargo", *command.split()],
        cwd=CRATE,
        env={
            **os.environ,
            "PATH": CARGO_PATH,
            "SPARKLAKE_FUZZ_INPUTS": str(inputs),
            "CARGO_TARGET_DIR": str(tmp_path),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "accepted [" in done.stdout
