"""Hook runs before and after the moves of guarded refs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparklake.config import HookSettings
from sparklake.errors import InvalidHooksError, InvalidInputError, NotFoundError, SparklakeError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action as Refused
from sparklake.graveler.ids import CommitId, MetaRangeId, RangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.ports import BranchMove, BranchState, RefVerb
from sparklake.graveler.ports.registers import HookRun
from sparklake.graveler.records import Record
from sparklake.verbs.base.context import Context

# Lazy imports: numpy and Arrow take 0.25 s, which opening a repository does not need.
if TYPE_CHECKING:
    from sparklake.graveler.ranges import MetaRange
    from sparklake.hooks.declarations import HookFile

    Declared = Mapping[str, HookFile | InvalidHooksError]
    """The declarations in hook files, or their errors, by path."""

FOLDERS = ("_lakefs_actions/", "_sparklake/hooks/")
"""The folders of hook files, in the order in which they run; the first is lakeFS's."""

_ENDINGS = (b".yaml", b".yml")
_WITH_EVENTS = ("commit", "merge", "revert", "cherry-pick")
_OF_TAGS = (RefVerb.CREATE_TAG, RefVerb.DELETE_TAG)
_KEPT = 64
_NAMED = 3
_LOG = logging.getLogger("sparklake.hooks")


@dataclass(frozen=True, slots=True)
class RefChange:
    """The event of a ref, independent of the hooks."""

    context: Context
    verb: str
    ref: str
    who: str
    before: MetaRangeId
    after: MetaRangeId
    head: CommitId | None = None
    source: CommitId | None = None
    commits: Sequence[Commit] = ()


@dataclass(frozen=True, slots=True)
class HookGuard:
    """The allowed hooks of a repository. `declarations` are cached by ranges."""

    settings: HookSettings
    declarations: dict[tuple[RangeId, ...], Declared] = field(default_factory=dict)

    @contextmanager
    def around_move(self, context: Context, move: BranchMove) -> Iterator[None]:
        """Run the hooks of a branch around its move over new commits."""
        head = context.graph.commit(move.expected)
        declared = self._declared(context, context.tree(head))
        if not declared:
            yield
            return
        commit = move.commits[-1] if move.commits else context.graph.commit(move.to)
        mended = self._declared(context, context.tree(commit)) if _is_broken(declared) else declared
        subject = RefChange(
            context=context,
            # Whatever makes commits and has no event of its own is guarded as a commit is.
            verb=move.verb if move.verb in _WITH_EVENTS else "commit",
            ref=move.branch,
            who=move.who,
            before=head.meta_range_id,
            after=commit.meta_range_id,
            head=head.id,
            source=commit.parents[1] if len(commit.parents) > 1 else None,
            # A rebase of a branch that is behind makes none, and moves to one that is there.
            commits=move.commits or (commit,),
        )
        with self._guarded(subject, _usable(declared, mended)):
            yield

    @contextmanager
    def around_name(
        self, context: Context, verb: RefVerb, name: str, start: Commit | None = None
    ) -> Iterator[None]:
        guard = context.refs.branches.find(context.info.default_branch)
        declared = guard and self._declared(context, context.tree(context.graph.head(guard)))
        if guard is None or not declared:
            yield
            return
        # What is refused anyway is refused before a hook hears of it.
        guard.guard.check(name)
        places = context.refs.tags if verb in _OF_TAGS else context.refs.branches
        existing = places.find(name)
        if isinstance(existing, BranchState) and not start:
            existing.guard.check(name, Refused.DELETE)
        target = start or (context.graph.commit(existing.commit_id) if existing else None)
        if target is None or (start and existing):
            yield  # The verb itself reports missing and existing names.
            return
        subject = RefChange(
            context=context,
            verb=verb.value,
            ref=name,
            who=context.committer,
            before=target.meta_range_id,
            after=target.meta_range_id,
            head=None if start else target.id,
            source=target.id if start else None,
        )
        with self._guarded(subject, _usable(declared, declared)):
            yield

    def _declared(self, context: Context, tree: MetaRange) -> Declared:
        from sparklake.graveler.ranges import overlapping

        places = [overlapping(tree.ranges, prefix_interval(each.encode())) for each in FOLDERS]
        holding = {each.id: each for place in places for each in place}
        if not holding:
            return {}
        key = tuple(holding)
        declared = self.declarations.get(key)
        if declared is None:
            files = (each for place in FOLDERS for each in _files(context, tree, place.encode()))
            declared = {_shown(each): _action(context, each, self.settings) for each in files}
            if not _is_broken(declared):
                if len(self.declarations) >= _KEPT:
                    self.declarations.clear()
                self.declarations[key] = declared
        return declared

    @contextmanager
    def _guarded(self, subject: RefChange, actions: Sequence[HookFile]) -> Iterator[None]:
        # Not at the top: who has no hooks does not pay for what runs them.
        from sparklake.verbs.hooks.run_event import run_event

        run_event(self.settings, subject, f"pre-{subject.verb}", actions)
        yield
        try:
            run_event(self.settings, subject, f"post-{subject.verb}", actions)
        except Exception as error:  # noqa: BLE001  (a hook cannot undo what has happened)
            _LOG.warning("%s of %r succeeded, but: %s", subject.verb, subject.ref, error)


