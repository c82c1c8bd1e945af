"""The clean check of a whole repository that ends each round."""

from __future__ import annotations

import hashlib

from sparklake import Repository
from sparklake.errors import MissingFileError, PurgedError
from sparklake.stores.objects import open_object
from sparklake.udfs.objects.object_rows import ObjectInfo


class ViolationError(AssertionError):
    """A promise of the lake that a round found broken."""


def check_repository(repository: Repository) -> None:
    """Read everything that branches and tags reach; raise ViolationError for the first fault."""
    context = repository._context
    refs = [each.name for each in context.refs.snapshot().named]
    commits = {each.id: each for ref in refs for each in repository.log(ref)}
    expired = context.refs.commits.expired(list(commits))
    trees = {each.meta_range_id: each.id for each in commits.values() if each.id not in expired}
    found: dict[str, tuple[str, ObjectInfo]] = {}
    for ref in [*(f"{each.name}$" for each in repository.branches(hidden=True)), *trees.values()]:
        found |= {each.address: (ref, each) for each in repository.objects(ref)}
    for ref, each in found.values():
        _check_object(repository, ref, each)


def _check_object(repository: Repository, ref: str, found: ObjectInfo) -> None:
    """Read an object, unless it was purged."""
    store, key = open_object(found.address)
    try:
        body = store.get(key)
    except MissingFileError:
        try:
            repository.read_bytes(ref, found.path)
        except PurgedError:
            return
        raise
    checksum = hashlib.md5(body, usedforsecurity=False).hexdigest()
    if len(body) != found.size or checksum != found.checksum:
        raise ViolationError(f"{found.address} does not match its entry at {found.path}")
