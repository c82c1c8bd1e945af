"""Repairs, as campaign cases: one repair removes all faults of a repository."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from typing import cast

from campaigns.faults.scenes import Scene, VerbCase
from campaigns.faults.upkeep_cases import create_tag, dumped_state
from sparklake import Branch, Commit, Repository
from sparklake.errors import CorruptFileError
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.layout import NAMESPACE_MARKER_KEY, REFS_MANIFEST_KEY, SWEEP_MARKER_KEY
from sparklake.stores.objects import normalise_store_uri, open_object, open_store
from sparklake.stores.postgres.ref_store import PostgresRefs
from sparklake.testing.lakes import commit_all, contents

_LATER_COMMITS = 5
"""So many commits hide the lost tables from the states that trials compare."""


def damaged(scene: Scene) -> None:
    """Lose a tag, a generation, two tables and three objects. Equal ones exist elsewhere."""
    branch, tables = _with_copies(scene)
    store = scene.repository._context.store
    _lose_object(scene, "own/1")
    _change_object(scene, "own/3")
    # Azure's checksum of an imported object is an ETag, which no other object has.
    if len(scene.repository.stat(scene.label, "imported/1").checksum) == 32:
        _lose_object(scene, "imported/1")
    for each in tables:
        store.delete(tree_file_key(each))
    refs = cast("PostgresRefs", scene.repository._context.refs)
    with refs._connections.transaction() as connection:
        place = {"uid": scene.repository.info.uid, "commit": branch.head.id}
        connection.execute("DELETE FROM sparklake.tags WHERE repository_uid = %(uid)s", place)
        connection.execute(
            "UPDATE sparklake.commits SET generation = 0"
            " WHERE repository_uid = %(uid)s AND id = %(commit)s",
            place,
        )


def _with_copies(scene: Scene) -> tuple[Branch, tuple[str, str]]:
    """Write a history and its dump; return the branch, and a range and a tree to lose."""
    open_store(normalise_store_uri(scene.folder("source"))).put_if_absent("1", b"equal")
    branch = scene.create_branch({})
    branch.import_objects(scene.folder("source"), "imported/")
    own = {f"own/{number}": b"equal" for number in range(5)}
    first = commit_all(branch, {**own, "base/1": b"once"}, "first")
    below = {f"base/{number}": b"below" for number in (0, 2, 3, 4)}
    second = commit_all(branch, below, "second")
    for number in range(_LATER_COMMITS):
        commit_all(branch, {"zz": b"%d" % number}, f"later {number}")
    create_tag(scene)
    scene.repository.dump_refs()
    alone = _ranges(scene.repository, first) - _ranges(scene.repository, second)
    lost = min(alone - _ranges(scene.repository, scene.repository.resolve("main")))
    return branch, (lost, second.meta_range_id)


def _ranges(repository: Repository, commit: Commit) -> set[str]:
    return {each.id for each in repository._context.tree(commit).ranges}


def _lose_object(scene: Scene, path: str) -> None:
    store, key = open_object(scene.repository.stat(scene.label, path).address)
    store.delete(key)


def _change_object(scene: Scene, path: str) -> None:
    store = scene.repository._context.store
    address = scene.repository.stat(scene.label, path).address
    store.replace(address.removeprefix(f"{store.uri}/"), b"other")


def damaged_marks(scene: Scene) -> None:
    """Damage the dump, the ownership marker, and a collection's marker."""
    branch = scene.create_branch({"own": b"own"})
    scene.repository.dump_refs()
    commit_all(branch, {"own": b"newer"}, "newer")
    store = scene.repository._context.store
    store.replace(REFS_MANIFEST_KEY, store.get(REFS_MANIFEST_KEY)[:-9])
    store.replace(SWEEP_MARKER_KEY, b"")
    store.delete(NAMESPACE_MARKER_KEY)


def repair(scene: Scene) -> None:
    """Repair everything. Faults that a failing store leaves are an error, as in the command."""
    report = scene.repository.repair("content")
    if not report.check.is_healthy:
        problems = [each.problem for each in report.results if not each.is_done]
        raise CorruptFileError(f"the repair left {report.check.kinds}: {problems}")


def healthy(scene: Scene) -> tuple[list[str], dict[str, bytes]]:
    """Return the fault kinds, and the contents of the branch."""
    with tempfile.TemporaryDirectory() as folder:
        report = scene.repository.check("content", to=folder, grace=timedelta())
    return [each.kind.value for each in report.faults], contents(scene.repository, scene.label)


def marked(scene: Scene) -> tuple[list[str], dict[str, object]]:
    """Return the fault kinds, and the contents of the restored dump."""
    return healthy(scene)[0], dumped_state(scene)


REPAIR_CASES = {
    "repair": VerbCase(damaged, repair, effects=healthy, alone=True),
    "repair, marks": VerbCase(damaged_marks, repair, effects=marked, alone=True),
}
