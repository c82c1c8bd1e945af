"""A lake with files to damage, and the questions asked after each damage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from sparklake import Branch, Lake, Repository
from sparklake.layout import DUMP_SETTINGS_KEY, NAMESPACE_MARKER_KEY, REFS_MANIFEST_KEY
from sparklake.testing.lakes import commit_all, memory_lake, namespace_of, stage_table

Question = Callable[["Specimen"], Any]
Listing = dict[str, tuple[int, str]]

RANGE, META_RANGE, OBJECT, MARK = "range", "metarange", "object", "mark"
DUMP_TABLE, MANIFEST, SETTINGS = "dump table", "manifest", "settings"


@dataclass(frozen=True, slots=True)
class Specimen:
    """A lake with refs in memory, and a second repository with entirely different files."""

    lake: Lake
    folder: Path
    kinds: Mapping[str, str]
    """The kind of each file of the first repository, by its path below the namespace."""
    trees: dict[str, Listing] = field(default_factory=dict)

    @property
    def repository(self) -> Repository:
        """The repository, opened anew with empty caches."""
        return self.lake.repository("lake")

    @property
    def namespace(self) -> Path:
        """The files of the repository."""
        return self.folder / "lake"

    def tree(self, commit_id: str) -> Listing:
        """Return the listing of a commit, as it was before any damage."""
        if commit_id not in self.trees:
            self.trees[commit_id] = listing(self.repository, commit_id)
        return self.trees[commit_id]

    def foreign_files(self, kind: str) -> list[Path]:
        """Return the other repository's files of one kind."""
        other = self.folder / "other"
        kinds = _kinds(self.lake, "other")
        return sorted(other / name for name, each in kinds.items() if each == kind)


def create_specimen(folder: Path) -> Specimen:
    """Create a lake of ranges, objects, layers, merges and a dump."""
    lake = memory_lake()
    _fill(lake.create_repository("lake", str(folder / "lake"), range_records=4), b"%d")
    _fill(lake.create_repository("other", str(folder / "other"), range_records=4), b"other %d")
    return Specimen(lake, folder, _kinds(lake, "lake"))


def _fill(repository: Repository, body: bytes) -> None:
    main = repository.branch("main")
    main.put_many({f"k/{number:03}": body % number for number in range(60)})
    main.commit("base")
    dev = repository.create_branch("dev", "main")
    commit_all(dev, {"k/030": body % 1000, "k/031": None, "new": body % 1001}, "changes")
    commit_all(main, {"k/003": body % 1002, "k/050": None}, "others")
    repository.create_tag("tag", "main")
    staged = repository.create_branch("staged", "dev")
    stage_run(repository, staged, {"k/010": "k/001", "k/011": None, "run": "k/002"})
    staged.put("k/020", body % 1003)
    repository.create_branch("merged", "main")
    repository.merge("dev", "merged")
    repository.dump_refs()


def stage_run(repository: Repository, branch: Branch, copies: dict[str, str | None]) -> None:
    """Stage copies of main's objects, by path, and removals, as a run."""
    rows: list[dict[str, Any]] = []
    for path, source in copies.items():
        if source is None:
            rows.append({"path": path, "deleted": True})
        else:
            info = repository.stat("main", source)
            row = {"size": info.size, "address": info.address, "checksum": info.checksum}
            rows.append({"path": path, **row})
    branch.stage(stage_table(rows))


def _kinds(lake: Lake, name: str) -> dict[str, str]:
    repository = lake.repository(name)
    context = repository._context
    kinds = {NAMESPACE_MARKER_KEY: MARK, REFS_MANIFEST_KEY: MANIFEST, DUMP_SETTINGS_KEY: SETTINGS}
    meta_ranges = {each.meta_range_id for each in context.refs.snapshot().commits}
    meta_ranges |= {
        layer.meta_range_id
        for state in repository.branch_states(hidden=True)
        for layer in state.layers
        if layer.meta_range_id is not None
    }
    for meta_range_id in meta_ranges - {""}:
        kinds[f"_lakefs/{meta_range_id}"] = META_RANGE
        for each in context.trees.get(meta_range_id).ranges:
            kinds[f"_lakefs/{each.id}"] = RANGE
    folder = namespace_of(repository)
    for path in sorted(folder.rglob("*")):
        key = path.relative_to(folder).as_posix()
        if path.is_file() and key not in kinds:
            kinds[key] = OBJECT if key.startswith("data/") else DUMP_TABLE
    return kinds


