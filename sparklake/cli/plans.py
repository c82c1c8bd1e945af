"""The output of plans for `--explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sparklake.cli.options import flag
from sparklake.cli.output import Output
from sparklake.cli.text import size
from sparklake.documents import explanation_document
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.engine.explanation import Explanation

ExplainOption = Annotated[bool, flag("Show the plan and its cost; change nothing.", "--explain")]


def described_cost(out: Output, plan: Explanation) -> str:
    return (
        f"{plan.verb} would run on {out.coloured(plan.engine, 'green')}: {plan.reason}\n"
        f"copies {count_of(plan.copied, 'range')} by id, opens {plan.opened:,} in "
        f"{count_of(plan.tasks, 'task')}: {count_of(plan.records, 'record')}, {size(plan.bytes)}\n"
        f"kernels: {plan.kernels}"
    )


def print_explanation(out: Output, plan: Explanation) -> None:
    document = explanation_document(plan)
    out.one(document, described_cost(out, plan))
    if plan.sides and not out.is_json:
        out.table(
            document["sides"],
            {
                "side": lambda each: each["name"],
                "ranges": lambda each: f"{each['ranges']:,}",
                "records": lambda each: f"{each['records']:,}",
                "raw bytes": lambda each: size(each["bytes"]),
            },
        )
