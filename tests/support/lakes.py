"""Staged sizes, files moved away, and fingerprints to compare a lake at two moments."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparklake import Branch, Lake, Repository, SparklakeError
from sparklake.graveler.ports import LayerKind
from sparklake.testing.lakes import files_below, namespace_of, put_all, stage_table


def stage_sizes(branch: Branch, sizes: Mapping[str, int | None]) -> None:
    """Stage objects without bytes as a run; None deletes."""
    rows = [
        {"path": path, "deleted": True}
        if size is None
        else {"path": path, "size": size, "checksum": f"s{size}", "address": f"data/{path}"}
        for path, size in sizes.items()
    ]
    branch.stage(stage_table(rows))


def put_sizes(branch: Branch, sizes: Mapping[str, int | None]) -> None:
    """Put objects of given sizes one by one, as rows; None deletes."""
    put_all(branch, {path: None if size is None else b"x" * size for path, size in sizes.items()})


def paths(repository: Repository, ref: str, prefix: str = "") -> list[str]:
    return [each.path for each in repository.objects(ref, prefix)]


@contextmanager
def moved_away(repository: Repository, ref: str, moved: Collection[str]) -> Iterator[None]:
    """Move the files of local objects out of the store to make them unreadable."""
    objects = [each for each in repository.objects(ref) if each.path in moved]
    files = [Path(each.address.removeprefix("file://")) for each in objects]
    assert len(files) == len(moved)
    for each in files:
        each.rename(each.with_suffix(".away"))
    try:
        yield
    finally:
        for each in files:
            each.with_suffix(".away").rename(each)


def refs_of(repository: Repository) -> dict[str, Any]:
    """Return everything about a repository in the ref store, including staged rows.

    Whether a layer is sealed is left out: no user sees it, and a refused purge has sealed all.
    """
    refs = repository._context.refs
    states = repository.branch_states(hidden=True)
    layers = [layer for state in states for layer in state.layers if layer.kind is LayerKind.ROWS]
    return {
        "branches": [
            (
                each.name,
                each.commit_id,
                [replace(layer, sealed=False) for layer in each.layers],
                each.hidden,
                each.expires,
            )
            for each in states
        ],
        "tags": repository.tags(),
        "operations": list(repository.operations(1_000_000)),
        "rows": {layer.id: list(refs.staging.rows(layer.id)) for layer in layers},
        "commits": [each.id for each in refs.commits.find_by_prefix("", 1_000_000)],
    }


def fingerprint(lake: Lake, *folders: Path, names: Container[str] | None = None) -> dict[str, Any]:
    """Return everything that a verb could change: refs, and files below the given folders.

    With `names`, only these repositories are read, for lakes that many tests share.
    """
    all_repositories = lake.repositories()
    repositories = [each for each in all_repositories if names is None or each.name in names]
    return {
        "repositories": [each.info for each in all_repositories],
        "refs": {each.name: refs_of(each) for each in repositories},
        "files": [
            files_below(each) for each in (*folders, *(namespace_of(each) for each in repositories))
        ],
    }


@contextmanager
def refused(
    lake: Lake, error: type[SparklakeError], words: str, *folders: Path
) -> Iterator[pytest.ExceptionInfo[SparklakeError]]:
    """Check that the block raises exactly this error class and changes nothing."""
    before = fingerprint(lake, *folders)
    with pytest.raises(error, match=words) as raised:
        yield raised
    assert type(raised.value) is error
    assert fingerprint(lake, *folders) == before


def assert_healthy(repository: Repository) -> None:
    """Check that a repository has no faults in refs, tables and objects."""
    report = repository.check("content")
    assert report.faults == (), report.faults
