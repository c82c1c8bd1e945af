"""The check of the model: python -m campaigns.model."""

from __future__ import annotations

import argparse
import time

from campaigns.model.exploration import explore, mutations, scenarios
from campaigns.model.lake import ALL_GUARDS, Guards


def main() -> None:
    """Explore all scenarios, then every mutation until a scenario catches it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    start = time.perf_counter()
    for name, scenario in scenarios(ALL_GUARDS).items():
        result = explore(scenario)
        print(f"{name}: {result.states:,} states: {result.rule or 'no rule is broken'}")
    print(f"{time.perf_counter() - start:.0f} s")
    for name, guards in mutations():
        print(f"without {name}: {caught_by(guards) or 'NOT CAUGHT'}")
    print(f"{time.perf_counter() - start:.0f} s")


def caught_by(guards: Guards) -> str | None:
    """Return the first failing scenario and its broken rule, or None."""
    for name, scenario in scenarios(guards).items():
        result = explore(scenario)
        if result.rule:
            return f"{name}: {result.rule}, after {len(result.steps)} steps"
    return None


if __name__ == "__main__":
    main()
