"""The actions that a rule of protection can block."""

from __future__ import annotations

from enum import Enum


class Action(str, Enum):
    """An action that a rule can block on a branch. Merges and reverts are never blocked."""

    STAGE = "stage"
    COMMIT = "commit"
    RESET = "reset"
    DELETE = "delete"


ALL_ACTIONS = frozenset(Action)
