"""A task group with a private branch for each DAG run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparklake.airflow.names import DEFAULT_CONNECTION
from sparklake.airflow.operator import SparklakeOperator
from sparklake.airflow.versions import EmptyOperator, TaskGroup
from sparklake.uri import RefUri

_LOG = logging.getLogger("airflow.task")

RUN = (
    "{{ dag_run.logical_date.strftime('%Y%m%dT%H%M%S') if dag_run.logical_date"
    " else dag_run.run_id.replace('~', '-') }}"
)
"""The part of a branch name that differs in each run, and is the same in all of its tries."""

_AFTER_SUCCESS = "all_success"
"""The trigger rule of the commit and the merge, regardless of the DAG's `default_args`."""

_STOPPED_BY_FAILURE = (_AFTER_SUCCESS, "none_failed", "none_failed_min_one_success")
"""The trigger rules of tasks that never run after a failed task."""


@dataclass(frozen=True, slots=True)
class RunBranch:
    """The branch of a run: its templated URI and its task group."""

    uri: str
    group: TaskGroup

    def path(self, path: str) -> str:
        """Return the templated URI of a path on the branch."""
        return f"{self.uri}/{path}"


@contextmanager
def branch_per_run(
    group_id: str,
    *,
    repository: str,
    dest: str = "main",
    message: str | None = None,
    merge: Sequence[str] = (),
    expires: str = "7d",
    sparklake_conn_id: str | None = DEFAULT_CONNECTION,
) -> Iterator[RunBranch]:
    """Create a branch, run the tasks of the `with` block, commit, and merge into dest.

    The tasks of the block stage or commit on the branch, and check it. If one fails, nothing is
    merged, whatever the trigger rules of the tasks after it, and the log of the task names the
    branch. Merged or not, the branch remains until it expires and `sparklake branch prune` deletes
    it, so that all tasks can run again.

    Args:
        group_id: The id of the task group. It is part of the branch name.
        repository: The name of the repository.
        dest: The branch from which the run's branch starts, and into which it is merged.
        message: The message of the commit of staged changes (templated). It must be the same in
            all tries of a run. None names the branch of the run.
        merge: Further arguments of the merge, such as `["--strategy", "source-wins"]`.
        expires: The life of the branch, such as `12h` or `7d`.
        sparklake_conn_id: The connection of the lake; None uses the worker's environment.
    """
    lake: dict[str, Any] = {"sparklake_conn_id": sparklake_conn_id}
    with TaskGroup(group_id) as group:
        name = f"{{{{ dag.dag_id }}}}-{group.group_id}-{RUN}"
        branch, target = str(RefUri(repository, name)), str(RefUri(repository, dest))
        create = SparklakeOperator(
            task_id="create_branch",
            verb="branch create",
            arguments=[branch, "--source", target, "--expires", expires],
            **lake,
        )
        yield RunBranch(branch, group)
        roots = [each for each in group.get_roots() if each is not create]
        leaves = [each for each in group.get_leaves() if each is not create]
        commit = SparklakeOperator(
            task_id="commit",
            verb="commit",
            trigger_rule=_AFTER_SUCCESS,
            arguments=[branch, "--message", message or name, "--if-needed"],
            **lake,
        )
        merged = SparklakeOperator(
            task_id="merge",
            verb="merge",
            trigger_rule=_AFTER_SUCCESS,
            arguments=[branch, target, "--if-needed", *merge],
            **lake,
        )
        create >> (roots or [commit])
        (leaves or [create]) >> commit >> merged
        if hidden := _tasks_that_may_fail_unnoticed(group):
            # Their rule must not be that of `commit`: a skipped check must not lead to a merge.
            gate = EmptyOperator(task_id="no_failure", trigger_rule="none_failed")
            hidden >> gate >> commit
    report = _report_of(branch, target)
    for task in group.iter_tasks():
        if task is not create and not task.is_teardown:
            task.on_failure_callback = [*_list(task.on_failure_callback), report]


def _tasks_that_may_fail_unnoticed(group: TaskGroup) -> list[Any]:
    """Return the tasks with a successor that ignores failures, such as one of `all_done`."""
    tasks = {each.task_id: each for each in group.iter_tasks()}
    return [
        each
        for each in tasks.values()
        if not each.is_teardown
        and any(
            tasks[after].trigger_rule not in _STOPPED_BY_FAILURE
            for after in each.downstream_task_ids & tasks.keys()
        )
    ]


def _report_of(branch: str, dest: str) -> Any:
    def report(context: Any) -> None:
        """Log the branch with a failed task's work."""
        source, target = (context["task"].render_template(each, context) for each in (branch, dest))
        _LOG.error(
            "%(source)s is not merged into %(target)s, and remains until it expires. Look at what "
            "is staged on it: sparklake diff %(source)s, and at what is committed: sparklake diff "
            "%(target)s %(source)s. Correct it and clear this task, or give this run up and delete "
            "the branch: sparklake branch delete %(source)s --discard-staged",
            {"source": source, "target": target},
        )

    return report


def _list(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    return [callbacks] if callable(callbacks) else list(callbacks)