def list_hook_runs(context: Context, limit: int, ref: str | None) -> Sequence[HookRun]:
    if limit < 1:
        raise InvalidInputError(f"a list of {limit} hook runs is invalid: choose 1 or more")
    return context.refs.hook_runs.list(limit, ref)


def get_hook_run(context: Context, run_id: str) -> HookRun:
    run = context.refs.hook_runs.find(run_id)
    if run is None:
        raise NotFoundError(
            f"{context.info.name} has no hook run {run_id!r}; `sparklake hooks runs` shows them"
        )
    return run


# --- declared hooks -------------------------------------------------------------------------------


def _files(context: Context, tree: MetaRange, prefix: bytes) -> Iterator[Record]:
    from sparklake.graveler.ranges import overlapping
    from sparklake.graveler.sstable.range_files import read_ranges

    within = prefix_interval(prefix)
    parts = overlapping(tree.ranges, within)
    for block in read_ranges(context.store, parts, within):
        yield from (each for each in block.records() if each[0].endswith(_ENDINGS))


def _shown(record: Record) -> str:
    return record[0].decode(errors="backslashreplace")


def _action(
    context: Context, record: Record, settings: HookSettings
) -> HookFile | InvalidHooksError:
    """Return the declarations of a hook file, or its error, which must not block a fix."""
    # Not at the top: who has no hooks does not pay for what reads YAML.
    from sparklake.hooks.declarations import MAX_FILE_BYTES, parse_action
    from sparklake.rows.objects import object_info
    from sparklake.verbs.base.content import read_body

    path = _shown(record)
    try:
        info = object_info(record, context.info.storage_namespace)
        if "\0" in info.path:
            return InvalidHooksError(f"{path!r}: its name has a NUL character")
        if info.size > MAX_FILE_BYTES:
            return InvalidHooksError(f"{path}: it has more than {MAX_FILE_BYTES} bytes")
        return parse_action(path, read_body(info, context.info.name), settings.skip)
    except InvalidHooksError as error:
        return error
    except SparklakeError as error:
        return InvalidHooksError(f"{path}: it cannot be read: {error}")


def _is_broken(declared: Declared) -> bool:
    return any(isinstance(each, InvalidHooksError) for each in declared.values())


def _usable(declared: Declared, mended: Declared) -> list[HookFile]:
    """Return the guarding hooks. Raises InvalidHooksError for a file that is still broken."""
    usable = {
        path: mended.get(path) if isinstance(each, InvalidHooksError) else each
        for path, each in declared.items()
    }
    broken = [str(each) for each in usable.values() if isinstance(each, InvalidHooksError)]
    if broken:
        listed = "; ".join(broken[:_NAMED])
        more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
        raise InvalidHooksError(
            f"the operation was rejected because a hook file is invalid: {listed}{more}. "
            "Fix or delete it with a commit to its branch; fix several files in one commit. "
            "`sparklake hooks validate` checks a file"
        )
    return [each for each in usable.values() if each and not isinstance(each, InvalidHooksError)]
