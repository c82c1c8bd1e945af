"""Hooks: what is declared where a ref is guarded runs before and after the ref moves.

A move of a branch is guarded by the files at the branch's head, as it is before. The coming and
going of a name is guarded by those at the head of the default branch.
"""

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
from sparklake.graveler.ids import RangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.ports import BranchMove, BranchState, RefVerb
from sparklake.graveler.ports.registers import HookRun
from sparklake.graveler.ranges import MetaRange, overlapping
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.range_files import read_ranges
from sparklake.udfs.objects.object_rows import object_info
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context
from sparklake.verbs.hooks.subject import RefChange

if TYPE_CHECKING:
    from sparklake.hooks.declarations import HookFile

    Declared = Mapping[str, HookFile | InvalidHooksError]
    """What files of hooks declare, or what is wrong with them, by their paths."""

FOLDERS = ("_lakefs_actions/", "_sparklake/hooks/")
"""Where files of hooks are, in the order in which they run; the first is lakeFS's own."""

_ENDINGS = (b".yaml", b".yml")
_WITH_EVENTS = ("commit", "merge", "revert", "cherry-pick")
_OF_TAGS = (RefVerb.CREATE_TAG, RefVerb.DELETE_TAG)
_KEPT = 64
_NAMED = 3
_LOG = logging.getLogger("sparklake.hooks")


@dataclass(frozen=True, slots=True)
class HookGuard:
    """The hooks of one repository, as far as a lake's settings allow them.

    What the files of hooks in some ranges declare is `known` once they have been read.
    """

    settings: HookSettings
    known: dict[tuple[RangeId, ...], Declared] = field(default_factory=dict)

    @contextmanager
    def around_move(self, context: Context, move: BranchMove) -> Iterator[None]:
        """Run the hooks of a branch round its move over new commits.

        Where the head's tree has no range that may hold files of hooks, nothing else is looked at.
        Raises HookFailedError before the move.
        """
        head = context.graph.commit(move.expected)
        declared = self._declared(context, context.tree(head))
        if not declared:
            yield
            return
        made = move.commits[-1] if move.commits else context.graph.commit(move.to)
        mended = self._declared(context, context.tree(made)) if _is_broken(declared) else declared
        subject = RefChange(
            context,
            # Whatever makes commits and has no event of its own is guarded as a commit is.
            move.verb if move.verb in _WITH_EVENTS else "commit",
            move.branch,
            move.who,
            head.meta_range_id,
            made.meta_range_id,
            head.id,
            made.parents[1] if len(made.parents) > 1 else None,
            # A rebase of a branch that is behind makes none, and moves to one that is there.
            move.commits or (made,),
        )
        with self._guarded(subject, _usable(declared, mended)):
            yield

    @contextmanager
    def around_name(
        self, context: Context, verb: RefVerb, name: str, start: Commit | None = None
    ) -> Iterator[None]:
        """Run the hooks of the default branch round a name's coming, at `start`, or its going.

        Raises HookFailedError before it.
        """
        guard = context.refs.branches.find(context.info.default_branch)
        declared = guard and self._declared(
            context, context.tree(context.graph.commit(guard.commit_id))
        )
        if guard is None or not declared:
            yield
            return
        # What is refused anyway is refused before a hook hears of it.
        guard.guard.check(name)
        places = context.refs.tags if verb in _OF_TAGS else context.refs.branches
        found = places.find(name)
        if isinstance(found, BranchState) and not start:
            found.guard.check(name, Refused.DELETE)
        target = start or (context.graph.commit(found.commit_id) if found else None)
        if target is None or (start and found):
            yield  # What is not there, or there already, is told by the verb itself.
            return
        subject = RefChange(
            context,
            verb.value,
            name,
            context.committer,
            target.meta_range_id,
            target.meta_range_id,
            None if start else target.id,
            target.id if start else None,
        )
        with self._guarded(subject, _usable(declared, declared)):
            yield

    def _declared(self, context: Context, tree: MetaRange) -> Declared:
        """Return what the files of hooks in a tree declare, or what is wrong with them."""
        places = [overlapping(tree.ranges, prefix_interval(each.encode())) for each in FOLDERS]
        ranges = {each.id: each for place in places for each in place}
        if not ranges:
            return {}
        key = tuple(ranges)
        known = self.known.get(key)
        if known is None:
            files = (each for place in FOLDERS for each in _files(context, tree, place.encode()))
            known = {_shown(each): _action(context, each) for each in files}
            if not _is_broken(known):
                if len(self.known) >= _KEPT:
                    self.known.clear()
                self.known[key] = known
        return known

    @contextmanager
    def _guarded(self, subject: RefChange, actions: Sequence[HookFile]) -> Iterator[None]:
        # Not at the top: who has no hooks does not pay for what runs them.
        from sparklake.verbs.hooks.run_event import run_event

        run_event(self.settings, subject, f"pre-{subject.verb}", actions)
        yield
        try:
            run_event(self.settings, subject, f"post-{subject.verb}", actions)
        except Exception as error:  # noqa: BLE001  (what has happened stands, whatever a hook says)
            _LOG.warning("%s of %r is done, but: %s", subject.verb, subject.ref, error)


