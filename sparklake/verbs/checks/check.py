"""Check: verify a whole repository, and report lost, damaged and leftover data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from sparklake.errors import InvalidInputError
from sparklake.namespace.layout import REPORT_NAME
from sparklake.rows.findings import Finding, FindingKind
from sparklake.udfs.checks.compared import MAX_SAMPLED, write_findings
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_disk
from sparklake.verbs.checks.dumps import lost_findings
from sparklake.verbs.checks.leftovers import (
    file_findings,
    register_findings,
    unreferenced_tree_files,
)
from sparklake.verbs.checks.objects import CheckedObjects, check_objects
from sparklake.verbs.checks.refs import (
    Moment,
    log_findings,
    moment_of,
    namespace_findings,
    ref_findings,
)
from sparklake.verbs.checks.report import CheckCounts, CheckLevel, CheckOptions, CheckReport
from sparklake.verbs.checks.steps import FINDINGS_FOLDER, Steps, open_steps
from sparklake.verbs.checks.trees import (
    Affected,
    CheckedTrees,
    affected_by,
    affected_trees,
    check_tree_files,
    summary_findings,
)


def check(context: Context, options: CheckOptions) -> CheckReport:
    """Verify a repository up to a level, and write the report.

    Changes and blocks nothing: the check describes the moment of its start. Objects written
    afterwards may be listed as young. `StoreUnreachableError` means that nothing was written.
    """
    _check_options(options)
    moment = moment_of(context)
    check_disk(context.info, moment.refs)
    steps = open_steps(context, options)
    findings = list(_driver_findings(steps, moment))
    trees, objects = CheckedTrees(), CheckedObjects()
    if options.level.depth >= CheckLevel.TREES.depth:
        trees = check_tree_files(steps, moment)
        findings += _with_affected(steps, moment, trees.findings)
    # What is unreadable or lost may name what seems to be unnamed.
    shows_unnamed = not trees.findings and not any(each.hides_names for each in findings)
    if shows_unnamed and options.level.depth >= CheckLevel.TREES.depth:
        findings += unreferenced_tree_files(steps.store, trees.ids)
    if options.level.depth >= CheckLevel.OBJECTS.depth:
        objects = check_objects(steps, trees, options, shows_unnamed=shows_unnamed)
    if options.level is CheckLevel.CONTENT:
        findings += summary_findings(steps, moment)
    counts = CheckCounts(
        commits=len(moment.refs.commits),
        tree_files=len(trees.ids),
        records=trees.records,
        objects=objects.objects,
        contents=objects.contents,
        purged=objects.purged,
    )
    return _reported(steps, counts, findings, objects)


def _check_options(options: CheckOptions) -> None:
    if not 0 < options.sample <= 1:
        raise InvalidInputError(
            f"{options.sample} is not a sample: choose a share above 0 and up to 1"
        )
    if options.sample < 1 and options.level is not CheckLevel.CONTENT:
        raise InvalidInputError("a sample requires the level content: only bytes are sampled")


def _driver_findings(steps: Steps, moment: Moment) -> Iterator[Finding]:
    context = steps.context
    yield from namespace_findings(context)
    yield from ref_findings(context, moment)
    yield from log_findings(context, moment)
    yield from lost_findings(context, steps.store, moment)
    yield from register_findings(context, moment)
    yield from file_findings(steps.store, steps.state.id)


def _with_affected(steps: Steps, moment: Moment, findings: list[Finding]) -> Iterator[Finding]:
    """Add the affected commits and branches to findings about tree files."""
    trees = {tree for each in (moment.kept_trees, moment.staged_trees) for tree in each}
    ranges = affected_by(
        steps, moment, [each.tree_file for each in findings if each.tree_file not in trees]
    )
    for each in findings:
        if not each.tree_file:
            yield each
        elif each.tree_file in trees:
            yield affected_trees(moment, [tree for tree in trees if tree == each.tree_file]).of(
                each
            )
        else:
            yield ranges.get(each.tree_file, Affected()).of(each)


def _reported(
    steps: Steps, counts: CheckCounts, findings: list[Finding], objects: CheckedObjects
) -> CheckReport:
    kinds = Counter(each.kind for each in findings) + objects.kinds
    write_findings(steps.report, f"{FINDINGS_FOLDER}/tables", findings)
    first = tuple(_first_of_each(chain(findings, objects.findings)))
    location = steps.report.uri
    report = CheckReport(
        steps.state.id, steps.state.level, counts, dict(sorted(kinds.items())), first, location
    )
    steps.report.replace(REPORT_NAME, msgspec.json.encode(report.document()))
    steps.clear()
    return report


def _first_of_each(findings: Iterable[Finding]) -> Iterator[Finding]:
    seen: Counter[FindingKind] = Counter()
    for each in findings:
        seen[each.kind] += 1
        if seen[each.kind] <= MAX_SAMPLED:
            yield each
