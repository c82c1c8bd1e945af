"""The real lake against plain dicts: the same verbs, in any order, with the same outcome."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from sparklake import Lake
from tests.scenarios.model.guarding import GuardRules
from tests.scenarios.model.reading import ReadingRules


class LakeMachine(GuardRules, ReadingRules):
    """All the rules together."""


def run(machine: type[LakeMachine], examples: int, steps: int, *, fixed: bool = False) -> None:
    chosen = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    if fixed:
        chosen = settings(chosen, derandomize=True, database=None)
    run_state_machine_as_test(machine, settings=chosen)


def test_a_lake_does_what_dicts_do_in_a_few_steps() -> None:
    run(LakeMachine, 8, 15, fixed=True)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)  # a failure is made small first
def test_the_lake_does_what_dicts_do() -> None:
    run(LakeMachine, 100, 30)


@pytest.mark.system
@pytest.mark.timeout(1800)
def test_a_lake_in_postgres_does_what_dicts_do(lake: Lake) -> None:
    class PostgresLakeMachine(LakeMachine):
        open_lake = staticmethod(lambda: lake)

    run(PostgresLakeMachine, 15, 25, fixed=True)
