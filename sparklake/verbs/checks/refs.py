"""Check refs: commits, branches, tags, their log, and the ownership marker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sparklake.errors import CorruptFileError, MissingFileError, NamespaceInUseError
from sparklake.graveler.commits import Commit, computed_id, is_generation
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import BranchState, LayerKind, Operation, RefsSnapshot
from sparklake.graveler.refs.names import is_commit_id
from sparklake.rows.findings import MOST_AFFECTED, Finding, FindingKind
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_owner
from sparklake.verbs.refs.logged_refs import Named, read_ref


@dataclass(frozen=True)
class Moment:
    """A snapshot of all refs and commits, and the expired commits.

    `collected` are the expired commits without trees.
    """

    refs: RefsSnapshot
    expired: frozenset[CommitId] = field(default_factory=frozenset)
    collected: frozenset[CommitId] = field(default_factory=frozenset)

    @cached_property
    def commits(self) -> Mapping[CommitId, Commit]:
        return {each.id: each for each in self.refs.commits}

    @cached_property
    def kept_trees(self) -> Mapping[MetaRangeId, list[CommitId]]:
        """The retained commits by tree."""
        found: dict[MetaRangeId, list[CommitId]] = {}
        for each in self.refs.commits:
            if each.meta_range_id and each.id not in self.expired:
                found.setdefault(each.meta_range_id, []).append(each.id)
        return found

    @cached_property
    def staged_trees(self) -> Mapping[MetaRangeId, list[str]]:
        """The branches by the metarange of a staged run."""
        found: dict[MetaRangeId, list[str]] = {}
        for branch in self.refs.branches:
            for layer in branch.layers:
                if layer.kind is LayerKind.RUN and layer.meta_range_id:
                    found.setdefault(layer.meta_range_id, []).append(branch.name)
        return found

    @cached_property
    def heads(self) -> Mapping[CommitId, list[str]]:
        """The branches by head."""
        found: dict[CommitId, list[str]] = {}
        for each in self.refs.branches:
            found.setdefault(each.commit_id, []).append(each.name)
        return found

    @cached_property
    def _children(self) -> Mapping[CommitId, list[CommitId]]:
        found: dict[CommitId, list[CommitId]] = {}
        for each in self.refs.commits:
            for parent in each.parents:
                found.setdefault(parent, []).append(each.id)
        return found

    def branches_with(self, commit: CommitId) -> tuple[str, ...]:
        """Return the first branches whose history contains a commit."""
        seen, waiting, found = {commit}, [commit], list[str]()
        while waiting:
            each = waiting.pop()
            found += self.heads.get(each, [])
            new = [child for child in self._children.get(each, []) if child not in seen]
            seen.update(new)
            waiting += new
        return tuple(sorted(found)[:MOST_AFFECTED])


def moment_of(context: Context) -> Moment:
    refs = context.refs.snapshot()
    commits, ids = context.refs.commits, [each.id for each in refs.commits]
    return Moment(refs, frozenset(commits.expired(ids)), frozenset(commits.collected(ids)))


def ref_findings(context: Context, moment: Moment) -> Iterator[Finding]:
    for each in moment.refs.commits:
        for kind, detail in _commit_problems(each, moment):
            branches = moment.branches_with(each.id)
            yield Finding(
                kind, each.id, detail, commits=(each.id,), commit_count=1, branches=branches
            )
    for named in moment.refs.named:
        branches = (named.name,) if isinstance(named, BranchState) else ()
        if named.commit_id not in moment.commits:
            yield Finding(
                FindingKind.REF_WITHOUT_COMMIT,
                named.name,
                f"it names the commit {named.commit_id}",
                branches=branches,
            )
        elif named.commit_id in moment.expired:
            yield Finding(
                FindingKind.REF_EXPIRED,
                named.name,
                f"it names the commit {named.commit_id}",
                commits=(named.commit_id,),
                commit_count=1,
                branches=branches,
            )
    default = context.info.default_branch
    if all(each.name != default for each in moment.refs.branches):
        yield Finding(FindingKind.DEFAULT_BRANCH_MISSING, default)


def _commit_problems(commit: Commit, moment: Moment) -> Iterator[tuple[FindingKind, str]]:
    hashed = computed_id(commit)
    if hashed != commit.id:
        yield FindingKind.COMMIT_DAMAGED, f"its content has the id {hashed}"
    elif commit.meta_range_id and not is_commit_id(commit.meta_range_id):
        yield FindingKind.COMMIT_DAMAGED, f"{commit.meta_range_id!r} is not the id of a tree"
    parents = [moment.commits.get(each) for each in commit.parents]
    for parent_id, parent in zip(commit.parents, parents, strict=True):
        if parent is None:
            yield FindingKind.PARENT_MISSING, f"its parent {parent_id} is missing"
    above = [each.generation for each in parents if each]
    if len(above) == len(parents) and not is_generation(commit.generation, above):
        detail = f"it has the generation {commit.generation}, and its parents have {above}"
        yield FindingKind.GENERATION_WRONG, detail


# --- the log --------------------------------------------------------------------------------------


def log_findings(context: Context, moment: Moment) -> Iterator[Finding]:
    """Yield the refs whose position differs from their latest logged operation."""
    # A branch and a tag of one name share the log.
    names = Counter(each.name for each in moment.refs.named)
    alone = [each for each in moment.refs.named if names[each.name] == 1]
    latest = context.refs.operations.latest([each.name for each in alone])
    for seen in alone:
        if _agree(seen, latest.get(seen.name)):
            continue
        named, operation = read_ref(context, seen.name)
        if named is not None and not _agree(named, operation):
            branches = (named.name,) if isinstance(named, BranchState) else ()
            where = (
                "where no logged operation has moved it" if operation else "without an operation"
            )
            yield Finding(
                FindingKind.LOG_DIFFERS,
                named.name,
                f"it is at {named.commit_id}, {where}",
                commits=(named.commit_id,),
                commit_count=1,
                branches=branches,
            )


def _agree(named: Named, operation: Operation | None) -> bool:
    return operation is not None and operation.to_commit == named.commit_id


# --- the namespace --------------------------------------------------------------------------------


def namespace_findings(context: Context) -> Iterator[Finding]:
    try:
        check_owner(context.store, context.info)
    except (NamespaceInUseError, CorruptFileError, MissingFileError) as error:
        yield Finding(
            FindingKind.NAMESPACE_MARKER_WRONG, context.info.storage_namespace, str(error)
        )
