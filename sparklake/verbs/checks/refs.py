"""The check of commits, branches, tags and their log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from sparklake.graveler.commits import Commit, computed_id, is_generation
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import BranchState, LayerKind, Operation, RefsSnapshot
from sparklake.graveler.refs.names import is_commit_id
from sparklake.rows.findings import MOST_AFFECTED, Finding, FindingKind
from sparklake.verbs.base.context import Context
from sparklake.verbs.refs.logged_refs import Named, read_ref

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True)
class Moment:
    """A snapshot of all refs and commits. `collected` are the expired commits without trees."""

    refs: RefsSnapshot
    expired: frozenset[CommitId] = field(default_factory=frozenset)
    collected: frozenset[CommitId] = field(default_factory=frozenset)

    @cached_property
    def commits(self) -> Mapping[CommitId, Commit]:
        return {each.id: each for each in self.refs.commits}

    @cached_property
    def kept_trees(self) -> Mapping[MetaRangeId, list[CommitId]]:
        """The retained commits by tree."""
        return _grouped(
            (each.meta_range_id, each.id)
            for each in self.refs.commits
            if each.meta_range_id and each.id not in self.expired
        )

    @cached_property
    def staged_trees(self) -> Mapping[MetaRangeId, list[str]]:
        """The branches by the metarange of a staged run."""
        return _grouped(
            (layer.meta_range_id, branch.name)
            for branch in self.refs.branches
            for layer in branch.layers
            if layer.kind is LayerKind.RUN and layer.meta_range_id
        )

    @cached_property
    def heads(self) -> Mapping[CommitId, list[str]]:
        return _grouped((each.commit_id, each.name) for each in self.refs.branches)

    @cached_property
    def _children(self) -> Mapping[CommitId, list[CommitId]]:
        return _grouped((parent, each.id) for each in self.refs.commits for parent in each.parents)

    def branches_with(self, commit: CommitId) -> tuple[str, ...]:
        """Return the first branches with a commit in their history."""
        visited, waiting, names = {commit}, [commit], list[str]()
        while waiting:
            each = waiting.pop()
            names += self.heads.get(each, [])
            new = [child for child in self._children.get(each, []) if child not in visited]
            visited.update(new)
            waiting += new
        return tuple(sorted(names)[:MOST_AFFECTED])


def _grouped(pairs: Iterable[tuple[_K, _V]]) -> Mapping[_K, list[_V]]:
    groups: dict[_K, list[_V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def moment_of(context: Context) -> Moment:
    refs = context.refs.snapshot()
    commits, ids = context.refs.commits, [each.id for each in refs.commits]
    return Moment(refs, frozenset(commits.expired(ids)), frozenset(commits.collected(ids)))


def ref_findings(context: Context, moment: Moment) -> Iterator[Finding]:
    for each in moment.refs.commits:
        for kind, detail in _commit_problems(each, moment):
            yield _at(each.id, kind, each.id, detail, moment.branches_with(each.id))
    for ref in moment.refs.named:
        detail, branches = f"it names the commit {ref.commit_id}", branches_of(ref)
        if ref.commit_id not in moment.commits:
            yield Finding(FindingKind.REF_WITHOUT_COMMIT, ref.name, detail, branches=branches)
        elif ref.commit_id in moment.expired:
            yield _at(ref.commit_id, FindingKind.REF_EXPIRED, ref.name, detail, branches)
    default = context.info.default_branch
    if all(each.name != default for each in moment.refs.branches):
        yield Finding(FindingKind.DEFAULT_BRANCH_MISSING, default)


def branches_of(ref: Named) -> tuple[str, ...]:
    return (ref.name,) if isinstance(ref, BranchState) else ()


def _at(
    commit: CommitId, kind: FindingKind, subject: str, detail: str, branches: tuple[str, ...]
) -> Finding:
    return Finding(kind, subject, detail, commits=(commit,), commit_count=1, branches=branches)


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


def log_findings(context: Context, moment: Moment) -> Iterator[Finding]:
    """Yield the refs at a different commit than their latest logged operation."""
    # A branch and a tag of one name share the log.
    names = Counter(each.name for each in moment.refs.named)
    alone = [each for each in moment.refs.named if names[each.name] == 1]
    latest = context.refs.operations.latest([each.name for each in alone])
    for each in alone:
        if _agree(each, latest.get(each.name)):
            continue
        ref, operation = read_ref(context, each.name)
        if ref is not None and not _agree(ref, operation):
            where = (
                "where no logged operation has moved it" if operation else "without an operation"
            )
            detail = f"it is at {ref.commit_id}, {where}"
            kind, branches = FindingKind.LOG_DIFFERS, branches_of(ref)
            yield _at(ref.commit_id, kind, ref.name, detail, branches)


def _agree(ref: Named, operation: Operation | None) -> bool:
    return operation is not None and operation.to_commit == ref.commit_id
