"""The plan of a repair: one step for each fault, with its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import BranchState, RefsSnapshot
from sparklake.graveler.ranges import RangeInfo
from sparklake.layout import DATA_FOLDER
from sparklake.rows.findings import Finding, FindingKind
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import has_content, is_bare
from sparklake.verbs.checks.refs import Moment
from sparklake.verbs.refs.logged_refs import Named, contains_commit
from sparklake.verbs.repairs.objects import equal_objects, find_source
from sparklake.verbs.repairs.refs import DUMP, DumpedRefs, dumped_refs, lost_ref
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
    """Yield repair steps: markers and refs first, then tree files and objects."""

    def select(kinds: set[FindingKind]) -> list[Finding]:
        return [each for each in findings if each.kind in kinds]

    for each in findings:
        if each.kind is FindingKind.NAMESPACE_MARKER_WRONG:
            if has_content(sources.moment.refs) and is_bare(sources.store):
                reason = "the namespace has no tree file: restore it from a backup"
                yield _nothing(each, each.subject, reason)
            else:
                yield RepairStep(RepairAction.WRITE_MARK, each.subject, "the ref store", each)
        elif each.kind is FindingKind.GC_MARKER_DAMAGED:
            source = "the states of the collections"
            yield RepairStep(RepairAction.FIX_MARKER, each.subject, source, each)
        elif each.kind is FindingKind.SUMMARY_WRONG:
            yield RepairStep(RepairAction.FORGET_SUMMARY, each.subject, "the commits", each)
    ref_faults = select(_COMMITS | _REFS)
    yield from _ref_steps(sources, ref_faults)
    # A dump needs the ownership marker and a valid sweep marker.
    for each in select({FindingKind.DUMP_DAMAGED}):
        if ref_faults:  # What remains of the dump may be the only copy of refs.
            yield _nothing(each, DUMP, "repair the commits and refs first")
        else:
            yield RepairStep(RepairAction.WRITE_DUMP, DUMP, "the ref store", each)
    yield from _tree_steps(sources, select(_TREES))
    yield from _range_steps(sources, select(_RANGES))
    yield from _object_steps(context, sources, select(_OBJECTS))
    for each in select(set(FindingKind) - _PLANNED):
        yield _nothing(each, each.subject, each.remedy)


def _nothing(finding: Finding, target: str, reason: str) -> RepairStep:
    return RepairStep(RepairAction.NOTHING, target, reason, finding)


def trees_of(sources: TreeSources, finding: Finding) -> list[MetaRangeId]:
    """Return the trees of the commits and staged runs affected by a fault."""
    commits, branches = sources.moment.commits, set(finding.branches)
    trees = [commits[CommitId(each)].meta_range_id for each in finding.commits if each in commits]
    staged = sources.moment.staged_trees.items()
    trees += [tree for tree, names in staged if branches.intersection(names)]
    return list(dict.fromkeys(trees))


def range_info(sources: TreeSources, range_id: str) -> RangeInfo | None:
    infos = (each for ranges in sources.trees.values() for each in ranges)
    return next((each for each in infos if each.id == range_id), None)


def _tree_steps(sources: TreeSources, findings: Sequence[Finding]) -> Iterator[RepairStep]:
    done: set[MetaRangeId] = set()
    for each in findings:
        described = each.kind in _DESCRIBED
        trees = trees_of(sources, each) if described else [MetaRangeId(each.tree_file)]
        for tree in trees:
            if tree in done:
                continue
            if not described:
                yield _lost_tree_step(sources, tree, each)
            elif sources.redescribed_tree(tree) is not None:
                yield RepairStep(RepairAction.REBUILD_TREE, tree, "its ranges", each)
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
            action = RepairAction.REBUILD_RANGE
            yield RepairStep(action, each.tree_file, "records of other trees", each)
        else:
            yield _nothing(
                each, each.tree_file, "no copy of it was found, and no records have its id"
            )


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
            yield _nothing(each, each.subject, "no equal object was found: pass a copy with --from")
        elif is_own:
            yield RepairStep(RepairAction.COPY_OBJECT, each.subject, source, each)
        elif each.tree_file:
            yield RepairStep(RepairAction.REPLACE_ADDRESS, each.tree_file, source, each)
        else:
            yield _nothing(each, each.subject, f"it is only staged: stage it with {source}")


def _ref_steps(sources: TreeSources, findings: Sequence[Finding]) -> Iterator[RepairStep]:
    if not findings:
        return
    dumped, moment = dumped_refs(sources), sources.moment
    refs = {each.name: each for each in moment.refs.named}
    for each in findings:
        present = refs.get(each.subject)
        if each.kind in _COMMITS:
            yield _commit_step(each, dumped.refs, moment)
        elif present is not None:
            yield _ref_step(each, dumped, present, moment)
        elif lost := lost_ref(sources.context, moment, dumped, each.subject):
            yield RepairStep(RepairAction.RESTORE_REF, each.subject, lost.text, each)
        else:
            reason = "not in any dump, and its log lacks the commit or the kind of ref: recreate it"
            yield _nothing(each, each.subject, reason)


def _commit_step(finding: Finding, dumped: RefsSnapshot, moment: Moment) -> RepairStep:
    ids_in_dump = {each.id for each in dumped.commits}
    ids = {CommitId(finding.subject)}
    if finding.kind is FindingKind.PARENT_MISSING:
        child = moment.commits[CommitId(finding.subject)]
        ids = {each for each in child.parents if each not in moment.commits}
    elif finding.kind is FindingKind.GENERATION_WRONG:  # A parent's may be the wrong one.
        ids |= ids_in_dump.intersection(moment.commits[CommitId(finding.subject)].parents)
    if ids <= ids_in_dump:
        target = ", ".join(sorted(ids))
        return RepairStep(RepairAction.RESTORE_COMMITS, target, DUMP, finding)
    return _nothing(finding, finding.subject, f"{DUMP} is older than the commit")


def _ref_step(finding: Finding, dumped: DumpedRefs, present: Named, moment: Moment) -> RepairStep:
    name, is_branch = present.name, isinstance(present, BranchState)
    without_commit = finding.kind is FindingKind.REF_WITHOUT_COMMIT
    if without_commit and present.commit_id in {each.id for each in dumped.refs.commits}:
        action = RepairAction.RESTORE_COMMITS
        return RepairStep(action, present.commit_id, DUMP, finding)
    before = dumped.find(name)
    if before is None:
        return _nothing(finding, name, f"{DUMP} does not have it")
    source = f"{DUMP}, at {before.commit_id}"
    if without_commit and is_branch:
        source = f"{source}: later commits are lost"
        return RepairStep(RepairAction.MOVE_REF, name, source, finding)
    if without_commit:
        return _nothing(finding, name, "delete the tag: its commit is lost")
    if finding.kind is FindingKind.BRANCH_BEHIND:
        commits = {each.id: each for each in (*dumped.refs.commits, *moment.refs.commits)}
        if contains_commit(commits, before.commit_id, present.commit_id):
            return RepairStep(RepairAction.MOVE_REF, name, source, finding)
        reason = f"it has other commits since: merge {before.commit_id} into it, or tag that"
    else:
        reason = f"the name is used at {present.commit_id}: give {before.commit_id} another one"
    return _nothing(finding, name, f"{reason}, and dump with --overwrite")
