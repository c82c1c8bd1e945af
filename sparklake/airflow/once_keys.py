"""Idempotency keys, shared by all tries of a task in one run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from hashlib import sha256
from typing import Any

_MAX_CHARACTERS = 255
_DIGEST_CHARACTERS = 16
OPTION = "--once"


def once_key(context: Any) -> str:
    """Return the key of a task in a run: `airflow/DAG/TASK/DATE[/MAP INDEX]`.

    The date is the logical date in UTC. A run without one has its run id there.
    """
    task, run = context["ti"], context["dag_run"]
    moment = run.logical_date
    when = run.run_id if moment is None else moment.astimezone(timezone.utc).isoformat()
    index = [] if task.map_index is None or task.map_index < 0 else [str(task.map_index)]
    return _bounded("/".join(["airflow", task.dag_id, task.task_id, when, *index]))


def with_once(
    arguments: Sequence[str], options: frozenset[str], once: str | bool, context: Any
) -> list[str]:
    """Add the idempotency key to a verb's arguments, unless one is given.

    Args:
        arguments: The arguments of the verb.
        options: The names of the verb's options.
        once: True for the key of the task's run, False for none, or the key.
        context: Airflow's context of the task.
    """
    words = [str(each) for each in arguments]
    has_key = any(each == OPTION or each.startswith(f"{OPTION}=") for each in words)
    if once is False or has_key or OPTION not in options:
        return words
    return [*words, OPTION, once if isinstance(once, str) else once_key(context)]


def _bounded(key: str) -> str:
    """Shorten an overlong key. Different keys stay different."""
    if len(key) <= _MAX_CHARACTERS:
        return key
    digest = sha256(key.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{key[: _MAX_CHARACTERS - _DIGEST_CHARACTERS - 1]}/{digest}"
