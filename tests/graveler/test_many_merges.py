"""Merges of random triples against plain dicts: a sample always, a million in the slow suite.

`SPARKLAKE_TRIPLES` and `SPARKLAKE_SEED` choose how many there are, and which.
"""

from __future__ import annotations

import os
import random
from itertools import islice

import pytest

from tests.graveler.merge_checks import check_merge
from tests.graveler.merge_table import MERGE_TABLE
from tests.support.triples import (
    KEYS,
    POLICIES,
    STRATEGIES,
    Policy,
    Triple,
    check_parts,
    fails,
    least_triples,
    parts,
    random_triples,
    row_of,
    together,
)

TRIPLES = int(os.environ.get("SPARKLAKE_TRIPLES", "1000000"))
SEED = os.environ.get("SPARKLAKE_SEED", "sparklake")
AT_ONCE = 50_000
BLOCKS = ((1_001, 777, 2_048), (100_000,), (2_000, 1, 900))


def check_many(seed: object, count: int) -> None:
    """Merge triples in parts, each under both strategies and one of the other policies."""
    chance = random.Random(f"{seed} parts")
    for number, part in enumerate(parts(random_triples(seed, count), chance, 1_000)):
        more = POLICIES[len(STRATEGIES) + number % (len(POLICIES) - len(STRATEGIES))]
        sizes = (1, 3, 2, 7) if len(part) < 5 else chance.choice(BLOCKS)

        def check(triple: Triple, sizes=sizes, more: Policy = more) -> None:
            check_merge(*triple, sizes, (*STRATEGIES, more))

        check_parts(part, check)


def test_random_triples_merge_like_dicts() -> None:
    check_many("a sample", 10_000)


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", range(-(-TRIPLES // AT_ONCE)))
def test_very_many_random_triples_merge_like_dicts(number: int) -> None:
    check_many(f"{SEED} {number}", min(AT_ONCE, TRIPLES - number * AT_ONCE))


# --- whether the triples and the checks are worth something ---------------------------------------


def test_triples_cover_every_row_and_share_identities() -> None:
    triples = list(random_triples("rows", 300))
    rows = {row_of(each.identities(key)) for each in triples for key in KEYS}
    assert rows == {str(row) for row in MERGE_TABLE}
    shared = [each for each in triples if len(each.base) > len({*each.base.values()})]
    assert len(shared) > 100
    assert len(set(map(repr, triples))) > 250


def test_a_seed_determines_its_triples() -> None:
    one, same, other = (list(random_triples(seed, 20)) for seed in ("a", "a", "b"))
    assert one == same != other
    assert list(islice(random_triples("a", 99), 20)) == one


def test_parts_contain_all_triples() -> None:
    triples = list(random_triples("parts", 100))
    listed = list(parts(iter(triples), random.Random(1), 30))
    assert [each for part in listed for each in part] == triples
    assert len({len(part) for part in listed}) > 2


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_wrong_decision_is_detected(policy: Policy) -> None:
    """A policy with a wrong prediction fails on each conflict, and nowhere else."""
    wrong = Policy("wrong", lambda *_: b"Y", policy.decide)
    conflict = Triple({b"a": b"A", b"b": b"A"}, {b"a": b"B"}, {b"a": b"C"})
    peace = Triple({b"a": b"A"}, {b"a": b"B", b"b": b"A"}, {b"a": b"A"})
    assert not fails(lambda triple: check_merge(*triple, policies=[wrong]), peace)
    assert fails(lambda triple: check_merge(*triple, policies=[wrong]), conflict)


def test_a_failure_is_minimized() -> None:
    triples = list(random_triples("small", 200))
    guilty = Triple({b"x": b"A", b"y": b"B"}, {b"x": b"C"}, {b"x": b"D", b"y": b"D"})
    triples[137] = guilty

    def check(triple: Triple) -> None:
        assert not any(key.endswith(b"/x") for key in triple.dest), "x is there"

    with pytest.raises(AssertionError, match=r"Triple.*'00000/x'.*nothing less: x is there") as it:
        check_parts(triples, check)
    assert "/y" not in str(it.value)
    (least,) = least_triples(triples, lambda some: fails(check, together(some)))
    assert least == guilty.without(b"y")


def test_a_failure_that_needs_two_triples_keeps_both() -> None:
    triples = list(random_triples("two", 20))
    needed = [triples[3], triples[17]]
    least = least_triples(triples, lambda some: all(each in some for each in needed))
    assert least == needed
