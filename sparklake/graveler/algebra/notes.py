"""Who wants to know of edits of blocks, or of what differs, is told of it."""

from __future__ import annotations

from collections.abc import Callable

from sparklake.graveler.algebra.changes import Changes
from sparklake.graveler.blocks import Block
from sparklake.graveler.columns import Mask

Note = Callable[[Block, Mask, Block], None]
"""Is told of an edit: a block, which of its records give way, and those that come."""


def ignore(block: Block, dropped: Mask, added: Block) -> None:
    """Takes no note."""


See = Callable[[Changes], None]
"""Is told of all that differs between source and dest, whichever of them has changed it."""


def overlook(changes: Changes) -> None:
    """Sees nothing."""
