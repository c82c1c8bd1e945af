"""Random triples of base, source and dest, policies for conflicts, and minimal failures.

Many triples can be merged as one. Then each has its own folder.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple, TypeVar

from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import Strategy
from tests.graveler.merge_table import MERGE_TABLE, A, B, C
from tests.support import oracle
from tests.support.oracle import Contents
from tests.support.trees import encoded

NAMES = (b"A", b"B", b"C", b"D")
"""So few identities that keys share them."""

# Some are the beginnings of others, and their order is that of bytes, not that of letters.
KEYS = tuple(
    key.encode()
    for key in ("a", "a\0", "a!", "a-b", "a/", "a/b", "a0", "b", "ba", "\x7f", "é", "\U0010ffff")
)

NAMINGS = [dict(zip((A, B, C), names, strict=True)) for names in permutations(NAMES, 3)]
ROWS = [row[:3] for row in MERGE_TABLE]

Identity = bytes | None
T = TypeVar("T")


class Triple(NamedTuple):
    base: Contents
    source: Contents
    dest: Contents

    def all_keys(self) -> list[bytes]:
        return sorted({key for side in self for key in side})

    def without(self, dropped: bytes) -> Triple:
        return Triple(
            *({key: each for key, each in side.items() if key != dropped} for side in self)
        )

    def identities(self, key: bytes) -> tuple[Identity, Identity, Identity]:
        return self.base.get(key), self.source.get(key), self.dest.get(key)


def together(triples: Sequence[Triple]) -> Triple:
    """Return many triples as one."""
    whole = Triple({}, {}, {})
    for number, triple in enumerate(triples):
        folder = b"%05d/" % number
        for side, part in zip(whole, triple, strict=True):
            side.update({folder + key: each for key, each in part.items()})
    return whole


def row_of(sides: Sequence[Identity]) -> str:
    """Return the merge-table row of identities, named in order of appearance."""
    names: dict[bytes, str] = {}
    return "".join(
        "X" if each is None else names.setdefault(each, "ABC"[len(names)]) for each in sides
    )


# --- chance ---------------------------------------------------------------------------------------


def random_triples(seed: object, count: int) -> Iterator[Triple]:
    """Yield the triples of a seed."""
    chance = random.Random(str(seed)).random
    for _ in range(count):
        yield (of_rows if chance() < 0.3 else of_edits)(chance)


def of_edits(chance: Callable[[], float]) -> Triple:
    """Return two independently edited sides, with any share of edited keys."""
    density = chance()
    keys = [key for key in KEYS if chance() < density]
    base = {key: one_of(NAMES, chance) for key in keys if chance() < 0.8}

    def edited() -> Contents:
        rate = one_of((0, 0.1, 0.3, 0.6), chance)
        edits = {key: one_of((*NAMES, None), chance) for key in keys if chance() < rate}
        return oracle.changed(base, edits)

    return Triple(base, edited(), edited())


def of_rows(chance: Callable[[], float]) -> Triple:
    """Return a triple with a random merge-table row per key, all rows equally likely."""
    triple = Triple({}, {}, {})
    for key in KEYS:
        if chance() < 0.25:
            names = one_of(NAMINGS, chance)
            for side, each in zip(triple, one_of(ROWS, chance), strict=True):
                if each is not None:
                    side[key] = names[each]
    return triple


def one_of(things: Sequence[T], chance: Callable[[], float]) -> T:
    """Return a random element, ten times as fast as `random.choice`."""
    return things[int(chance() * len(things))]


def parts(triples: Iterator[Triple], chance: random.Random, most: int) -> Iterator[list[Triple]]:
    """Yield triples in parts of random sizes, each to be merged as one."""
    while part := [each for _, each in zip(range(chance.randint(1, most)), triples, strict=False)]:
        yield part


# --- policies -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Policy:
    """A conflict policy, in terms of identities and of stored records.

    `strategy` is the engine's name for it. Without a name, only the algebra has the policy.
    """

    name: str
    settle: Callable[[bytes, Identity, Identity, Identity], Identity]
    decide: Callable[[Conflict], bytes | None]
    strategy: Strategy | None = None

    def winner(self, triple: Triple) -> Contents:
        """Return the value of each key if it is in conflict."""
        settled = {key: self.settle(key, *triple.identities(key)) for key in triple.all_keys()}
        return {key: each for key, each in settled.items() if each is not None}

    def __str__(self) -> str:
        return self.name


def is_odd(key: bytes) -> bool:
    return bool(key[-1] % 2)


STRATEGIES = (
    Policy(
        "source-wins",
        lambda key, base, source, dest: source,
        lambda conflict: conflict.source,
        Strategy.SOURCE_WINS,
    ),
    Policy(
        "dest-wins",
        lambda key, base, source, dest: dest,
        lambda conflict: conflict.dest,
        Strategy.DEST_WINS,
    ),
)
POLICIES = (
    *STRATEGIES,
    Policy(
        "by the path",
        lambda key, base, source, dest: source if is_odd(key) else dest,
        lambda conflict: conflict.source if is_odd(conflict.key) else conflict.dest,
    ),
    Policy("base wins", lambda key, base, source, dest: base, lambda conflict: conflict.base),
    Policy("nobody wins", lambda *_: None, lambda _: None),
    Policy(
        "another record",
        lambda *_: b"Z",
        lambda conflict: encoded(conflict.key, b"Z", b"decided")[1],
    ),
)


# --- failures -------------------------------------------------------------------------------------


def check_parts(triples: Sequence[Triple], check: Callable[[Triple], None]) -> None:
    """Check all triples together, and reduce a failure to a minimal triple."""
    try:
        check(together(triples))
    except AssertionError as error:
        least = together(least_triples(triples, lambda some: fails(check, together(some))))
        raise AssertionError(f"{least!r} fails, and nothing less: {error}") from error


def fails(check: Callable[[Triple], None], triple: Triple) -> bool:
    try:
        check(triple)
    except AssertionError:
        return True
    return False


def least_triples(
    triples: Sequence[Triple], failing: Callable[[Sequence[Triple]], bool]
) -> list[Triple]:
    """Return a minimal failing set: without any half, triple or key, it passes."""
    remaining = list(triples)
    size = len(remaining) // 2
    while size:
        for start in range(0, len(remaining), size):
            rest = [*remaining[:start], *remaining[start + size :]]
            if rest and failing(rest):
                remaining = rest
                break
        else:
            size //= 2
    for at in range(len(remaining)):
        for key in remaining[at].all_keys():
            smaller = [*remaining[:at], remaining[at].without(key), *remaining[at + 1 :]]
            if failing(smaller):
                remaining = smaller
    return remaining
