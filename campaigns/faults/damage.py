"""Damage of stored files: python -m campaigns.faults.damage --rounds 5000 --seed 1.

A round damages one file of a lake, or two that it swaps, and asks several questions. Each answer is
that of the sound lake, or an error that names the file. Then the file is restored, and all
other files are as before. Every 25 rounds, a check of the whole repository is clean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from campaigns.faults.checking import ViolationError, check_repository
from campaigns.faults.hostile_dumps import HOSTILE, hostile_round
from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.faults.specimens import (
    ASKED_OF,
    DUMP_TABLE,
    MANIFEST,
    MARK,
    META_RANGE,
    OBJECT,
    QUESTIONS,
    RANGE,
    SETTINGS,
    Specimen,
    create_specimen,
)
from sparklake import SparklakeError
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import files_below

_ROUNDS_OF_A_CHECK = 25
_MORE_QUESTIONS = 3

_WEIGHTS = {
    RANGE: 45,
    META_RANGE: 15,
    OBJECT: 15,
    MARK: 3,
    DUMP_TABLE: 8,
    MANIFEST: 3,
    SETTINGS: 1,
    HOSTILE: 10,
}


def main() -> None:
    """Run the campaign, and print its figures."""
    options = parse_options(__doc__, 5000)
    report("Damage", options, campaign(options), "python -m campaigns.faults.damage")


def campaign(options: Options) -> Figures:
    """Damage files; return the figures."""
    # Without a power cut, a sync has no effect.
    with memory_folder() as folder, mock.patch.object(os, "fsync"):
        specimen = create_specimen(folder)
        sound = {name: question(specimen) for name, question in QUESTIONS.items()}

        def run(name: str) -> Cell:
            kind, number = name.split(":")
            chance = Random(f"{options.seed} {number}")
            if int(number) % _ROUNDS_OF_A_CHECK == 0:
                check_repository(specimen.repository)
            if kind == HOSTILE:
                return hostile_round(specimen, chance)
            return _round(specimen, sound, kind, chance)

        figures = run_rounds("campaigns.faults.damage", options, _rounds(options), run)
        check_repository(specimen.repository)
        return figures


def _rounds(options: Options) -> Iterator[str]:
    """Yield the file kind and the number of each round."""
    chance = Random(options.seed)
    for number in range(options.rounds):
        (kind,) = chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])
        yield f"{kind}:{number}"


# --- damages --------------------------------------------------------------------------------------


def flip(body: bytes, chance: Random) -> bytes:
    damaged = bytearray(body)
    for _ in range(chance.choice([1, 1, 1, 2, 8])):
        damaged[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def overwrite(body: bytes, chance: Random) -> bytes:
    """Overwrite some bytes with zeros or noise, like a lost sector."""
    at, length = chance.randrange(len(body)), chance.choice([1, 4, 64, 512])
    new = bytes(length) if chance.random() < 0.5 else chance.randbytes(length)
    return (body[:at] + new + body[at + length :])[: len(body)]


def truncate(body: bytes, chance: Random) -> bytes:
    return body[: chance.randrange(len(body))]


def empty(body: bytes, chance: Random) -> bytes:
    return b""


def extend(body: bytes, chance: Random) -> bytes:
    return body + (body if chance.random() < 0.3 else chance.randbytes(chance.choice([1, 53, 900])))


def scribble(body: bytes, chance: Random) -> bytes:
    return chance.randbytes(len(body))


def drop_bytes(body: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(body))
    return body[:at] + body[at + chance.choice([1, 2, 100]) :]


IN_PLACE: dict[str, Callable[[bytes, Random], bytes]] = {
    each.__name__: each for each in (flip, overwrite, truncate, empty, extend, scribble, drop_bytes)
}
MISSING, SWAPPED, FOREIGN = "missing", "swapped", "foreign"


@dataclass(frozen=True, slots=True)
class Damage:
    """Some files and their new contents; None deletes a file."""

    name: str
    files: dict[Path, bytes | None]


def damages_of(specimen: Specimen, kind: str, chance: Random) -> Damage:
    """Return changed bytes for a file."""
    files = sorted(name for name, each in specimen.kinds.items() if each == kind)
    path = specimen.namespace / chance.choice(files)
    body = path.read_bytes()
    while True:
        name = chance.choice([*IN_PLACE, *IN_PLACE, MISSING, SWAPPED, FOREIGN])
        files_after = _damaged(specimen, kind, name, path, chance)
        if files_after[path] != body:
            return Damage(name, files_after)


def _damaged(
    specimen: Specimen, kind: str, name: str, path: Path, chance: Random
) -> dict[Path, bytes | None]:
    body = path.read_bytes()
    if name == MISSING:
        return {path: None}
    if name == FOREIGN:
        return {path: chance.choice(specimen.foreign_files(kind)).read_bytes()}
    if name == SWAPPED:
        files = sorted(each for each, each_kind in specimen.kinds.items() if each_kind == kind)
        other = specimen.namespace / chance.choice(files)
        return {path: other.read_bytes(), other: body}
    # An object may be empty.
    return {path: IN_PLACE[name](body, chance) if body else b"no longer empty"}


@contextmanager
def done(damage: Damage) -> Iterator[None]:
    """Damage files, and restore them. Links to a file keep its content."""
    originals = {path: path.read_bytes() for path in damage.files}
    for path, body in damage.files.items():
        replace(path, body)
    try:
        yield
    finally:
        for path, original in originals.items():
            replace(path, original)


def replace(path: Path, body: bytes | None) -> None:
    """Put another file in the place of one, or none."""
    path.unlink(missing_ok=True)
    if body is not None:
        path.write_bytes(body)


# --- a round --------------------------------------------------------------------------------------


def _round(specimen: Specimen, sound: dict[str, Any], kind: str, chance: Random) -> Cell:
    damage = damages_of(specimen, kind, chance)
    others = _stats(specimen, damage)
    names = {path.name for path in damage.files}
    if kind == MARK:
        # The error about a namespace names its root.
        names.add(str(specimen.namespace))
    if kind == MANIFEST:
        # A manifest may name tables that do not exist, and the error names these.
        names.add("/_lakefs/")
    errors = 0
    with done(damage):
        for question in _questions(kind, chance):
            errors += judge(specimen, question, sound[question], names)
    if not others.items() <= _stats(specimen, damage).items():
        raise ViolationError(f"{damage.name}: files next to the damaged one have changed")
    return f"{kind}, {damage.name}", "error names the file" if errors else "no effect"


def _questions(kind: str, chance: Random) -> list[str]:
    """Return the questions of a round: the first one, and a sample."""
    first, *others = ASKED_OF[kind]
    return [first, *chance.sample(others, min(len(others), _MORE_QUESTIONS))]


def judge(specimen: Specimen, question: str, right: Any, names: set[str]) -> int:
    """Return the number of errors. A wrong answer is a violation."""
    try:
        answer = QUESTIONS[question](specimen)
    except SparklakeError as error:
        if not any(name in str(error) for name in names):
            raise ViolationError(
                f"{question}: the error names no damaged file: {error!r}"
            ) from error
        return 1
    if answer != right:
        raise ViolationError(f"{question}: a wrong answer")
    return 0


def _stats(specimen: Specimen, damage: Damage) -> dict[str, tuple[int, int]]:
    damaged = {str(path.relative_to(specimen.namespace)) for path in damage.files}
    stats = files_below(specimen.namespace)
    return {name: stat for name, stat in stats.items() if name not in damaged}


if __name__ == "__main__":
    main()
