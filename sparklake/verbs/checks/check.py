"""Verify a whole repository."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

import msgspec

from sparklake.errors import (
    CorruptFileError,
    InvalidInputError,
    MissingFileError,
    NamespaceInUseError,
)
from sparklake.graveler.ids import MetaRangeId
from sparklake.layout import REPORT_NAME
from sparklake.rows.findings import Finding, FindingKind
from sparklake.udfs.checks.compared import MAX_SAMPLED, write_findings
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_disk, check_owner
from sparklake.verbs.checks.dumps import lost_findings
from sparklake.verbs.checks.harmed_tables import table_findings
from sparklake.verbs.checks.leftovers import (
    file_findings,
    register_findings,
    unreferenced_tree_files,
)
from sparklake.verbs.checks.objects import CheckedObjects, check_objects
from sparklake.verbs.checks.refs import Moment, log_findings, moment_of, ref_findings
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

    Changes and blocks nothing, and describes the state at its start. Objects written later may be
    listed as young. After StoreUnreachableError, nothing was written.
    """
    if not 0 < options.sample <= 1:
        raise InvalidInputError(
            f"{options.sample} is not a sample: choose a share above 0 and up to 1"
        )
    if options.sample < 1 and options.level is not CheckLevel.CONTENT:
        raise InvalidInputError("a sample requires the level content: only bytes are sampled")
    moment = moment_of(context)
    check_disk(context.info, moment.refs)
    steps = open_steps(context, options)
    findings = [
        *_namespace_findings(context),
        *ref_findings(context, moment),
        *log_findings(context, moment),
        *lost_findings(context, steps.store, moment),
        *register_findings(context, moment),
        *file_findings(steps.store, steps.state.id),
    ]
    trees, objects = CheckedTrees(), CheckedObjects()
    if options.level.depth >= CheckLevel.TREES.depth:
        trees = check_tree_files(steps, moment)
        findings += _with_affected(steps, moment, trees.findings)
    # Unreadable or lost data may reference what seems to be unreferenced.
    shows_unnamed = not trees.findings and not any(each.hides_names for each in findings)
    if shows_unnamed and options.level.depth >= CheckLevel.TREES.depth:
        findings += unreferenced_tree_files(steps.store, trees.ids)
    if options.level.depth >= CheckLevel.OBJECTS.depth:
        objects = check_objects(steps, trees, options, shows_unnamed=shows_unnamed)
    if options.level is CheckLevel.CONTENT:
        findings += summary_findings(steps, moment)
        findings += table_findings(context, moment)
    counts = CheckCounts(
        commits=len(moment.refs.commits),
        tree_files=len(trees.ids),
        records=trees.records,
        objects=objects.objects,
        contents=objects.contents,
        purged=objects.purged,
    )
    return _write_report(steps, counts, findings, objects)


def _namespace_findings(context: Context) -> Iterator[Finding]:
    try:
        check_owner(context.store, context.info)
    except (NamespaceInUseError, CorruptFileError, MissingFileError) as error:
        kind = FindingKind.NAMESPACE_MARKER_WRONG
        yield Finding(kind, context.info.storage_namespace, str(error))


def _with_affected(steps: Steps, moment: Moment, findings: list[Finding]) -> Iterator[Finding]:
    """Add the affected commits and branches to findings about tree files."""
    trees = {*moment.kept_trees, *moment.staged_trees}
    ranges = affected_by(
        steps, moment, [each.tree_file for each in findings if each.tree_file not in trees]
    )
    for each in findings:
        if not each.tree_file:
            yield each
        elif each.tree_file in trees:
            yield affected_trees(moment, [MetaRangeId(each.tree_file)]).of(each)
        else:
            yield ranges.get(each.tree_file, Affected()).of(each)


def _write_report(
    steps: Steps, counts: CheckCounts, findings: list[Finding], objects: CheckedObjects
) -> CheckReport:
    kinds = Counter(each.kind for each in findings) + objects.kinds
    write_findings(steps.report, f"{FINDINGS_FOLDER}/tables", findings)
    counted: Counter[FindingKind] = Counter()
    sample = []
    for each in chain(findings, objects.findings):
        counted[each.kind] += 1
        if counted[each.kind] <= MAX_SAMPLED:
            sample.append(each)
    report = CheckReport(
        id=steps.state.id,
        level=steps.state.level,
        counts=counts,
        kinds=dict(sorted(kinds.items())),
        findings=tuple(sample),
        location=steps.report.uri,
    )
    steps.report.replace(REPORT_NAME, msgspec.json.encode(report.document()))
    steps.clear()
    return report
