"""Kills of every writing verb before its steps.

    python -m campaigns.faults.crash --rounds 2000 --seed 1.

A round kills a verb by SIGKILL before one of its steps, on a local store, S3 or Azure. Then the
lake is in the old or the new state, the verb runs again, and a check of the repository is clean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random

from campaigns.faults.cases import CASES
from campaigns.faults.grounds import ground, trials
from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds

EVERY_STEP = 0
"""The number of rounds that means a kill at every step of every verb."""


def main() -> None:
    """Run the campaign, and print its figures."""
    options = parse_options(__doc__, EVERY_STEP)
    report("Kills", options, campaign(options), "python -m campaigns.faults.crash")


def campaign(options: Options, server: str | None = None) -> Figures:
    """Kill verbs; return the figures."""
    with ExitStack() as stack:
        servers = stack.enter_context(ground(server, options.stores))
        places = {store: stack.enter_context(trials(servers, store)) for store in options.stores}

        def run(name: str) -> Cell:
            case, store, step = name.split(":")
            return case, f"{store}: {places[store].run(case, int(step))}"

        def steps(case: str, store: str) -> int:
            return places[store].expected(case).steps

        return run_rounds("campaigns.faults.crash", options, kills(options, steps), run)


def kills(options: Options, steps: Callable[[str, str], int]) -> Iterator[str]:
    """Yield verb, store and step of each kill: as many for each verb, if it has the steps."""
    chance = Random(options.seed)
    pairs = [(case, store) for case in options.verbs or CASES for store in options.stores]
    chance.shuffle(pairs)
    remaining = options.rounds
    for at, (case, store) in enumerate(pairs):
        all_steps = range(1, steps(case, store) + 1)
        share = len(all_steps)
        if options.rounds != EVERY_STEP:
            share = min(share, -(-remaining // (len(pairs) - at)))
            remaining -= share
        for step in sorted(chance.sample(all_steps, share)):
            yield f"{case}:{store}:{step}"


if __name__ == "__main__":
    main()
