"""`sparklake repair`: restore lost or damaged data, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import RepositoryArgument, flag, option
from sparklake.cli.parsing import one_level
from sparklake.cli.text import one_line
from sparklake.documents import repair_document
from sparklake.errors import InvalidInputError
from sparklake.uri import repository_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.verbs.repairs.repair import RepairReport
    from sparklake.verbs.repairs.steps import RepairStep


@command
def repair(
    invocation: Invocation,
    uri: RepositoryArgument,
    sources: Annotated[
        list[str] | None,
        option(
            "Use this copy of the namespace or of objects; repeatable.", "--from", metavar="URI"
        ),
    ] = None,
    refs: Annotated[bool, flag("Repair refs and commits only.")] = False,
    trees: Annotated[bool, flag("Also repair ranges and metaranges.")] = False,
    objects: Annotated[bool, flag("Also restore missing objects (the default).")] = False,
    content: Annotated[bool, flag("Also read and restore changed objects.")] = False,
    dry_run: Annotated[bool, flag("Only show the steps; change nothing.")] = False,
    yes: Annotated[bool, flag("Run all steps without confirmation.", "--yes", "-y")] = False,
) -> None:
    """Restore lost or damaged data from other copies.

    Checks the repository first and afterwards. Ids and checksums prove each step, and replaced
    files are kept. The exit code is that of the final check. Without a terminal that can answer
    questions, choose --yes or --dry-run.
    """
    if not (yes or dry_run or invocation.out.can_ask):
        raise InvalidInputError(
            "nothing was repaired: cannot ask for confirmation without a terminal; preview the "
            "steps with --dry-run, or run all with --yes"
        )
    level = one_level({"refs": refs, "trees": trees, "objects": objects, "content": content})
    repository = invocation.repository(repository_uri(uri))

    def accept(step: RepairStep) -> bool:
        return yes or invocation.out.agrees(f"{_cause(step)}. {one_line(step.text)}?")

    report = repository.repair(level, sources or (), dry_run, accept)
    invocation.out.one(repair_document(report), _told(report))
    if report.check.exit_code:
        raise typer.Exit(report.check.exit_code)


def _cause(step: RepairStep) -> str:
    return f"{one_line(step.finding.subject)}: {step.finding.meaning}"


def _told(report: RepairReport) -> str:
    lines = []
    for each in report.results:
        outcome = "done" if each.is_done else f"not done: {one_line(each.problem)}"
        lines.append(f"{_cause(each.step)}\n    {one_line(each.step.text)}\n    {outcome}")
    done = sum(each.is_done for each in report.results)
    lines.append(f"{done:,} of {count_of(len(report.results), 'step')} done")
    if done:
        lines.append(f"replaced files: {one_line(report.location)}")
    kinds = {fault.kind for fault in report.check.faults}
    remaining = sum(report.check.kinds[each] for each in kinds)
    lines.append(f"{count_of(remaining, 'fault')} left: {one_line(report.check.location)}")
    return "\n".join(lines)
