"""Transactions on a hidden branch, merged on success and kept on failure."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from sparklake.errors import NoChangesError, RefNotFoundError, SparklakeError, TransactionError
from sparklake.graveler.guards import TRANSACTION_PREFIX
from sparklake.graveler.ports import BranchState
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.publish import sign
from sparklake.verbs.base.resolve import check_clean, get_branch, open_branch
from sparklake.verbs.commits import CommitOptions, commit
from sparklake.verbs.merges.merge import MergeOptions, merge
from sparklake.verbs.refs.branches import checked_lifetime

_LOG = logging.getLogger("sparklake.transactions")
_SHOWN_NAME = 200
_UNIQUE = 12


@dataclass(frozen=True, slots=True)
class _Transaction:
    """A running transaction: a hidden branch created at the target's head."""

    context: Context
    target: str
    start: BranchState

    @property
    def name(self) -> str:
        return self.start.name

    @property
    def uri(self) -> str:
        return f"lakefs://{self.context.info.name}/{self.name}"

    def state(self) -> BranchState:
        return get_branch(self.context, self.name)

    def has_changes(self) -> bool:
        state = self.state()
        return bool(state.layers) or state.commit_id != self.start.commit_id

    def kept(self) -> str:
        return (
            f"the work is kept on the hidden branch {self.name!r}: view it with `sparklake "
            f"diff {self.uri}`, commit its staged changes and merge it into {self.target!r}, "
            f"or delete it with `sparklake branch delete {self.uri} --discard-staged`"
        )

    def drop(self) -> None:
        try:
            self.context.refs.branches.delete(self.name, self.context.committer)
        except SparklakeError as error:
            _LOG.warning("%s is no longer needed, but could not be deleted: %s", self.uri, error)


@contextmanager
def transaction(
    context: Context, target: str, options: MergeOptions, lifetime: timedelta
) -> Iterator[str]:
    """Yield the name of a hidden branch to work on; merge it into the target at the end."""
    signature = sign(context, options.message or "", options.committer, options.metadata)
    # A copy: the body may change the caller's mapping.
    options = replace(options, metadata=signature.metadata)
    work = _begin(context, target, lifetime)
    try:
        yield work.name
        state = work.state()
    except BaseException as error:
        _abandon(work, error)
        raise
    try:
        _finish(work, state, options)
    except SparklakeError as error:
        words = f"the transaction on {target!r} was not merged: {error}; {work.kept()}"
        raise TransactionError(words, work.name) from error
    except BaseException as error:
        _abandon(work, error)
        raise
    work.drop()


def _begin(context: Context, target: str, lifetime: timedelta) -> _Transaction:
    state = open_branch(context, target)
    check_clean(state, "start a transaction on it")
    name = f"{TRANSACTION_PREFIX}{target[:_SHOWN_NAME]}-{uuid.uuid4().hex[:_UNIQUE]}"
    start = context.refs.branches.create(
        name, state.commit_id, context.committer, hidden=True, lifetime=checked_lifetime(lifetime)
    )
    return _Transaction(context, target, start)


def _finish(work: _Transaction, state: BranchState, options: MergeOptions) -> None:
    if state.layers:
        # The staged changes may equal the existing state.
        with suppress(NoChangesError):
            commit(
                work.context,
                work.name,
                CommitOptions(
                    message=options.message or "",
                    committer=options.committer,
                    metadata=options.metadata,
                ),
            )
    if work.has_changes():
        # The commits may cancel each other out.
        with suppress(NoChangesError):
            merge(work.context, work.name, work.target, options)


def _abandon(work: _Transaction, error: BaseException) -> None:
    """Keep the branch and add a note to the error; drop a branch without changes."""
    try:
        if not work.has_changes():
            work.drop()
            return
    except RefNotFoundError:
        return  # The body has deleted the branch.
    except SparklakeError as unknown:
        # Possible changes are kept, and the body's error is the one that is raised.
        _LOG.warning("cannot read %s: %s", work.uri, unknown)
    note = f"of a transaction on {work.target!r}: {work.kept()}"
    _LOG.warning("%s, %s", type(error).__name__, note)
    # Python 3.10 has no add_note, and tools that show notes there read this attribute.
    error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]
