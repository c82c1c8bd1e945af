"""The plan of a repair: one step for each fault, with its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import BranchState, RefsSnapshot
from sparklake.graveler.ranges import RangeInfo
from sparklake.namespace.layout import DATA_FOLDER
from sparklake.rows.findings import Finding, FindingKind
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import has_content, is_bare
from sparklake.verbs.checks.refs import Moment
from sparklake.verbs.refs.logged_refs import Named, contains_commit
from sparklake.verbs.repairs.objects import equal_objects, find_source
from sparklake.verbs.repairs.refs import DUMP, DumpedRefs, LostRef, dumped_refs, lost_ref
from sparklake.verbs.repairs.steps import RepairAction, RepairStep
from sparklake.verbs.repairs.trees import TreeSources

_DESCRIBED = {FindingKind.RANGES_OVERLAP, FindingKind.RANGE_METADATA_MISMATCH}
_TREES = {FindingKind.TREE_MISSING, FindingKind.TREE_DAMAGED} | _DESCRIBED
_RANGES = {FindingKind.RANGE_MISSING, FindingKind.RANGE_DAMAGED, FindingKind.RECORD_DAMAGED}
_OBJECTS = {
    FindingKind.OBJECT_MISSING,
    FindingKind.OBJECT_SIZE_DIFFERS,
    FindingKind.OBJECT_CONTENT_DIFFERS,
}
_COMMITS = {
    FindingKind.COMMIT_DAMAGED,
    FindingKind.GENERATION_WRONG,
    FindingKind.PARENT_MISSING,
    FindingKind.COMMIT_LOST,
}
_REFS = {
    FindingKind.REF_LOST,
    FindingKind.BRANCH_BEHIND,
    FindingKind.DEFAULT_BRANCH_MISSING,
    FindingKind.REF_WITHOUT_COMMIT,
}

OWN_RECORDS = "its own records"

_PLANNED = {
    *(_TREES | _RANGES | _OBJECTS | _COMMITS | _REFS),
    FindingKind.DUMP_DAMAGED,
    FindingKind.SUMMARY_WRONG,
    FindingKind.NAMESPACE_MARKER_WRONG,
    FindingKind.GC_MARKER_DAMAGED,
}


def plan_steps(
    context: Context, sources: TreeSources, findings: Sequence[Finding]
) -> Iterator[RepairStep]:
    """Yield the steps that repair faults: markers and refs first, then tree files and objects."""
    for each in findings:
        if each.kind is FindingKind.NAMESPACE_MARKER_WRONG:
            yield _mark_step(each, sources)
        elif each.kind is FindingKind.GC_MARKER_DAMAGED:
            source = "the states of the collections"
            yield RepairStep(RepairAction.FIX_MARKER, each.subject, source, each)
        elif each.kind is FindingKind.SUMMARY_WRONG:
            yield RepairStep(RepairAction.FORGET_SUMMARY, each.subject, "the commits", each)
    yield from _ref_steps(sources, [each for each in findings if each.kind in _COMMITS | _REFS])
    # A dump needs the mark and a sound marker.
    for each in findings:
        if each.kind is FindingKind.DUMP_DAMAGED:
            yield _dump_step(each, findings)
    yield from _tree_steps(sources, [each for each in findings if each.kind in _TREES])
    yield from _range_steps(sources, [each for each in findings if each.kind in _RANGES])
    lost = [each for each in findings if each.kind in _OBJECTS]
    yield from _object_steps(context, sources, lost)
    for each in findings:
        if each.kind not in _PLANNED:
            yield _nothing(each, each.subject, each.remedy)


def _mark_step(finding: Finding, sources: TreeSources) -> RepairStep:
    if has_content(sources.moment.refs) and is_bare(sources.store):
        reason = "the namespace has no tree file: restore it from a backup"
        return _nothing(finding, finding.subject, reason)
    return RepairStep(RepairAction.WRITE_MARK, finding.subject, "the ref store", finding)


def _dump_step(finding: Finding, findings: Sequence[Finding]) -> RepairStep:
    """Return the step for a damaged dump, whose remains may be the only copy of refs."""
    if any(each.kind in _COMMITS | _REFS for each in findings):
        return _nothing(finding, "the dump of refs", "repair the commits and refs first")
    return RepairStep(RepairAction.WRITE_DUMP, "the dump of refs", "the ref store", finding)


def _nothing(finding: Finding, target: str, reason: str) -> RepairStep:
    return RepairStep(RepairAction.NOTHING, target, reason, finding)


# --- tree files ---------------------------------------------------------------------------------


def trees_of(sources: TreeSources, finding: Finding) -> list[MetaRangeId]:
    """Return the trees of the affected commits and staged runs of a fault."""
    commits, branches = sources.moment.commits, set(finding.branches)
    found = [commits[CommitId(each)].meta_range_id for each in finding.commits if each in commits]
    staged = sources.moment.staged_trees.items()
    found += [tree for tree, names in staged if branches.intersection(names)]
    return list(dict.fromkeys(found))


def range_info(sources: TreeSources, range_id: str) -> RangeInfo | None:
    """Return a tree's description of a range, or None."""
    for ranges in sources.trees.values():
        for each in ranges:
            if each.id == range_id:
                return each
    return None


