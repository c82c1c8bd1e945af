"""Verbs on names, repositories and whole histories, as cases of the campaigns."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from campaigns.faults.object_cases import clean, dirty
from campaigns.faults.scenes import BASE, Scene, VerbCase, create_repository, listing
from sparklake import Repository
from sparklake.errors import (
    AlreadyExistsError,
    NamespaceInUseError,
    NoChangesError,
    NothingToDoError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from sparklake.stores.objects import open_object
from sparklake.testing.lakes import commit_all, memory_lake

SECRET = "secret"


# --- names ----------------------------------------------------------------------------------------


def create_branch(scene: Scene) -> None:
    scene.repository.create_branch(scene.name_of("new"), scene.label, expires=timedelta(days=1))


def delete_branch(scene: Scene) -> None:
    scene.repository.delete_branch(scene.label, discard_staged=True)


def create_tag(scene: Scene) -> None:
    scene.repository.create_tag(scene.name_of("tag"), scene.label)


def tagged(scene: Scene) -> None:
    scene.create_branch({"own": b"own"})
    create_tag(scene)


def delete_tag(scene: Scene) -> None:
    scene.repository.delete_tag(scene.name_of("tag"))


def set_expiry(scene: Scene) -> None:
    scene.branch.set_expiry(timedelta(days=1))


def expired(scene: Scene) -> None:
    scene.repository.create_branch(scene.label, "main", expires=timedelta(microseconds=1))
    scene.repository.create_branch(scene.name_of("other"), "main")


def prune(scene: Scene) -> None:
    scene.repository.prune_branches()


def protect(scene: Scene) -> None:
    scene.repository.settings.set_metadata({scene.label: "labelled"})


def labels(scene: Scene) -> bool:
    return scene.label in scene.repository.settings.get().metadata


# --- repositories ---------------------------------------------------------------------------------


def create_other(scene: Scene) -> None:
    scene.lake.create_repository(scene.other_name, scene.folder("other"))


def other_state(scene: Scene) -> dict[str, Any] | None:
    try:
        other = scene.lake.repository(scene.other_name)
    except RepositoryNotFoundError:
        return None
    return refs_of(other, scene)


def refs_of(repository: Repository, scene: Scene) -> dict[str, Any]:
    """Return the listings of all branches and tags."""
    names = [each.name for each in repository._context.refs.snapshot().named]
    return {name.replace(scene.label, ""): listing(repository, name, scene) for name in names}


def with_other(scene: Scene) -> None:
    create_repository(scene.lake, scene.other_name, scene.folder("other"))


def delete_other(scene: Scene) -> None:
    scene.lake.delete_repository(scene.other_name)


def dumped_other(scene: Scene) -> None:
    """Leave the dump of a repository missing in this lake."""
    with memory_lake() as lake:
        repository = create_repository(lake, "dumped", scene.folder("other"))
        repository.create_tag("tag", "main")
        repository.dump_refs()


def restore_other(scene: Scene) -> None:
    scene.lake.restore_repository(scene.other_name, scene.folder("other"))


# --- dumps and exports ----------------------------------------------------------------------------


def older_dump(scene: Scene) -> None:
    """Dump, then change refs."""
    scene.create_branch({"own": b"own"})
    scene.repository.dump_refs()
    commit_all(scene.branch, {"base/1": b"newer"}, "newer")
    create_tag(scene)


def dump(scene: Scene) -> None:
    scene.repository.dump_refs()


def dumped_state(scene: Scene) -> dict[str, Any]:
    """Return the dump's contents, restored in a copy of the namespace."""
    source = scene.repository._context.store
    target = scene.store(f"copy-{uuid4().hex}")
    for each in source.list():
        target.put_if_absent(each.key, source.get(each.key))
    with memory_lake() as lake:
        return refs_of(lake.restore_repository("copy", target.uri), scene)


def export(scene: Scene) -> None:
    scene.repository.export("main", scene.folder("export"), overwrite=True)


def exported(scene: Scene) -> dict[str, bytes]:
    store = scene.store("export")
    return {path: store.get(path) for path in BASE}


# --- garbage and purges ---------------------------------------------------------------------------


