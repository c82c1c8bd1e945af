"""Who wants to know of each edit of a block is told of it."""

from __future__ import annotations

from collections.abc import Callable

from sparklake.graveler.blocks import Block
from sparklake.graveler.columns import Mask

Note = Callable[[Block, Mask, Block], None]
"""Is told of an edit: a block, which of its records give way, and those that come."""


def ignore(block: Block, dropped: Mask, added: Block) -> None:
    """Takes no note."""


def both(one: Note, other: Note) -> Note:
    """Returns what tells two of each edit."""

    def note(block: Block, dropped: Mask, added: Block) -> None:
        one(block, dropped, added)
        other(block, dropped, added)

    return note
