"""How a merge is shown that is not made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparklake.cli.explaining import described_cost
from sparklake.cli.output import Output
from sparklake.cli.text import number, short, size
from sparklake.documents import preview_document

if TYPE_CHECKING:
    from sparklake.verbs.merges.preview import MergePreview


def print_preview(out: Output, dest: str, said: MergePreview) -> None:
    """Prints what a merge would change, what it could not decide, and what it would cost."""
    changes = ", ".join(
        f"{count:,} {kind} ({size(volume)})"
        for kind, count, volume in (
            ("added", said.added, said.added_bytes),
            ("removed", said.removed, said.removed_bytes),
            ("changed", said.changed, said.changed_bytes),
        )
    )
    lines = [
        f"would merge {short(said.source.id)} into {out.coloured(dest, 'green')} "
        f"over {short(said.base.id)}",
        changes,
        f"{number(said.conflict_count, 'conflict')}, {said.unresolved:,} left to decide",
        *([f"united: Delta tables {', '.join(said.united)}"] if said.united else []),
        *([f"taken as a whole: Delta tables {_sides(said.taken)}"] if said.taken else []),
        described_cost(out, said.cost),
    ]
    out.one(preview_document(said), "\n".join(lines))


def _sides(taken: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({side})" for name, side in taken.items())