def with_garbage(scene: Scene) -> None:
    """Leave objects referenced only by expired commits and dropped changes."""
    repository = scene.repository
    repository.settings.set_retention(0)
    branch = scene.create_branch({"base/0": b"once"})
    commit_all(branch, {"base/0": BASE["base/0"]}, "as before")
    branch.put("staged", b"dropped")
    branch.put("staged", b"kept")


def with_garbage_trees(scene: Scene) -> None:
    """Leave garbage and trees of expired commits for the next collection."""
    with_garbage(scene)
    scene.repository.settings.set_retention(0, tree_days=0)


def collect(scene: Scene) -> None:
    scene.repository.collect_garbage(grace=timedelta())


def garbage(scene: Scene) -> tuple[int, int, bool]:
    """Return the numbers of unreferenced objects and tables, and whether referenced ones exist."""
    repository = scene.repository
    run = repository.collect_garbage(dry_run=True, grace=timedelta()).run
    referenced = {each.address for each in repository.objects(scene.label)}
    objects = len(list(repository.garbage(run.id)))
    return objects, run.tree_files, all(is_stored(each) for each in referenced)


def is_stored(address: str) -> bool:
    store, key = open_object(address)
    return store.find(key) is not None


def with_secret(scene: Scene) -> None:
    branch = scene.create_branch({SECRET: b"secret"})
    # The tag is the only name of the secret, and does not hinder its purge.
    scene.repository.create_tag(scene.name_of("tag"), branch.name)
    commit_all(branch, {SECRET: None}, "removed")


def purge(scene: Scene, *, commit: bool = False) -> None:
    """Resume an unfinished purge, or purge."""
    repository = scene.repository
    unfinished = [each for each in repository.purges() if each.state.value != "done"]
    for each in unfinished:
        repository.resume_purge(each.id)
    if not unfinished:
        repository.purge([SECRET], commit=commit)


def with_live_secret(scene: Scene) -> None:
    branch = scene.create_branch({SECRET: b"secret"})
    scene.repository.create_tag(scene.name_of("tag"), branch.name)


def purge_and_commit(scene: Scene) -> None:
    """Purge a path of a head: the purge commits its removal first."""
    purge(scene, commit=True)


def purged(scene: Scene) -> tuple[set[str], bool]:
    """Return the states of all purges, and whether the secret is still there."""
    repository = scene.repository
    address = repository.stat(scene.name_of("tag"), SECRET).address
    return {each.state.value for each in repository.purges()}, is_stored(address)


UPKEEP_CASES = {
    "create_branch": VerbCase(dirty, create_branch, done=(AlreadyExistsError,)),
    "delete_branch": VerbCase(dirty, delete_branch, done=(RefNotFoundError,)),
    "create_tag": VerbCase(dirty, create_tag, done=(AlreadyExistsError,)),
    "delete_tag": VerbCase(tagged, delete_tag, done=(RefNotFoundError,)),
    "set_expiry": VerbCase(clean, set_expiry),
    "prune_branches": VerbCase(expired, prune),
    "set_metadata": VerbCase(clean, protect, effects=labels),
    "create_repository": VerbCase(
        clean, create_other, done=(AlreadyExistsError,), effects=other_state
    ),
    "delete_repository": VerbCase(
        with_other, delete_other, done=(RepositoryNotFoundError,), effects=other_state
    ),
    "restore_repository": VerbCase(
        dumped_other,
        restore_other,
        done=(AlreadyExistsError, NamespaceInUseError),
        effects=other_state,
    ),
    "dump": VerbCase(older_dump, dump, effects=dumped_state, alone=True),
    "export": VerbCase(clean, export, done=(NothingToDoError,), effects=exported),
    "gc": VerbCase(with_garbage, collect, effects=garbage, alone=True),
    "gc, trees": VerbCase(with_garbage_trees, collect, effects=garbage, alone=True),
    "purge": VerbCase(with_secret, purge, done=(NoChangesError,), effects=purged, alone=True),
    "purge, commit": VerbCase(
        with_live_secret, purge_and_commit, done=(NoChangesError,), effects=purged, alone=True
    ),
}
