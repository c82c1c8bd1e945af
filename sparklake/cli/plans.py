"""The output of plans for `--explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sparklake.cli.options import flag
from sparklake.cli.output import Output
from sparklake.cli.text import number, size
from sparklake.documents import explanation_document

if TYPE_CHECKING:
    from sparklake.engine.explanation import Explanation

ExplainOption = Annotated[bool, flag("Show the plan and its cost; change nothing.", "--explain")]


def described_cost(out: Output, said: Explanation) -> str:
    return (
        f"{said.verb} would run on {out.coloured(said.engine, 'green')}: {said.reason}\n"
        f"copies {number(said.copied, 'range')} by id, opens {said.opened:,} in "
        f"{number(said.tasks, 'task')}: {number(said.records, 'record')}, {size(said.bytes)}\n"
        f"kernels: {said.kernels}"
    )


def print_explanation(out: Output, said: Explanation) -> None:
    document = explanation_document(said)
    out.one(document, described_cost(out, said))
    if said.sides and not out.is_json:
        out.table(
            document["sides"],
            {
                "side": lambda each: each["name"],
                "ranges": lambda each: f"{each['ranges']:,}",
                "records": lambda each: f"{each['records']:,}",
                "raw bytes": lambda each: size(each["bytes"]),
            },
        )
