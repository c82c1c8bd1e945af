"""Scenes: the repository of a round, its verb and its states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparklake import Branch, Commit, Lake, Repository, SparklakeError
from sparklake.errors import RepositoryNotFoundError
from sparklake.graveler.ports import ObjectStore
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects import normalise_store_uri, open_store
from sparklake.testing.lakes import commit_all

BASE = {f"base/{number}": b"%d" % number for number in range(9)}
"""The objects of `main`. Each round starts with branches of it."""

DELTA_ENTRY = (
    b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
    b'{"metaData":{"id":"t","format":{"provider":"parquet","options":{}},"schemaString":'
    b'"{\\"type\\":\\"struct\\",\\"fields\\":[]}","partitionColumns":[],"configuration":{}}}\n'
    b'{"add":{"path":"part-0","partitionValues":{},"size":6,"modificationTime":0,'
    b'"dataChange":true}}\n'
)
ICEBERG_METADATA = (
    b'{"format-version":2,"location":"file:///elsewhere/iceberg","last-updated-ms":1,'
    b'"current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[]}]}'
)
TABLES = {
    "iceberg/metadata/v1.metadata.json": ICEBERG_METADATA,
    "table/p=0/part-0": b"part-0",
    "delta/part-0": b"part-0",
    f"delta/_delta_log/{0:020}.json": DELTA_ENTRY,
}

_SHOWN_COMMITS = 4
_TREES: dict[tuple[str, str], dict[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Scene:
    """One round's part of a repository: the branches and tags with a label as prefix.

    `root` is the URI of a folder for the other files of the round.
    """

    lake: Lake
    name: str
    label: str
    root: str

    @property
    def repository(self) -> Repository:
        """The repository, opened anew: its caches are empty."""
        return self.lake.repository(self.name)

    @property
    def other_name(self) -> str:
        """The name of an optional second repository."""
        return f"{self.name}-{self.label}"

    @property
    def branch(self) -> Branch:
        """The branch to change."""
        return self.repository.branch(self.label)

    def name_of(self, suffix: str) -> str:
        """Return the name of another branch or a tag."""
        return f"{self.label}-{suffix}"

    def folder(self, name: str) -> str:
        """Return the URI of this round's own folder."""
        return f"{self.root}/{self.label}/{name}"

    @property
    def source(self) -> str:
        """The folder URI for all rounds, because trees contain addresses."""
        return f"{self.root}/source"

    def store(self, name: str) -> ObjectStore:
        """Return the store of such a folder."""
        return open_store(normalise_store_uri(self.folder(name)))

    def create_branch(self, contents: Mapping[str, bytes | None], suffix: str = "") -> Branch:
        """Create a branch of main, and commit changes to it."""
        name = self.name_of(suffix) if suffix else self.label
        branch = self.repository.create_branch(name, "main")
        if contents:
            commit_all(branch, contents, f"first {suffix}")
        return branch


Verb = Callable[[Scene], object]


def nothing(_: Scene) -> None:
    """Return None."""


@dataclass(frozen=True, slots=True)
class VerbCase:
    """A verb in a scene.

    `prepare` creates the old state, and `run` the new one. `done` are the errors of a second
    run in the new state; a verb that does not repeat, such as undo, has no second run there.
    `effects` returns its changes outside of refs, after its end. With `alone`, each
    round needs a repository of its own.
    """

    prepare: Verb
    run: Verb
    done: tuple[type[SparklakeError], ...] = ()
    repeats: bool = True
    effects: Verb = nothing
    alone: bool = False


def create_repository(lake: Lake, name: str, namespace: str) -> Repository:
    """Create a repository of many small ranges, with objects and tables on main."""
    repository = lake.create_repository(name, namespace, range_records=4)
    main = repository.branch("main")
    main.put_many({**BASE, **TABLES})
    main.commit("base")
    return repository


def state_of(scene: Scene) -> dict[str, Any]:
    """Return a round's refs and their contents, without the label, ids and times."""
    try:
        repository = scene.repository
    except RepositoryNotFoundError:
        return {}
    names = [each.name for each in repository.branches(hidden=True)]
    tags = [each.name for each in repository.tags() if each.name.startswith(scene.label)]
    state: dict[str, Any] = {
        f"branch {_short(name, scene)}": _branch_state(repository, name, scene)
        for name in names
        if name.startswith(scene.label)
    }
    state |= {f"tag {_short(name, scene)}": _history(repository, name, scene) for name in tags}
    state["main"] = _branch_state(repository, "main", scene)
    return state


def _branch_state(repository: Repository, name: str, scene: Scene) -> dict[str, Any]:
    state = repository.branch(name).state
    return {
        "history": _history(repository, name, scene),
        "staged": listing(repository, f"{name}$", scene) if state.layers else {},
        "listing": listing(repository, name, scene) if state.layers else {},
        "expires": state.expires is not None,
    }


def _history(repository: Repository, ref: str, scene: Scene) -> list[Any]:
    """Return a ref's first parents, with the trees of all their parents."""
    graph = repository._context.graph
    return [
        (
            each.message,
            _tree(repository, each, scene),
            [_tree(repository, graph.commit(parent), scene) for parent in each.parents],
        )
        for each in repository.log(ref, _SHOWN_COMMITS, first_parent=True)
    ]


def _tree(repository: Repository, commit: Commit, scene: Scene) -> dict[str, Any]:
    """Return the listing of a commit. The check that ends a round reads the tree again."""
    place = (repository.info.uid, commit.meta_range_id)
    if place not in _TREES:
        _TREES[place] = listing(repository, commit.id, scene)
    return _TREES[place]


def listing(repository: Repository, ref: str, scene: Scene) -> dict[str, Any]:
    """Return sizes and checksums by path, without the label and addresses."""
    objects = repository.objects(ref)
    return {_short(each.path, scene): (each.size, _checksum(each)) for each in objects}


def _checksum(each: ObjectInfo) -> str:
    """Return the checksum, or its source if it depends on the repository or write."""
    if each.path.endswith(("/v2.metadata.json", ".avro")):
        return "metadata with an address"
    return "ETag" if each.checksum.startswith("0x") else each.checksum


def _short(text: str, scene: Scene) -> str:
    return text.replace(scene.label, "LABEL")
