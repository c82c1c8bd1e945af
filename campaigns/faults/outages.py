"""Faults of servers, disks and clocks: python -m campaigns.faults.outages --rounds 400 --seed 1.

A round runs one verb, and a fault starts before one of its steps, or with one of its requests. The
verb succeeds, or raises one of sparklake's errors. After the fault, the lake is in the old
or the new state, the verb runs again, and a check of the whole repository is clean.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import psycopg

from campaigns.faults import faulty_store
from campaigns.faults.cases import CASES
from campaigns.faults.faulty_store import FaultyStore
from campaigns.faults.grounds import Ground, ground, trials
from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from campaigns.faults.step_faults import (
    SERVER_CLOCK,
    allow_writes,
    install_server_clock,
    set_server_clock,
)
from campaigns.faults.trials import Trials
from sparklake.config import disk_root
from sparklake.stores.embedded import embedded_dsn
from sparklake.testing.folders import memory_folder

KINDS = 24
"""The number of kinds of faults, which take turns."""

FOREVER = sys.maxsize
STALL_SECONDS = 1.0
_IMPATIENT: dict[str, Any] = {"environment": {"SPARKLAKE_BUCKET_READ_SECONDS": "0.4"}}
YEAR = 365 * 24 * 3600

Run = Callable[[str, Random], str]
"""Runs a case with a fault; returns the outcome."""


def main() -> None:
    """Run the campaign, and print its figures."""
    options = parse_options(__doc__, 400)
    report("Faults", options, campaign(options), "python -m campaigns.faults.outages")


def campaign(options: Options) -> Figures:
    """Run verbs with faults; return the figures. The campaign has a Postgres of its own."""
    with ExitStack() as stack:
        servers = stack.enter_context(ground())
        kinds = {
            **stack.enter_context(_postgres_faults(servers)),
            **stack.enter_context(_local_faults(servers)),
            **stack.enter_context(_cache_faults(servers)),
            **stack.enter_context(_s3_faults(servers)),
        }

        def run(name: str) -> Cell:
            fault, case, number = name.split(":")
            return fault, kinds[fault](case, Random(f"{options.seed} {number}"))

        assert len(kinds) == KINDS
        return run_rounds("campaigns.faults.outages", options, _rounds(options, [*kinds]), run)


def _rounds(options: Options, kinds: list[str]) -> Iterator[str]:
    """Yield fault, verb and number of each round; the faults alternate."""
    chance = Random(options.seed)
    for number in range(options.rounds):
        yield f"{kinds[number % len(kinds)]}:{chance.choice(options.verbs or [*CASES])}:{number}"


def _at_a_step(place: Trials, fault: str, **more: object) -> Run:
    """Return a run with a fault before a random step."""

    def run(case: str, chance: Random) -> str:
        step = chance.randint(1, place.expected(case).steps)
        return place.run(case, step, fault, **more)

    return run


# --- Postgres -------------------------------------------------------------------------------------


@contextmanager
def _postgres_faults(servers: Ground) -> Iterator[dict[str, Run]]:
    assert servers.home is not None
    server = embedded_dsn(servers.home)

    def heal() -> None:
        server.restart()
        allow_writes(servers.dsn)

    try:
        with trials(servers, "local") as place:
            place.heal = heal
            impatient = f"{servers.dsn} options='-c statement_timeout=200ms'"
            yield {
                "Postgres, sessions ended": _at_a_step(place, "end_sessions"),
                "Postgres, read-only": _at_a_step(place, "refuse_writes"),
                "Postgres, timing out": _at_a_step(place, "lock_tables", dsn=impatient),
                "Postgres, killed": _at_a_step(place, "kill_server"),
                "Postgres, killed and restarted": _at_a_step(
                    place, "kill_server", home=str(servers.home)
                ),
                "Postgres, disk full": _at_a_step(place, "fill_server_disk"),
            }
    finally:
        server.release()


# --- disks and clocks -----------------------------------------------------------------------------


@contextmanager
def _local_faults(servers: Ground) -> Iterator[dict[str, Run]]:
    with trials(servers, "local") as place, trials(servers, "local") as clocked:
        install_server_clock(servers.dsn)
        clocked.heal = partial(_heal_clock, servers.dsn)
        namespace = [place.root.removeprefix("file://")]

        def limited(case: str, chance: Random) -> str:
            run = _at_a_step(place, "limit_files", bytes=chance.choice([0, 100, 1000, 4096]))
            return run(case, chance)

        def back(case: str, chance: Random) -> str:
            seconds = chance.choice([2, 3600, YEAR])
            return _at_a_step(place, "turn_clock_back", seconds=seconds, seed=0)(case, chance)

        clock_dsn = f"{servers.dsn} options='-c search_path={SERVER_CLOCK},pg_catalog'"

        def server_back(case: str, chance: Random) -> str:
            # No branch expires while that clock is before its end.
            case = "set_expiry" if case == "prune_branches" else case
            more = {"seconds": chance.choice([2, 3600, YEAR]), "dsn": clock_dsn}
            return _at_a_step(clocked, "turn_server_clock_back", **more)(case, chance)

        yield {
            "disk of the namespace, full": _at_a_step(place, "fill_disk", full=namespace),
            "disk of scratch files, full": _at_a_step(
                place, "fill_disk", full=[f"{disk_root()}/sparklake-{os.getuid()}-"]
            ),
            "all disks, no byte more": limited,
            "clock, going backwards": back,
            "clock of Postgres, going backwards": server_back,
        }


def _heal_clock(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        set_server_clock(connection, 0)


@contextmanager
def _cache_faults(servers: Ground) -> Iterator[dict[str, Run]]:
    """Yield the disk fault of the tree-file cache. Only remote stores have one."""
    with trials(servers, "s3") as place, memory_folder() as folder:
        cache = {"SPARKLAKE_CACHE": f"{folder}/cache", "SPARKLAKE_CACHE_BYTES": "1000000"}
        yield {
            "disk of the cache, full": _at_a_step(
                place, "fill_disk", full=[str(folder)], environment=cache
            )
        }


# --- S3 -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Line:
    """A proxy to S3, with faults in selected requests of the children."""

    place: Trials
    proxy: FaultyStore
    requests: dict[str, int]

    def spoiling(self, fault: str, count: int) -> Run:
        """Return a run with spoilt requests, starting at any of them."""

        def run(case: str, chance: Random) -> str:
            first = chance.randint(1, max(self._requests(case), 1))
            self.place.before = lambda: self.proxy.aim(fault, first, count)
            more: dict[str, Any] = _IMPATIENT if fault == faulty_store.STALLED else {}
            return self.place.run(case, 0, **more)

        return run

    def _requests(self, case: str) -> int:
        if case not in self.requests:
            self.place.before = lambda: self.proxy.aim(None)
            self.place.expected(case)
            self.requests[case] = self.proxy.requests
        return self.requests[case]


@contextmanager
def _s3_faults(servers: Ground) -> Iterator[dict[str, Run]]:
    with ExitStack() as stack:
        endpoint = servers.environment["AWS_ENDPOINT_URL"]
        proxy = stack.enter_context(faulty_store.faulty_store(endpoint, rate=0, seed=0))
        proxy.stall_seconds = STALL_SECONDS
        environment = {"AWS_ENDPOINT_URL": proxy.endpoint}
        line = _Line(stack.enter_context(trials(servers, "s3", environment)), proxy, {})
        line.place.heal = lambda: proxy.aim(None)
        kinds = {
            "throttling": faulty_store.THROTTLED,
            "resetting": faulty_store.DROPPED,
            "losing answers": faulty_store.LOST,
            "cutting answers": faulty_store.CUT,
            "stalling": faulty_store.STALLED,
            "wrong lengths": faulty_store.SHORT,
        }
        yield {
            f"S3, {words}{', for long' if count > 1 else ''}": line.spoiling(fault, count)
            for words, fault in kinds.items()
            for count in (1, FOREVER)
        }


if __name__ == "__main__":
    main()
