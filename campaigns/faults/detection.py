"""Faults of every class, each found by a check.

    python -m campaigns.faults.detection --rounds 2000 --seed 1.

A round injects one fault into a healthy repository: in a file, in the refs, or in rows of Postgres.
The check must report it with its kind, its subject and its path. Then the fault is undone. Every 25
rounds, and at the end, the healthy repository has no fault. `--rounds` is for each class.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

from campaigns.faults.checking import ViolationError
from campaigns.faults.lake_faults import FAULTS, Expected, healthy_scene, injected
from campaigns.faults.postgres_faults import POSTGRES_FAULTS, Database, injected_in_postgres
from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.postgres import embedded_home, fresh_database, home_dsn
from sparklake import Repository
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake, postgres_lake
from sparklake.verbs.checks.report import CheckLevel, CheckReport

POSTGRES = "Postgres, "
"""The prefix of fault classes in Postgres."""

CLASSES = (*FAULTS, *(f"{POSTGRES}{name}" for name in POSTGRES_FAULTS))
_LEVELS = sorted(CheckLevel, key=lambda each: each.depth)
_ROUNDS_OF_A_CHECK = 25


def main() -> None:
    """Run the campaign, and print its figures."""
    options = parse_options(__doc__, 2000)
    report(
        "Faults that checks find",
        options,
        campaign(options),
        "python -m campaigns.faults.detection",
    )


def campaign(options: Options, server: str | None = None) -> Figures:
    """Inject faults; return the figures. `server` is the DSN of a Postgres that runs already."""
    with ExitStack() as stack:
        if server is None:
            server = stack.enter_context(home_dsn(stack.enter_context(embedded_home())))
        folder = stack.enter_context(memory_folder())
        scene = healthy_scene(memory_lake(), _made(folder / "memory"), 1)
        dsn = stack.enter_context(fresh_database(server))
        lake = stack.enter_context(postgres_lake(dsn))
        rows = healthy_scene(lake, _made(folder / "postgres"), 1)
        database = Database(dsn, rows.repo)
        stack.callback(database.close)
        database.back_up()
        levels: dict[str, CheckLevel] = {}

        def run(name: str) -> Cell:
            fault, number = name.split(":")
            chance = Random(f"{options.seed} {name}")
            least = levels.get(fault, CheckLevel.REFS)
            if fault.startswith(POSTGRES):
                name_of_fault = fault.removeprefix(POSTGRES)
                with injected_in_postgres(database, name_of_fault, chance) as expected:
                    level = _found(rows.repo, expected, least)
            else:
                scene.rng = chance
                with injected(scene, fault) as expected:
                    level = _found(scene.repo, expected, least)
            # Most rounds start with the level that found the first fault of a class.
            levels.setdefault(fault, level)
            if int(number) % _ROUNDS_OF_A_CHECK == 0:
                check_healthy(rows.repo if fault.startswith(POSTGRES) else scene.repo)
            return fault, f"found by {level.value}"

        figures = run_rounds("campaigns.faults.detection", options, _rounds(options), run)
        check_healthy(scene.repo)
        check_healthy(rows.repo)
        return figures


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _rounds(options: Options) -> Iterator[str]:
    for fault in options.verbs or CLASSES:
        for number in range(options.rounds):
            yield f"{fault}:{number}"


def _found(repo: Repository, expected: Expected, least: CheckLevel) -> CheckLevel:
    """Return the first level, starting at the least one, with a report of the fault."""
    for level in _LEVELS:
        if level.depth >= least.depth and reports(_checked(repo, level), expected):
            return level
    raise ViolationError(f"the check does not report {expected}")


def reports(result: CheckReport, expected: Expected) -> bool:
    """Return whether a report contains the expected finding."""
    return any(
        each.kind in expected.kinds
        and expected.subject in ("", each.subject, each.tree_file)
        and expected.path in ("", each.first_path, each.last_path)
        for each in result.findings
    )


def check_healthy(repo: Repository) -> None:
    """Raise ViolationError if a check of everything reports an error or a warning."""
    result = _checked(repo, CheckLevel.CONTENT)
    if result.faults:
        raise ViolationError(f"a healthy repository has the faults {result.faults}")


def _checked(repo: Repository, level: CheckLevel) -> CheckReport:
    """Check a repository, and delete the report."""
    result = repo.check(level.value)
    shutil.rmtree(result.location.removeprefix("file://"))
    return result


if __name__ == "__main__":
    main()
