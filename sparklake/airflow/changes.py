"""Comparison of a branch with an earlier commit. Does not import Airflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sparklake.errors import ExpiredError, InvalidUriError
from sparklake.uri import parse_uri

if TYPE_CHECKING:
    from sparklake.lake import Lake
    from sparklake.repository import Repository


def change(
    lake: Lake, uri: str, since: str, metadata: Mapping[str, str] | None = None
) -> tuple[str, bool]:
    """Return the branch's head, and whether the URI's content differs from `since`.

    With `metadata`, a new commit that changes the content must have it. The paths of an expired
    `since` are unknown. The path then counts as changed.
    """
    place = parse_uri(uri)
    if place.ref is None:
        raise InvalidUriError(f"{uri} has no branch: write lakefs://REPO/BRANCH[/PATH]")
    repository = lake.repository(place.repository)
    head = str(repository.branch(place.ref).state.commit_id)
    if head == since:
        return head, False
    if metadata:
        return head, _has_commit(repository, head, since, place.key or "", metadata)
    if not since or not place.key:
        return head, True
    try:
        paths = (each.path for each in repository.diff(since, head, place.key))
        return head, any(is_at(path, place.key) for path in paths)
    except ExpiredError:
        return head, True


def _has_commit(
    repository: Repository, head: str, since: str, key: str, metadata: Mapping[str, str]
) -> bool:
    scope: dict[str, Any] = {}
    if key:
        scope = {"prefix" if key.endswith("/") else "path": key}
    commits = repository.log(head, stop_at=since or None, **scope)
    return any(metadata.items() <= each.metadata.items() for each in commits if each.id != since)


def is_at(path: str, place: str) -> bool:
    """Return whether a path equals a target, or is below it if the target ends in a slash."""
    return path.startswith(place) if place.endswith("/") else path == place
