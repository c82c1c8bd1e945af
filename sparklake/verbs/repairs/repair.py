"""Check a repository, plan a step for each fault, and run the steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from sparklake.errors import SparklakeError
from sparklake.graveler.guards import read_only_error
from sparklake.graveler.parquet_files import decode_parquet
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.ports.registers import HeldCheck
from sparklake.layout import REPAIRS_FOLDER
from sparklake.rows.findings import Finding, Severity, finding_document, finding_rows
from sparklake.stores.objects import open_store
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_apart, check_disk, check_namespace_writable
from sparklake.verbs.checks.check import check
from sparklake.verbs.checks.refs import moment_of
from sparklake.verbs.checks.report import CheckLevel, CheckOptions, CheckReport
from sparklake.verbs.checks.steps import FINDINGS_FOLDER, new_run_id
from sparklake.verbs.repairs.apply import Repair
from sparklake.verbs.repairs.plan import plan_steps
from sparklake.verbs.repairs.steps import RepairResult, RepairStep
from sparklake.verbs.repairs.trees import TreeSources

_RECORD = "repair.json"
"""The file of a finished repair."""

_MAX_ROUNDS = 5
"""The maximum number of checks. A repaired range may reveal lost objects."""


@dataclass(frozen=True, slots=True)
class RepairOptions:
    level: CheckLevel = CheckLevel.OBJECTS
    copies: tuple[str, ...] = ()
    dry_run: bool = False
    accept: Callable[[RepairStep], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair, and of the check after it.

    `location` is the folder of the replaced files and of the record of the steps.
    """

    id: str
    results: tuple[RepairResult, ...]
    check: CheckReport
    location: str

    def document(self) -> dict[str, object]:
        return {
            "id": self.id,
            "steps": [
                {
                    "action": each.step.action.value,
                    "target": each.step.target,
                    "source": each.step.source,
                    "is_done": each.is_done,
                    "problem": each.problem,
                    "finding": finding_document(each.step.finding),
                }
                for each in self.results
            ],
            "is_healthy": self.check.is_healthy,
            "check_id": self.check.id,
            "location": self.location,
        }


def repair(context: Context, options: RepairOptions) -> RepairReport:
    """Repair the faults found by a check, with the accepted steps.

    Replaced files are kept, and results are verified. A failed step damages nothing and does not
    stop the others.
    """
    copies = tuple(check_apart(context.info, each) for each in options.copies)
    repair_id = new_run_id()
    location = f"{context.info.storage_namespace}/{REPAIRS_FOLDER}{repair_id}"
    if options.dry_run:
        report = check(context, CheckOptions(options.level))
        steps = plan_steps(context, _sources(context, copies), _faults(report))
        results = [RepairResult(each, "dry run") for each in steps]
        return RepairReport(repair_id, tuple(results), report, location)
    if context.refs.settings.get().read_only:
        raise read_only_error()
    check_disk(context.info, context.refs.snapshot())
    store = open_store(context.info.storage_namespace)
    check_namespace_writable(store, "a repair")
    # A collection could delete what the repair references.
    with context.refs.collections.alone() as check_held:
        _end_interrupted(context, store)
        results, report = _run(context, copies, options, repair_id, check_held)
    repair_report = RepairReport(repair_id, tuple(results), report, location)
    record = msgspec.json.encode(repair_report.document())
    store.put_if_absent(f"{REPAIRS_FOLDER}{repair_id}/{_RECORD}", record)
    return repair_report


def _end_interrupted(context: Context, store: ObjectStore) -> None:
    """Finish killed repairs. Caches may contain tree files replaced by them."""
    keys = {each.key for each in store.list(REPAIRS_FOLDER)}
    folders = {"/".join(key.split("/")[:3]) for key in keys}
    killed = sorted(each for each in folders if f"{each}/{_RECORD}" not in keys)
    if killed:
        context.refs.collections.end_tree_sweep()
    for each in killed:
        store.put_if_absent(f"{each}/{_RECORD}", msgspec.json.encode({"is_interrupted": True}))


def _run(
    context: Context,
    copies: tuple[str, ...],
    options: RepairOptions,
    repair_id: str,
    check_held: HeldCheck,
) -> tuple[list[RepairResult], CheckReport]:
    results: dict[tuple[str, str], RepairResult] = {}
    report = check(context, CheckOptions(options.level))
    for number in range(_MAX_ROUNDS):
        sources = _sources(context, copies)
        work = Repair(context, sources, f"{REPAIRS_FOLDER}{repair_id}/replaced-{number}")
        steps = plan_steps(context, sources, _faults(report))
        new = {
            key: each for each in steps if (key := (each.action.value, each.target)) not in results
        }
        results.update((key, _result(work, each, options, check_held)) for key, each in new.items())
        if not any(results[key].is_done for key in new):
            break
        report = check(context, CheckOptions(options.level))
    return list(results.values()), report


def _result(
    work: Repair, step: RepairStep, options: RepairOptions, check_held: HeldCheck
) -> RepairResult:
    if not step.is_possible:
        return RepairResult(step, step.source)
    if not options.accept(step):
        return RepairResult(step, "it was declined")
    try:
        check_held()
        work.apply(step)
    except SparklakeError as error:
        return RepairResult(step, str(error))
    return RepairResult(step)


def _sources(context: Context, copies: tuple[str, ...]) -> TreeSources:
    # Not through the cache: it may have tree files that the store has lost.
    store = open_store(context.info.storage_namespace)
    return TreeSources(context, store, moment_of(context), copies)


def _faults(report: CheckReport) -> list[Finding]:
    store = open_store(report.location)
    findings: list[Finding] = []
    for key in sorted(each.key for each in store.list(f"{FINDINGS_FOLDER}/")):
        rows = finding_rows(decode_parquet(store.get(key), f"{key} in {store.uri}"))
        findings += (each for each in rows if each.severity is not Severity.LEFTOVER)
    return findings
