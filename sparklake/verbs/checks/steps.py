"""The folder, the state and the tasks of a check."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

import msgspec

from sparklake.errors import (
    InvalidInputError,
    LostResultError,
    NotFoundError,
    StoreUnreachableError,
)
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import ObjectStore
from sparklake.layout import CHECKS_FOLDER, OPEN_CHECKS, REPORT_NAME
from sparklake.rows.settings import Workspace
from sparklake.stores.objects import open_store
from sparklake.stores.objects.temporary import remove_emptied
from sparklake.udfs.checks import exchange
from sparklake.udfs.tasks import task_table
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_apart, first_write
from sparklake.verbs.checks.report import CheckLevel, CheckOptions

SUMMARY_KEY = "summary.json"
FINDINGS_FOLDER = "findings"

_ID = re.compile(r"[0-9TZ]+-[0-9a-f]{8}")
_LARGEST_SALT = 2**63


@dataclass(frozen=True, slots=True)
class CheckState:
    """The state of a check. `buckets` is 0 until the number of objects is known."""

    id: str
    level: CheckLevel
    sample: float
    salt: int
    buckets: int = 0


@dataclass(slots=True)
class Steps:
    """The steps of a check. They resume from the results in its folder."""

    context: Context
    folder: ObjectStore
    report: ObjectStore
    state: CheckState
    existing: set[str] = field(default_factory=set)

    @property
    def place(self) -> exchange.CheckPlace:
        """The settings of tasks. They read tree files from the store itself, not from a cache."""
        info = self.context.info
        workspace = Workspace(info.storage_namespace, info.range_records, instance=info.uid)
        buckets = max(1, self.state.buckets)
        return exchange.CheckPlace(workspace, self.folder.uri, self.report.uri, buckets)

    @property
    def store(self) -> ObjectStore:
        return self.place.workspace.open_store()

    def save(self, **changes: object) -> None:
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        self.folder.replace(SUMMARY_KEY, msgspec.json.encode(self.state))

    def run(
        self,
        step: exchange.Step[exchange.Share, exchange.Result],
        shares: Sequence[exchange.Share],
        records: int,
    ) -> Iterator[exchange.Result]:
        """Yield the results of shares, from tasks or from an earlier attempt."""
        if not shares:
            return iter(())
        encoded = {exchange.share_name(each): each for each in map(exchange.encode_share, shares)}
        results = {
            name: self.folder.get(key)
            for name in encoded
            if (key := step.result_key(name)) in self.existing
        }
        remaining = [each for name, each in encoded.items() if name not in results]
        context, progress = self.context, self.context.runners.progress
        progress.begin(len(shares))
        progress.advance(len(results))
        runner = context.runner(records, "check", step.name)
        body = partial(exchange.step_body, self.place, step)
        for batch in runner.collect(body, task_table(remaining)) if remaining else ():
            for row in batch.to_pylist():
                results[row["share"]] = row["result"]
                progress.advance(1)
        if len(results) < len(encoded):
            raise LostResultError(
                f"the engine returned no result for a part of the check {self.state.id}: "
                f"continue it with --resume {self.state.id}"
            )
        return map(msgspec.msgpack.Decoder(step.result).decode, map(results.__getitem__, encoded))

    def clear(self) -> None:
        for each in list(self.folder.list()):
            self.folder.delete(each.key)
        remove_emptied(self.folder)  # Later checks would list empty folders, too.


def new_run_id() -> str:
    """Return a new id of a check, a repair or a collection. Ids sort by start time."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def open_steps(context: Context, options: CheckOptions) -> Steps:
    if options.resume is not None:
        return _resume(context, options, options.resume)
    state = CheckState(
        id=new_run_id(),
        level=options.level,
        sample=options.sample,
        salt=uuid.uuid4().int % _LARGEST_SALT,
    )
    steps = Steps(context, *_folders(context, options, state.id), state)
    with first_write(steps.folder, "a check"):
        steps.save()
    return steps


def _resume(context: Context, options: CheckOptions, check_id: str) -> Steps:
    if not _ID.fullmatch(check_id):
        raise InvalidInputError(f"{check_id!r} is not the id of a check: a check prints its id")
    folder, report = _folders(context, options, check_id)
    if _has(report, REPORT_NAME):
        raise InvalidInputError(
            f"the check {check_id!r} is finished: its report is in {report.uri}"
        )
    if not _has(folder, SUMMARY_KEY):
        raise NotFoundError(f"{context.info.name} has no check {check_id!r}")
    state = decode_json(folder.get(SUMMARY_KEY), CheckState, f"{SUMMARY_KEY} in {folder.uri}")
    if (state.level, state.sample) != (options.level, options.sample):
        raise InvalidInputError(
            f"the check {check_id!r} has the level {state.level.value} and the sample "
            f"{state.sample}: resume it with the same options"
        )
    return Steps(context, folder, report, state, {each.key for each in folder.list()})


def _has(store: ObjectStore, key: str) -> bool:
    try:
        return store.find(key) is not None
    except StoreUnreachableError:
        return False  # The folder does not exist.


def _folders(
    context: Context, options: CheckOptions, check_id: str
) -> tuple[ObjectStore, ObjectStore]:
    """Return the stores of exchanged files and reports."""
    root = f"{context.info.storage_namespace}/{CHECKS_FOLDER}"
    if options.to is not None:
        root = f"{check_apart(context.info, options.to)}/"
    return open_store(f"{root}{OPEN_CHECKS}{check_id}"), open_store(f"{root}{check_id}")
