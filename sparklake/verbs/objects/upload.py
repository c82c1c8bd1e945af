"""Put many objects: write bodies in batches, and stage all objects at once."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparklake._scratch import scratch_folder
from sparklake.engine.base import Amount, unknown_total
from sparklake.errors import InvalidInputError, InvalidRowsError
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import object_key
from sparklake.graveler.ports import BranchState
from sparklake.rows.objects import STAGE_SCHEMA, ObjectInfo, object_record
from sparklake.stores.objects import find_local_path
from sparklake.stores.objects.local.files import store_errors
from sparklake.stores.objects.local.walk import SkippedPath, SkipReason, walk_files
from sparklake.verbs.base.arguments import BytesOrPath, Objects
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.namespace import check_apart, check_namespace
from sparklake.verbs.base.once import ResultCodec
from sparklake.verbs.base.resolve import open_branch
from sparklake.verbs.base.runner import restarts
from sparklake.verbs.base.snapshot import open_snapshot
from sparklake.verbs.base.staging import INLINE_ROWS
from sparklake.verbs.objects.owners import warn_of_keys
from sparklake.verbs.objects.stage import (
    Labels,
    object_of_body,
    object_of_copy,
    stage_each,
    write_files,
)

# The limits of one batch. More objects in a batch mean fewer waits for disk or network.
_TOGETHER = 1000
_TOGETHER_BYTES = 64 << 20
_SMALL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FolderUpload:
    """The number of a folder's staged objects, and the skipped paths."""

    count: int
    skipped: tuple[SkippedPath, ...] = ()


_STORED_PATHS = 100
_SAME_COLUMNS = ("path", "size", "checksum", "metadata", "content_type")


def _stored(upload: FolderUpload) -> Mapping[str, Any]:
    """Encode an upload, with the first skipped paths, for an idempotency key."""
    skipped = [[each.path, each.reason.value] for each in upload.skipped[:_STORED_PATHS]]
    return {"count": upload.count, "skipped": skipped}


def _upload(_: Context, stored: Mapping[str, Any]) -> FolderUpload:
    skipped = (SkippedPath(path, SkipReason(reason)) for path, reason in stored["skipped"])
    return FolderUpload(stored["count"], tuple(skipped))


RESULT: ResultCodec[FolderUpload] = ResultCodec(_stored, _upload)
"""The stored form of an upload, for idempotency keys."""


def put_many(
    context: Context, branch: str, objects: Objects, labels: Labels, *, follow_links: bool = False
) -> int:
    """Write objects to new keys and stage them atomically; return their number.

    A failed call leaves orphaned objects. At most one batch of bodies is in memory. After a
    concurrent garbage collection, the call restarts, or raises CollectionStartedError if its
    objects can be read only once, such as those of a generator. A Path that is a symbolic link is
    an error, unless `follow_links` is set.
    """
    put = _put_many if isinstance(objects, Iterator) else restarts(versions=True)(_put_many)
    return put(context, branch, objects, labels, follow_links)


def _put_many(
    context: Context,
    branch: str,
    objects: Objects,
    labels: Labels,
    follow_links: bool,
    result: Callable[[int], object] = int,
    total: Callable[[], Amount | None] = unknown_total,
) -> int:
    context.runners.progress.begin_objects(total)
    state = open_branch(context, branch, Action.STAGE)
    check_namespace(context.store)
    pairs = objects.items() if isinstance(objects, Mapping) else objects
    with scratch_folder() as scratch:
        batches = _batches(_checked(pairs, follow_links=follow_links))
        infos = chain.from_iterable(_write(context, each, scratch, labels) for each in batches)
        return stage_objects(context, state, infos, result)


@restarts(versions=True)
def put_folder(
    context: Context,
    branch: str,
    prefix: str,
    folder: Path,
    labels: Labels,
    *,
    follow_links: bool = False,
) -> FolderUpload:
    """Put all files below a folder, under a prefix, as `put_many` does.

    The folder itself may be a link. Links below it, including links to folders, are skipped unless
    `follow_links` is set. Links into the namespace are an error.
    """
    if not folder.is_dir():
        instead = " but a file: use put_file, or `put` without -r" if folder.is_file() else ""
        raise InvalidInputError(f"{folder} is not a folder{instead}")

    def check(place: Path) -> str:
        return check_apart(context.info, str(place))

    root = Path(find_local_path(check(folder)) or folder)
    below = f"{prefix.rstrip('/')}/" if prefix else ""
    skipped = list[SkippedPath]()

    def files() -> Iterator[tuple[str, Path]]:
        for each in walk_files(root, follow_links=follow_links, enter=check):
            if isinstance(each, SkippedPath):
                skipped.append(each)
            else:
                yield f"{below}{each}", root / each

    def result(count: int) -> FolderUpload:
        return FolderUpload(count, tuple(skipped))

    def total() -> Amount | None:
        # Links may be a loop.
        return None if follow_links else folder_amount(root)

    count = _put_many(
        context, branch, files(), labels, follow_links=follow_links, result=result, total=total
    )
    if not count:
        why = f" except {len(skipped)} that are skipped, such as links" if skipped else ""
        raise InvalidInputError(f"nothing was staged: {folder} contains no files{why}")
    return result(count)


