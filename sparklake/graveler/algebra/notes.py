"""Who wants to know of each edit of a block is told of it."""

from __future__ import annotations

from collections.abc import Callable

from sparklake.graveler.blocks import Block
from sparklake.graveler.columns import Mask

Note = Callable[[Block, Mask, Block], None]
"""Is told of an edit: a block, which of its records give way, and those that come."""


def ignore(block: Block, dropped: Mask, added: Block) -> None:
    """Takes no note."""