# --- questions ------------------------------------------------------------------------------------


def listing(repository: Repository, ref: str, prefix: str = "") -> Listing:
    """Return sizes and checksums by path."""
    return {each.path: (each.size, each.checksum) for each in repository.objects(ref, prefix)}


def everything(specimen: Specimen) -> Any:
    """List all refs, with their staged changes."""
    repository = specimen.repository
    refs = ("main", "dev", "staged", "staged@", "staged$", "merged", "tag")
    return {ref: listing(repository, ref) for ref in refs}


def bodies(specimen: Specimen) -> Any:
    """Read all objects."""
    repository = specimen.repository
    return {
        ref: {path: repository.read_bytes(ref, path) for path in listing(repository, ref)}
        for ref in ("main", "dev")
    }


def one_object(specimen: Specimen) -> Any:
    """Read single objects, without a listing."""
    repository = specimen.repository
    return [repository.read_bytes(ref, "k/030") for ref in ("main", "dev", "tag")]


def differences(specimen: Specimen) -> Any:
    """Compare refs."""
    repository = specimen.repository
    answers = {}
    for left, right in (("main", "dev"), ("dev", "merged"), ("staged@", "staged")):
        for three_way in (False, True):
            changes = repository.diff(left, right, three_way=three_way)
            answers[left, right, three_way] = [(each.path, each.type) for each in changes]
    return answers


def history(specimen: Specimen) -> Any:
    """Return logs of paths, and blame."""
    repository = specimen.repository
    log = [each.message for each in repository.log("merged", path="k/030")]
    return log, [(each.path, each.commit) for each in repository.blame("merged", "k/03")]


def preview(specimen: Specimen) -> Any:
    """Preview a merge."""
    result = specimen.repository.preview_merge("dev", "main")
    return result.added, result.changed, result.removed


def committed(specimen: Specimen) -> Any:
    """Commit changes, and return the tree."""
    repository = specimen.repository
    branch = repository.create_branch(f"q-{uuid4().hex}", "main")
    try:
        stage_run(repository, branch, {"k/030": "k/001", "k/045": None})
        return branch.commit("a question").meta_range_id
    finally:
        repository.delete_branch(branch.name, discard_staged=True)


def merged(specimen: Specimen) -> Any:
    """Merge, and return the tree."""
    repository = specimen.repository
    branch = repository.create_branch(f"q-{uuid4().hex}", "main")
    try:
        return repository.merge("dev", branch.name).meta_range_id
    finally:
        repository.delete_branch(branch.name, discard_staged=True)


def restored(specimen: Specimen) -> Any:
    """Restore the dump in a copy of the namespace into another lake."""
    place = specimen.folder / f"copy-{uuid4().hex}"
    shutil.copytree(specimen.namespace, place, copy_function=os.link)
    # The restore replaces the mark, and a link must not lead to the original.
    mark = place / NAMESPACE_MARKER_KEY
    if mark.exists():
        body = mark.read_bytes()
        mark.unlink()
        mark.write_bytes(body)
    try:
        with memory_lake() as lake:
            repository = lake.restore_repository("copy", str(place))
            refs = repository._context.refs.snapshot().named
            return {each.name: listing(repository, each.name) for each in refs}
    finally:
        shutil.rmtree(place)


QUESTIONS: dict[str, Question] = {
    each.__name__: each
    for each in (
        *(everything, bodies, one_object, differences, history),
        *(preview, committed, merged, restored),
    )
}

ASKED_OF = {
    RANGE: tuple(QUESTIONS),
    META_RANGE: tuple(QUESTIONS),
    OBJECT: ("bodies", "one_object", "everything"),
    MARK: ("everything", "committed", "merged", "restored"),
    DUMP_TABLE: ("restored", "everything"),
    MANIFEST: ("restored", "everything"),
    SETTINGS: ("restored", "everything"),
}
"""The questions about a file of a kind. Others do not depend on it."""
