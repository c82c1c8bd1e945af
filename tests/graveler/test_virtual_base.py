"""Virtual merge bases against brute force in plain dicts."""

from __future__ import annotations

import random
from itertools import product

import pytest

from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.graph.merge_base import merge_bases
from sparklake.graveler.graph.virtual_base import VirtualBases, disagreement, disagreements
from sparklake.graveler.ids import CommitId
from sparklake.graveler.records import encode_record, tombstone
from tests.support.cases import for_each
from tests.support.oracle import merged
from tests.support.recursive import History, base_tree, best_bases, criss_crossed

Tree = dict[bytes, bytes]
KEY = b"k"

CRISS_CROSS: History = {"a": (), "l": ("a",), "r": ("a",), "x": ("l", "r"), "y": ("r", "l")}
TWICE: History = {**CRISS_CROSS, "v": ("x", "y"), "w": ("y", "x")}
THREE: History = {
    "a": (),
    **dict.fromkeys("pqr", ("a",)),
    "x": ("p", "q", "r"),
    "y": ("r", "q", "p"),
}


def virtual_base(history: History, trees: dict[str, Tree], left: str, right: str) -> Tree:
    generations: dict[str, int] = {}
    for each, parents in history.items():
        generations[each] = 1 + max((generations[parent] for parent in parents), default=0)

    def merge(name: CommitId, base: Tree, source: Tree, dest: Tree) -> Tree:
        tree, conflicts = merged(base, source, dest, dest)
        return {**tree, **{key: name.encode() for key in conflicts}}

    bases = merge_bases(
        CommitId(left), CommitId(right), history.__getitem__, generations.__getitem__
    )  # type: ignore[arg-type]
    virtual_bases = VirtualBases(
        history.__getitem__, generations.__getitem__, trees.__getitem__, merge, {}
    )  # type: ignore[arg-type]
    return virtual_bases.of(bases)


def check(history: History, trees: dict[str, Tree], left: str, right: str) -> None:
    """Merge two commits over the computed base and over the model's, with equal results."""
    base = virtual_base(history, trees, left, right)
    expected = base_tree(history, trees, [left], [right])
    sides = trees[left], trees[right]
    assert merged(base, *sides, {}) == merged(expected, *sides, {}), (history, trees)
    assert base.keys() == expected.keys()
    for key, value in expected.items():
        agreed = isinstance(value, bytes)
        assert (base[key] == value) if agreed else len(base[key]) == 64, (history, trees)


@for_each(
    ("ancestor", "ours", "theirs", "expected"),
    [
        (b"1", b"1", b"1", b"1"),
        (b"1", b"2", b"1", b"2"),
        (b"1", b"1", b"2", b"2"),
        (b"1", b"2", b"2", b"2"),
        (b"1", b"", b"1", b""),
        (b"", b"", b"2", b"2"),
        (b"1", b"2", b"3", None),
        (b"1", b"", b"3", None),
        (b"", b"2", b"3", None),
    ],
)
def test_a_criss_cross_has_a_virtual_base(
    ancestor: bytes, ours: bytes, theirs: bytes, expected: bytes | None
) -> None:
    values = {"a": ancestor, "l": ours, "r": theirs, "x": b"", "y": b""}
    trees = {each: {KEY: value} if value else {} for each, value in values.items()}
    base = virtual_base(CRISS_CROSS, trees, "x", "y").get(KEY, b"")
    assert base == expected if expected is not None else len(base) == 64


@pytest.mark.parametrize(
    ("history", "left", "right"),
    [(CRISS_CROSS, "x", "y"), (TWICE, "v", "w"), (THREE, "x", "y")],
    ids=["criss-cross", "on one another", "three"],
)
def test_every_arrangement_of_one_key_matches_the_model(
    history: History, left: str, right: str
) -> None:
    values = (b"", b"1", b"2") if len(history) > 5 else (b"", b"1", b"2", b"3")
    for arranged in product(values, repeat=len(history)):
        pairs = zip(history, arranged, strict=True)
        check(history, {each: {KEY: value} if value else {} for each, value in pairs}, left, right)


@pytest.mark.parametrize(
    "count",
    [1_500, pytest.param(60_000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1800)])],
)
def test_random_histories_match_the_model(count: int) -> None:
    chance, several = random.Random(count), 0
    for _ in range(count):
        history, left, right = criss_crossed(chance, chance.randint(2, 6))
        trees: dict[str, Tree] = {}
        for each in history:
            values = {bytes([key]): chance.choice((b"", b"1", b"2", b"3")) for key in range(4)}
            trees[each] = {key: value for key, value in values.items() if value}
        check(history, trees, left, right)
        several += len(best_bases(history, [left], [right])) > 1
    assert several > count / 4


def test_long_chains_of_criss_crosses_are_merged() -> None:
    history: dict[str, tuple[str, ...]] = {"a": (), "l0": ("a",), "r0": ("a",)}
    for number in range(1, 2_500):
        one, other = f"l{number - 1}", f"r{number - 1}"
        history |= {f"l{number}": (one, other), f"r{number}": (other, one)}
    trees: dict[str, Tree] = {each: {KEY: b"1"} for each in history}
    trees["l0"], trees["r0"] = {KEY: b"2"}, {KEY: b"1", b"other": b"1"}
    assert virtual_base(history, trees, "l1", "r1") == {KEY: b"2", b"other": b"1"}
    assert virtual_base(history, trees, "l2499", "r2499") == {KEY: b"1"}


def test_disagreements_are_distinguished_from_other_records() -> None:
    names = [CommitId(digit * 64) for digit in "ab"]
    records = [
        encode_record(b"a", b"\0disagreement", b"data"),
        (b"b", disagreement(b"b", names[0])),
        tombstone(b"c"),
        (b"d", disagreement(b"d", names[1])),
        encode_record(b"e", b"x" * 46, b""),
    ]
    block = block_of_records(records)
    assert disagreements(block.encoded.stored_array()).tolist() == [False, True, False, True, False]
    assert disagreement(KEY, names[0]) != disagreement(KEY, names[1])
    assert disagreement(KEY, names[0])[-32:] != disagreement(b"l", names[0])[-32:]
