"""A repository: its refs, and the verbs between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from sparklake._lightness import lazy_module
from sparklake.argument_types import checks_arguments
from sparklake.branch import Branch
from sparklake.errors import RefNotFoundError
from sparklake.graveler.ports import BranchState, TagInfo
from sparklake.repository_reads import RepositoryReads
from sparklake.repository_upkeep import RepositoryUpkeep
from sparklake.verbs.base.if_needed import IfNeeded, if_head_needs
from sparklake.verbs.base.once import COMMIT, Once, ResultCodec, runs_once
from sparklake.verbs.base.resolve import get_branch

if TYPE_CHECKING:
    from datetime import timedelta

    from sparklake.engine.explanation import Explanation
    from sparklake.graveler.commits import Commit
    from sparklake.graveler.ports import RepositoryInfo
    from sparklake.strategies import choosing
    from sparklake.strategies.choosing import RulesLike, StrategyLike
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.history import graph as graphs
    from sparklake.verbs.history import lanes
    from sparklake.verbs.history.graph import HistoryGraph
    from sparklake.verbs.merges import merge as merges
    from sparklake.verbs.merges import preview
    from sparklake.verbs.merges.preview import MergePreview
    from sparklake.verbs.refs import branches as refs
    from sparklake.verbs.refs import settings
    from sparklake.verbs.refs.settings import LiveSettings
else:
    # Lazy imports: a verb is imported when it is called. All of them take 0.5 s.
    choosing = lazy_module("sparklake.strategies.choosing")
    graphs = lazy_module("sparklake.verbs.history.graph")
    lanes = lazy_module("sparklake.verbs.history.lanes")
    merges = lazy_module("sparklake.verbs.merges.merge")
    preview = lazy_module("sparklake.verbs.merges.preview")
    refs = lazy_module("sparklake.verbs.refs.branches")
    settings = lazy_module("sparklake.verbs.refs.settings")

_BRANCH: ResultCodec[BranchState] = ResultCodec(
    lambda made: {"name": made.name, "commit_id": made.commit_id, "hidden": made.hidden},
    lambda _, result: BranchState(**result),
)
_TAG: ResultCodec[TagInfo] = ResultCodec(asdict, lambda _, result: TagInfo(**result))


@checks_arguments
class Repository(RepositoryReads, RepositoryUpkeep):
    """One versioned lake: a storage namespace, and the refs over it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"Repository(lakefs://{self.name}, {self.info.storage_namespace})"

    @property
    def name(self) -> str:
        """The name."""
        return self.info.name

    @property
    def info(self) -> RepositoryInfo:
        """The lake's information on the repository."""
        return self._context.info

    @property
    def settings(self) -> LiveSettings:
        """The settings: read-only, protected branches, metadata, retention."""
        return settings.LiveSettings(self._context)

    # --- branches and tags ------------------------------------------------------------------------

    def create_branch(
        self,
        name: str,
        source: str | None = None,
        hidden: bool = False,
        expires: timedelta | None = None,
        exist_ok: bool | IfNeeded = False,
        once: str | Once | None = None,
    ) -> Branch:
        """Create a branch at any ref, in constant time; raise AlreadyExistsError.

        Without a source, it starts at the default branch.
        Listings leave out a hidden branch. After the time `expires`, it may be pruned. With
        `exist_ok`, an existing branch is returned as it is.

        Examples:
            >>> fix = repo.create_branch("fix-prices", source="main")
            >>> fix.head == repo.branch("main").head
            True
        """
        source = self._context.info.default_branch if source is None else source
        self._create_branch(name, source, hidden, expires, exist_ok, once)
        return Branch(self._context, name)

    @runs_once("create-branch", _BRANCH)
    def _create_branch(
        self,
        name: str,
        source: str,
        hidden: bool,
        expires: timedelta | None,
        exist_ok: bool | IfNeeded,
        once: str | Once | None,
    ) -> BranchState:
        return refs.create_branch(
            self._context, name, source, hidden=hidden, expires=expires, exist_ok=exist_ok
        )

    def branch(self, name: str) -> Branch:
        """Return a branch; raise RefNotFoundError."""
        return Branch(self._context, get_branch(self._context, name).name)

    def branches(self, hidden: bool = False) -> list[Branch]:
        """Return the branches in byte order of names; hidden ones only on request."""
        return [Branch(self._context, each.name) for each in self.branch_states(hidden)]

    def branch_states(self, hidden: bool = False) -> Sequence[BranchState]:
        """Return the branches at one moment; hidden ones only on request."""
        return [each for each in self._context.refs.branches.list() if hidden or not each.hidden]

    def prune_branches(self, dry_run: bool = False) -> list[BranchState]:
        """Delete expired branches and their staged changes; return them.

        The default branch and protected ones stay. A dry run deletes nothing.
        """
        return refs.prune_branches(self._context, dry_run=dry_run)

    def delete_branch(
        self, name: str, missing_ok: bool = False, discard_staged: bool = False
    ) -> None:
        """Delete a branch; its commits stay.

        Raises DirtyBranchError for a branch with staged changes, unless they are discarded, and
        ProtectedError for the default branch. Without `missing_ok`, raises RefNotFoundError for a
        branch that does not exist.
        """
        with suppress(*([RefNotFoundError] if missing_ok else [])):
            refs.delete_branch(self._context, name, discard_staged=discard_staged)

    @runs_once("create-tag", _TAG)
    def create_tag(
        self,
        name: str,
        ref: str,
        exist_ok: bool | IfNeeded = False,
        once: str | Once | None = None,
    ) -> TagInfo:
        """Create a tag, which never moves, at any ref; raise AlreadyExistsError.

        Examples:
            >>> repo.create_tag("v3", "main").name
            'v3'
        """
        return refs.create_tag(self._context, name, ref, exist_ok=exist_ok)

    def tags(self) -> list[TagInfo]:
        """Return all tags in the byte order of their names."""
        return list(self._context.refs.tags.list())

    def delete_tag(self, name: str) -> None:
        """Delete a tag; raise RefNotFoundError."""
        refs.delete_tag(self._context, name)

    # --- history and merges -----------------------------------------------------------------------

    def graph(self, ref: str, amount: int = 100, first_parent: bool = False) -> HistoryGraph:
        """Return the latest commits of a ref as a picture, which a notebook shows.

        `save(path)` writes it as SVG or PNG. Needs the extra `graph`.
        """
        names = lanes.names_of(self.branch_states(), self.tags())
        commits = self.log(ref, amount, first_parent=first_parent)
        return graphs.history_graph(commits, names, 1 if first_parent else None)

    def plan_merge(
        self, source: str, dest: str, allow_empty: bool = False, paths: Sequence[str] | None = None
    ) -> Explanation:
        """Return what a merge would read and copy, and where; nothing changes.

        Raises NoChangesError as the merge would.
        """
        options = merges.MergeOptions(allow_empty=allow_empty, paths=paths)
        return merges.explain_merge(self._context, source, dest, options)

    def preview_merge(
        self,
        source: str,
        dest: str,
        strategy: StrategyLike = None,
        allow_empty: bool = False,
        paths: Sequence[str] | None = None,
        rules: RulesLike = None,
        delta: bool = True,
        schema_check: bool = True,
        squash: bool = False,
    ) -> MergePreview:
        """Return the changes, conflicts and cost of a merge; nothing changes.

        Staged changes of dest are ignored. Raises StrategyError and NoChangesError as the merge
        would: with `squash` or `paths`, also NoChangesError if dest would not change.

        Examples:
            >>> preview = repo.preview_merge("dev", "main")
            >>> preview.added, preview.changed, preview.conflict_count
            (1, 2, 0)
        """
        options = merges.MergeOptions(
            resolution=choosing.parse_resolution(strategy, rules, delta, schema_check),
            squash=squash,
            allow_empty=allow_empty,
            paths=paths,
        )
        return preview.preview_merge(self._context, source, dest, options)

    @runs_once("merge", COMMIT)
    def merge(
        self,
        source: str,
        dest: str,
        strategy: StrategyLike = None,
        message: str | None = None,
        committer: str | None = None,
        metadata: Mapping[str, str] | None = None,
        squash: bool = False,
        allow_empty: bool = False,
        paths: Sequence[str] | None = None,
        rules: RulesLike = None,
        delta: bool = True,
        schema_check: bool = True,
        if_needed: bool | IfNeeded = False,
        once: str | Once | None = None,
    ) -> Commit:
        """Merge a ref into a branch as a commit with parents [dest, source].

        `rules` give strategies by globs over paths, and `strategy` is for all other paths: a name,
        a `module:function`, or a function as described in docs/merging.md. Without one, keys that
        both sides changed raise MergeConflictError, and nothing changes: `.count` is their number,
        `.conflicts` has the first 10,000. The logs of a Delta table that both sides wrote to are
        united first, unless `delta` is False. Parquet tables to which both sides added files with
        other types are conflicts, unless `schema_check` is False.

        With `squash`, or with chosen `paths` (objects, or prefixes that end with '/'), its only
        parent is dest: the next merge uses the same base.

        Raises StrategyError if a strategy fails, DirtyBranchError if dest has staged changes to
        what the merge changes, and NoChangesError if it already has all of source.

        Examples:
            >>> commit = repo.merge("dev", "main", message="publish the new prices")
            >>> len(commit.parents)
            2
        """
        options = merges.MergeOptions(
            resolution=choosing.parse_resolution(strategy, rules, delta, schema_check),
            message=message,
            committer=committer,
            metadata=metadata,
            squash=squash,
            allow_empty=allow_empty,
            paths=paths,
        )
        return if_head_needs(
            if_needed,
            self._context,
            dest,
            lambda: merges.merge(self._context, source, dest, options),
        )
