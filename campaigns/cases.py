"""All writing verbs, and the children that run them: python -m campaigns.cases."""

from __future__ import annotations

from campaigns.commit_cases import COMMIT_CASES
from campaigns.forks import Order, serve
from campaigns.object_cases import OBJECT_CASES
from campaigns.repair_cases import REPAIR_CASES
from campaigns.scenes import Scene, VerbCase
from campaigns.settings_cases import SETTINGS_CASES
from campaigns.step_faults import FAULTS
from campaigns.upkeep_cases import UPKEEP_CASES
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