def copy_many(context: Context, branch: str, ref: str, paths: Iterable[tuple[str, str]]) -> int:
    """Stage objects of a ref under other paths, atomically; return their number."""
    copy = _copy_many if isinstance(paths, Iterator) else restarts(versions=True)(_copy_many)
    return copy(context, branch, ref, paths)


def _copy_many(context: Context, branch: str, ref: str, paths: Iterable[tuple[str, str]]) -> int:
    state = open_branch(context, branch, Action.STAGE)
    snapshot = open_snapshot(context, ref, readable=True)
    copies = (replace(snapshot.stat(source), path=dest) for source, dest in paths)
    return stage_objects(context, state, copies)


def stage_objects(
    context: Context,
    state: BranchState,
    objects: Iterable[ObjectInfo],
    result: Callable[[int], object] = int,
) -> int:
    """Stage written objects atomically, as rows or as one run; return their number.

    `result` returns the verb's result for that number, for the idempotency key.
    """
    remaining = iter(objects)
    first = list(islice(remaining, INLINE_ROWS + 1))
    namespace = context.info.storage_namespace
    warn_of_keys(context, state, [object_key(each.path) for each in first])
    if len(first) <= INLINE_ROWS:
        records = dict(object_record(each, namespace) for each in first)
        if len(records) < len(first):
            counts = Counter(each.path for each in first)
            raise _twice(next(path for path, count in counts.items() if count > 1))
        once = context.recorded(result(len(first)))
        context.refs.staging.put(state.name, list(records.items()), fence=state.fence, once=once)
        return len(first)
    everything, encode = chain(first, remaining), partial(_rows, namespace)
    return stage_each(
        context,
        state.name,
        "put",
        items=everything,
        encode=encode,
        fence=state.fence,
        result=result,
    )


def _checked(
    pairs: Iterable[tuple[str, BytesOrPath]], *, follow_links: bool
) -> Iterator[tuple[str, BytesOrPath]]:
    """Yield the valid pairs. The run detects repeated paths after the first pairs."""
    paths: set[str] = set()
    for path, body in pairs:
        object_key(path)
        if path in paths:
            raise _twice(path)
        if len(paths) < INLINE_ROWS:
            paths.add(path)
        if isinstance(body, Path):
            if body.is_symlink() and not follow_links:
                raise InvalidInputError(
                    f"{body}, for the path {path!r}, is a symbolic link: use its target, or "
                    "follow links (follow_links=True)"
                )
            if not body.is_file():
                raise InvalidInputError(
                    f"{body} is not a file: choose a file for the path {path!r}"
                )
        elif not isinstance(body, bytes):
            raise InvalidInputError(
                f"the body of {path!r} is {type(body)}: use bytes, or the Path of a file"
            )
        yield path, body


def _batches(pairs: Iterable[tuple[str, BytesOrPath]]) -> Iterator[list[tuple[str, BytesOrPath]]]:
    """Yield batches of at least one object, within their limits."""
    batch: list[tuple[str, BytesOrPath]] = []
    size = 0
    for path, body in pairs:
        more = _size(body)
        if batch and (len(batch) == _TOGETHER or size + more > _TOGETHER_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((path, body))
        size += more
    if batch:
        yield batch


def _write(
    context: Context, batch: list[tuple[str, BytesOrPath]], scratch: Path, labels: Labels
) -> list[ObjectInfo]:
    bodies: dict[str, bytes] = {}
    copies: dict[str, Path] = {}
    infos = []
    for number, (path, source) in enumerate(batch):
        body = source
        if isinstance(body, Path):
            with store_errors(body):
                if _size(body) <= _SMALL_BYTES:
                    body = body.read_bytes()
                else:
                    # A store may hard-link the file, and the user's file may change.
                    body = Path(shutil.copyfile(body, scratch / str(number)))
        if isinstance(body, Path):
            new = object_of_copy(context, path, body, labels)
            copies[new.key] = body
        else:
            new = object_of_body(context, path, body, labels)
            bodies[new.key] = body
        infos.append(new.info)
    context.store.put_many_if_absent(bodies)
    reported = write_files(context, copies)
    for copy in copies.values():
        copy.unlink()
    size = sum(each.size for each in infos)
    context.runners.progress.advance_objects(len(infos), size - reported)
    return infos


def folder_amount(root: Path) -> Amount:
    """Return the number and bytes of the files below a folder, without links."""
    objects = size = 0
    waiting = [str(root)]
    while waiting:
        # A file may disappear. The walk for the uploads reports unreadable files.
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for each in entries:
                if each.is_dir(follow_symlinks=False):
                    waiting.append(each.path)
                elif each.is_file(follow_symlinks=False):
                    objects += 1
                    size += each.stat(follow_symlinks=False).st_size
    return Amount(objects, size)


def _size(body: BytesOrPath) -> int:
    return body.stat().st_size if isinstance(body, Path) else len(body)


def _rows(storage_namespace: str, objects: list[ObjectInfo]) -> pa.RecordBatch:
    rows = [
        {
            **{name: getattr(each, name) for name in _SAME_COLUMNS},
            "mtime": each.mtime // 1000,
            "address": each.address.removeprefix(f"{storage_namespace}/"),
        }
        for each in objects
    ]
    return pa.RecordBatch.from_pylist(rows, schema=STAGE_SCHEMA)


def _twice(path: str) -> InvalidRowsError:
    return InvalidRowsError(f"{path!r} is put twice; put it once, or in two calls")