def _tree_steps(sources: TreeSources, findings: Sequence[Finding]) -> Iterator[RepairStep]:
    done: set[MetaRangeId] = set()
    for each in findings:
        described = each.kind in _DESCRIBED
        trees = trees_of(sources, each) if described else [MetaRangeId(each.tree_file)]
        for tree in trees:
            if tree in done:
                continue
            if described and sources.redescribed_tree(tree) is not None:
                source = "its ranges"
                yield RepairStep(RepairAction.REBUILD_TREE, tree, source, each)
            elif not described:
                yield _lost_tree_step(sources, tree, each)
            done.add(tree)


def _lost_tree_step(sources: TreeSources, tree: MetaRangeId, finding: Finding) -> RepairStep:
    if sources.rewritten(tree, is_tree=True) is not None:
        return RepairStep(RepairAction.REBUILD_TREE, tree, OWN_RECORDS, finding)
    copy = sources.find_copy(tree, is_tree=True)
    if copy is not None:
        return RepairStep(RepairAction.RESTORE_TREE_FILE, tree, copy[0], finding)
    if sources.rebuilt_tree(tree) is not None:
        return RepairStep(RepairAction.REBUILD_TREE, tree, "ranges of other trees", finding)
    return _nothing(finding, tree, "no copy of it was found, and no ranges have its id")


def _range_steps(sources: TreeSources, findings: Sequence[Finding]) -> Iterator[RepairStep]:
    for each in findings:
        if sources.rewritten(each.tree_file, is_tree=False) is not None:
            yield RepairStep(RepairAction.REBUILD_RANGE, each.tree_file, OWN_RECORDS, each)
            continue
        copy = sources.find_copy(each.tree_file, is_tree=False)
        info = range_info(sources, each.tree_file)
        if copy is not None:
            yield RepairStep(RepairAction.RESTORE_TREE_FILE, each.tree_file, copy[0], each)
        elif info is not None and sources.rebuilt_range(info, trees_of(sources, each)) is not None:
            source = "records of other trees"
            yield RepairStep(RepairAction.REBUILD_RANGE, each.tree_file, source, each)
        else:
            yield _nothing(
                each, each.tree_file, "no copy of it was found, and no records have its id"
            )


# --- objects --------------------------------------------------------------------------------------


def _object_steps(
    context: Context, sources: TreeSources, findings: Sequence[Finding]
) -> Iterator[RepairStep]:
    namespace = context.info.storage_namespace
    equal = equal_objects(context, sources, findings)
    done: set[tuple[str, str]] = set()
    for each in findings:
        addresses = equal.get((each.checksum, each.size), ())
        source = find_source(each, addresses, sources.copies, namespace)
        is_own = each.subject.startswith(f"{namespace}/{DATA_FOLDER}")
        target = each.subject if is_own else each.tree_file
        if (each.subject, target) in done:
            continue
        done.add((each.subject, target))
        if source is None:
            reason = "no equal object was found: name a copy with --from"
            yield _nothing(each, each.subject, reason)
        elif is_own:
            yield RepairStep(RepairAction.COPY_OBJECT, each.subject, source, each)
        elif each.tree_file:
            yield RepairStep(RepairAction.REPLACE_ADDRESS, each.tree_file, source, each)
        else:
            yield _nothing(each, each.subject, f"it is only staged: stage it with {source}")