def list_hook_runs(context: Context, limit: int, ref: str | None) -> Sequence[HookRun]:
    """Return what came of the latest hooks, newest first; raise InvalidInputError."""
    if limit < 1:
        raise InvalidInputError(f"a list of {limit} runs of hooks: ask for 1 or more")
    return context.refs.hook_runs.list(limit, ref)


def get_hook_run(context: Context, run_id: str) -> HookRun:
    """Return a run of hooks; raise NotFoundError."""
    found = context.refs.hook_runs.find(run_id)
    if found is None:
        raise NotFoundError(
            f"{context.info.name} has no run of hooks {run_id!r}; `sparklake hooks runs` shows them"
        )
    return found


# --- what is declared -----------------------------------------------------------------------------


def _files(context: Context, tree: MetaRange, prefix: bytes) -> Iterator[Record]:
    within = prefix_interval(prefix)
    for block in read_ranges(context.store, overlapping(tree.ranges, within), within):
        yield from (each for each in block.records() if each[0].endswith(_ENDINGS))


def _shown(record: Record) -> str:
    return record[0].decode(errors="backslashreplace")


def _action(context: Context, record: Record) -> HookFile | InvalidHooksError:
    """Return what a file declares, or why that is not known, whatever is stored under its key.

    An error that is raised here would refuse every later move of the branch, the repair too.
    """
    # Not at the top: who has no hooks does not pay for what reads YAML.
    from sparklake.hooks.declarations import MAX_FILE_BYTES, parse_action

    path = _shown(record)
    try:
        found = object_info(record, context.info.storage_namespace)
        if "\0" in found.path:
            return InvalidHooksError(f"{path!r}: its name has a NUL character")
        if found.size > MAX_FILE_BYTES:
            return InvalidHooksError(f"{path}: it has more than {MAX_FILE_BYTES} bytes")
        return parse_action(path, read_body(found, context.info.name))
    except InvalidHooksError as error:
        return error
    except SparklakeError as error:
        return InvalidHooksError(f"{path}: it cannot be read: {error}")


def _is_broken(declared: Declared) -> bool:
    return any(isinstance(each, InvalidHooksError) for each in declared.values())


def _usable(declared: Declared, mended: Declared) -> list[HookFile]:
    """Return the hooks that guard; for a broken file, those that it is mended to.

    Raises InvalidHooksError where it stays broken: nobody knows what it was to guard.
    """
    found = {
        path: mended.get(path) if isinstance(each, InvalidHooksError) else each
        for path, each in declared.items()
    }
    broken = [str(each) for each in found.values() if isinstance(each, InvalidHooksError)]
    if broken:
        named = "; ".join(broken[:_NAMED])
        more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
        raise InvalidHooksError(
            f"nothing has moved, for a file of hooks is broken: {named}{more}. Mend or delete it "
            "by a commit to the branch that it is on, several of them by one commit; "
            "`sparklake hooks validate` checks a file before"
        )
    return [each for each in found.values() if each and not isinstance(each, InvalidHooksError)]
