"""The folder of a check, its state, and the steps that its tasks run."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

import msgspec

from sparklake.errors import (
    InvalidInputError,
    LostResultError,
    MissingFileError,
    NotFoundError,
    StoreUnreachableError,
)
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects import open_store
from sparklake.udfs.checks.exchange import (
    CheckPlace,
    Work,
    encode_shares,
    result_key,
    share_name,
    step_body,
)
from sparklake.udfs.workspace import Workspace
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.leftovers import CHECKS_FOLDER, REPORT_NAME
from sparklake.verbs.base.namespace import check_apart, first_write
from sparklake.verbs.checks.report import CheckLevel, CheckOptions

SUMMARY_KEY = "summary.json"
FINDINGS_FOLDER = "findings"

_ID = re.compile(r"[0-9TZ]+-[0-9a-f]{8}")
_LARGEST_SALT = 2**63


@dataclass(frozen=True, slots=True)
class CheckState:
    """The state of a check, in its folder. `buckets` is 0 until the number of objects is known."""

    id: str
    level: CheckLevel
    sample: float
    salt: int
    buckets: int = 0
    is_done: bool = False


@dataclass(slots=True)
class Steps:
    """The steps of one check, which continue with the results that its folder has."""

    context: Context
    folder: ObjectStore
    state: CheckState
    known: set[str] = field(default_factory=set)

    @property
    def place(self) -> CheckPlace:
        """The place, for tasks. Tables are read from the store itself, not from a cache."""
        info = self.context.info
        workspace = Workspace(info.storage_namespace, info.range_records, instance=info.uid)
        return CheckPlace(workspace, self.folder.uri, max(1, self.state.buckets))

    @property
    def store(self) -> ObjectStore:
        """The store of the repository, without a cache."""
        return self.place.workspace.open_store()

    def save(self, **changes: object) -> None:
        """Write a changed state."""
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        self.folder.replace(SUMMARY_KEY, msgspec.json.encode(self.state))

    def run(self, step: str, work: Work, shares: Sequence[bytes], records: int) -> list[bytes]:
        """Return the results of shares, by tasks or from an earlier attempt."""
        if not shares:
            return []
        names = {share_name(each): each for each in shares}
        results: dict[str, bytes] = {}
        for name in names:
            if result_key(step, name) in self.known:
                results[name] = self.folder.get(result_key(step, name))
        todo = [each for name, each in names.items() if name not in results]
        context, progress = self.context, self.context.runners.progress
        progress.begin(len(shares))
        progress.advance(len(results))
        runner = context.runner(records, "check", step)
        body = partial(step_body, self.place, step, work)
        for batch in runner.collect(body, encode_shares(todo)) if todo else ():
            for row in batch.to_pylist():
                results[row["share"]] = row["result"]
                progress.advance(1)
        if len(results) < len(names):
            raise LostResultError(
                f"the engine returned no result for a part of the check {self.state.id}: "
                f"continue it with --resume {self.state.id}"
            )
        return [results[name] for name in names]

    def clear(self, kept: Iterable[str]) -> None:
        """Delete everything but the report."""
        prefixes = (SUMMARY_KEY, REPORT_NAME, f"{FINDINGS_FOLDER}/", *kept)
        for each in list(self.folder.list()):
            if not each.key.startswith(prefixes):
                self.folder.delete(each.key)


def open_steps(context: Context, options: CheckOptions) -> Steps:
    """Return the steps of a new check, or of the one to resume.

    Raises:
        NotFoundError: The check to resume does not exist.
        InvalidInputError: That check has ended, or has other options.
        ReadOnlyNamespaceError: The folder cannot be written.
    """
    if options.resume is not None:
        return _resumed(context, options, options.resume)
    now = datetime.now(timezone.utc)
    state = CheckState(
        id=f"{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}",
        level=options.level,
        sample=options.sample,
        salt=uuid.uuid4().int % _LARGEST_SALT,
    )
    steps = Steps(context, _folder(context, options, state.id), state)
    with first_write(steps.folder, "a check"):
        steps.save()
    return steps


def _resumed(context: Context, options: CheckOptions, check_id: str) -> Steps:
    if not _ID.fullmatch(check_id):
        raise InvalidInputError(f"{check_id!r} is not the id of a check: a check prints its id")
    folder = _folder(context, options, check_id)
    try:
        body = folder.get(SUMMARY_KEY)
    except (MissingFileError, StoreUnreachableError):
        raise NotFoundError(f"{context.info.name} has no check {check_id!r}") from None
    state = decode_json(body, CheckState, f"{SUMMARY_KEY} in {folder.uri}")
    if state.is_done:
        raise InvalidInputError(f"the check {check_id!r} has ended: its report is in {folder.uri}")
    if (state.level, state.sample) != (options.level, options.sample):
        raise InvalidInputError(
            f"the check {check_id!r} has the level {state.level.value} and the sample "
            f"{state.sample}: resume it with the same options"
        )
    return Steps(context, folder, state, {each.key for each in folder.list()})


def _folder(context: Context, options: CheckOptions, check_id: str) -> ObjectStore:
    if options.to is not None:
        return open_store(f"{check_apart(context.info, options.to)}/{check_id}")
    return open_store(f"{context.info.storage_namespace}/{CHECKS_FOLDER}/{check_id}")