# --- refs -----------------------------------------------------------------------------------------


def _ref_steps(sources: TreeSources, findings: Sequence[Finding]) -> Iterator[RepairStep]:
    if not findings:
        return
    dumped, moment = dumped_refs(sources), sources.moment
    named = {each.name: each for each in moment.refs.named}
    for each in findings:
        present = named.get(each.subject)
        if each.kind in _COMMITS:
            yield _commit_step(each, dumped.refs, moment)
        elif present is None:
            lost = lost_ref(sources.context, moment, dumped, each.subject)
            yield _lost_ref_step(each, lost)
        else:
            yield _ref_step(each, dumped, present, moment)


def _commit_step(finding: Finding, dumped: RefsSnapshot, moment: Moment) -> RepairStep:
    known = {each.id for each in dumped.commits}
    wanted = {CommitId(finding.subject)}
    if finding.kind is FindingKind.PARENT_MISSING:
        child = moment.commits[CommitId(finding.subject)]
        wanted = {each for each in child.parents if each not in moment.commits}
    elif finding.kind is FindingKind.GENERATION_WRONG:  # A parent's may be the wrong one.
        wanted |= known.intersection(moment.commits[CommitId(finding.subject)].parents)
    if wanted <= known:
        target = ", ".join(sorted(wanted))
        return RepairStep(RepairAction.RESTORE_COMMITS, target, DUMP, finding)
    return _nothing(finding, finding.subject, "the dump of refs is older than the commit")


def _lost_ref_step(finding: Finding, lost: LostRef | None) -> RepairStep:
    if lost is None:
        reason = (
            "no dump has it, and its log lacks the commit or the kind of the ref: create it again"
        )
        return _nothing(finding, finding.subject, reason)
    source = f"{lost.source}, at {lost.named.commit_id}"
    return RepairStep(RepairAction.RESTORE_REF, finding.subject, source, finding)


def _ref_step(finding: Finding, dumped: DumpedRefs, present: Named, moment: Moment) -> RepairStep:
    name, is_branch = present.name, isinstance(present, BranchState)
    without_commit = finding.kind is FindingKind.REF_WITHOUT_COMMIT
    if without_commit and present.commit_id in {each.id for each in dumped.refs.commits}:
        target = present.commit_id
        return RepairStep(RepairAction.RESTORE_COMMITS, target, DUMP, finding)
    found = dumped.find(name)
    if found is None:
        return _nothing(finding, name, f"{DUMP} does not have it")
    if without_commit and is_branch:
        source = f"{DUMP}, at {found.commit_id}: later commits are lost"
        return RepairStep(RepairAction.MOVE_REF, name, source, finding)
    if without_commit:
        return _nothing(finding, name, "delete the tag: its commit is lost")
    if finding.kind is FindingKind.BRANCH_BEHIND:
        return _move_step(finding, found, present, dumped.refs, moment)
    reason = f"the name is used at {present.commit_id}: give {found.commit_id} another one"
    return _nothing(finding, name, f"{reason}, and dump with --overwrite")


def _move_step(
    finding: Finding, found: Named, present: Named, dumped: RefsSnapshot, moment: Moment
) -> RepairStep:
    """Return the step that moves a branch forward, unless that loses a commit of it."""
    commits = {each.id: each for each in (*dumped.commits, *moment.refs.commits)}
    if contains_commit(commits, found.commit_id, present.commit_id):
        source = f"{DUMP}, at {found.commit_id}"
        return RepairStep(RepairAction.MOVE_REF, found.name, source, finding)
    reason = f"it has other commits since: merge {found.commit_id} into it, or tag that"
    return _nothing(finding, found.name, f"{reason}, and dump with --overwrite")
