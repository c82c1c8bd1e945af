"""All writing verbs, and their child processes: python -m campaigns.faults.cases."""

from __future__ import annotations

from campaigns.faults.commit_cases import COMMIT_CASES
from campaigns.faults.forks import Order, serve
from campaigns.faults.object_cases import OBJECT_CASES
from campaigns.faults.repair_cases import REPAIR_CASES
from campaigns.faults.scenes import Scene, VerbCase
from campaigns.faults.settings_cases import SETTINGS_CASES
from campaigns.faults.step_faults import FAULTS
from campaigns.faults.upkeep_cases import UPKEEP_CASES
from sparklake import Lake

CASES: dict[str, VerbCase] = {
    **OBJECT_CASES,
    **COMMIT_CASES,
    **UPKEEP_CASES,
    **REPAIR_CASES,
    **SETTINGS_CASES,
}


def carry_out(lake: Lake, order: Order) -> object:
    """Run the verb of an order."""
    scene = Scene(lake, order["name"], order["label"], order["root"])
    return CASES[order["case"]].run(scene)


if __name__ == "__main__":
    serve(carry_out, FAULTS)
