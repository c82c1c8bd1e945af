"""Simulated schedules of the real verbs: python -m campaigns.simulator --seed 7."""

from __future__ import annotations

import argparse
import time
from collections import Counter

from campaigns.simulator.simulation import ViolationError, simulator


def main() -> None:
    """Run schedules, and print the first violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--schedules", type=int, default=1, help="the number of seeds")
    parser.add_argument("--trace", action="store_true", help="print the calls of ports")
    options = parser.parse_args()
    start, verbs, steps = time.perf_counter(), Counter[str](), 0
    with simulator() as simulated:
        for seed in range(options.seed, options.seed + options.schedules):
            try:
                outcome = simulated.run(seed)
            except ViolationError as error:
                print("\n".join(error.trace))
                raise
            verbs += outcome.verbs
            steps += outcome.steps
            if options.trace:
                print("\n".join(outcome.trace))
    seconds = time.perf_counter() - start
    rate = options.schedules / seconds
    print(f"{options.schedules:,} schedules, {steps:,} steps, {seconds:.0f} s, {rate:.0f}/s")
    print(*(f"  {name}: {times:,}" for name, times in verbs.most_common()), sep="\n")


if __name__ == "__main__":
    main()
