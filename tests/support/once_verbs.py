"""Verbs with idempotency keys, each on a branch prepared for it, and their effects.

A stage is a repository with the branches `main` and `dev`, and the folders that the verbs read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.types import StructType

from sparklake import Branch, Once, Repository, VerbResult, run_verb
from sparklake.stores.objects import open_store
from sparklake.testing.lakes import commit_all, contents, stage_table
from sparklake.verbs.base.context import Context
from sparklake.verbs.tables import write as writes
from sparklake.verbs.tables.write_request import WriteRequest

BASE = {f"base/{number}": b"%d" % number for number in range(4)}


@dataclass(frozen=True, slots=True)
class Stage:
    """A branch for one verb, and a folder with files."""

    repo: Repository
    branch: Branch
    folder: Path

    def on(self, repo: Repository, name: str | None = None) -> Stage:
        """Return the same stage, or one for another branch, of a repository opened again."""
        return Stage(repo, Branch(repo._context, name or self.branch.name), self.folder)


Act = Callable[[Stage, Once], VerbResult[Any]]


@dataclass(frozen=True, slots=True)
class OnceVerb:
    """A verb, the same verb with other arguments, and the preparation of its branch."""

    act: Act
    other: Act
    prepare: Callable[[Branch], object] = lambda _: None


class Rows:
    """A stand-in for a DataFrame, for a patched writer."""

    sparkSession = None  # noqa: N815  (Spark's own name)
    schema = StructType()


@contextmanager
def writes_without_spark() -> Iterator[None]:
    """Let a table write put a file, with a name of its own as Spark does."""

    def save(context: Context, rows: Any, request: WriteRequest, place: str) -> Any:
        store = open_store(context.info.storage_namespace)
        store.put_if_absent(f"{place}/part-{uuid4().hex}", b"rows")
        return lambda names: None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writes, "save_rows", save)
        yield


def write(mode: str, path: str = "table") -> Act:
    def act(stage: Stage, once: Once) -> VerbResult[Any]:
        rows: Any = Rows()
        with writes_without_spark():
            return run_verb(stage.branch.write, rows, path, mode=mode, once=once)

    return act


def put_file(stage: Stage, once: Once, name: str = "one") -> VerbResult[Any]:
    return run_verb(stage.branch.put_file, "put", stage.folder / "files" / name, once=once)


def stage_rows(stage: Stage, once: Once, path: str = "staged") -> VerbResult[Any]:
    address = f"file://{stage.folder / 'files' / 'one'}"
    rows = stage_table([{"path": path, "size": 3, "address": address}])
    key = Once(once.key, [path]) if path != "staged" else once
    return run_verb(stage.branch.stage, rows, key)


def by_name(result: VerbResult[Branch]) -> VerbResult[str]:
    """Return the result with the name of its branch, for comparisons."""
    return VerbResult(result.value.name, result.changed, result.repeated, result.stored)


VERBS: dict[str, OnceVerb] = {
    "put": OnceVerb(
        lambda at, once: run_verb(at.branch.put, "put", b"1", once=once),
        lambda at, once: run_verb(at.branch.put, "put", b"2", once=once),
    ),
    "put_file": OnceVerb(put_file, lambda at, once: put_file(at, once, "two")),
    "put_many": OnceVerb(
        lambda at, once: run_verb(
            at.branch.put_many, {"a": b"1", "b": at.folder / "files/one"}, once=once
        ),
        lambda at, once: run_verb(
            at.branch.put_many, {"a": b"2", "b": at.folder / "files/one"}, once=once
        ),
    ),
    "put_folder": OnceVerb(
        lambda at, once: run_verb(at.branch.put_folder, "put", at.folder / "files", once=once),
        lambda at, once: run_verb(at.branch.put_folder, "other", at.folder / "files", once=once),
    ),
    "stage": OnceVerb(stage_rows, lambda at, once: stage_rows(at, once, "other")),
    "delete": OnceVerb(
        lambda at, once: run_verb(at.branch.delete, "base/0", once=once),
        lambda at, once: run_verb(at.branch.delete, "base/1", once=once),
    ),
    "delete_prefix": OnceVerb(
        lambda at, once: run_verb(at.branch.delete_prefix, "base/", once=once),
        lambda at, once: run_verb(at.branch.delete_prefix, "base/1", once=once),
    ),
    "remove": OnceVerb(
        lambda at, once: run_verb(at.branch.remove, "base/0", once=once),
        lambda at, once: run_verb(at.branch.remove, "base/1", once=once),
    ),
    "remove a folder": OnceVerb(
        lambda at, once: run_verb(at.branch.remove, "base", recursive=True, once=once),
        lambda at, once: run_verb(at.branch.remove, "other", recursive=True, once=once),
        lambda branch: branch.put("base", b"an object with the name of the folder"),
    ),
    "remove_many": OnceVerb(
        lambda at, once: run_verb(at.branch.remove_many, ["base/0", "base/1"], once=once),
        lambda at, once: run_verb(at.branch.remove_many, ["base/0"], once=once),
    ),
    "copy_many": OnceVerb(
        lambda at, once: run_verb(
            at.branch.copy_many, [("base/0", "a"), ("base/1", "b")], once=once
        ),
        lambda at, once: run_verb(at.branch.copy_many, [("base/0", "a")], once=once),
    ),
    "move": OnceVerb(
        lambda at, once: run_verb(at.branch.move, "base/", "moved/", once=once),
        lambda at, once: run_verb(at.branch.move, "base/", "other/", once=once),
    ),
    "copy": OnceVerb(
        lambda at, once: run_verb(at.branch.copy, "base/", "copied/", once=once),
        lambda at, once: run_verb(at.branch.copy, "base/", "copied/", ref="dev", once=once),
    ),
    "restore": OnceVerb(
        lambda at, once: run_verb(at.branch.restore, "dev", ["base/1"], once=once),
        lambda at, once: run_verb(at.branch.restore, "dev", ["base/2"], once=once),
    ),
    "append": OnceVerb(write("append"), write("append", "other")),
    "write": OnceVerb(write("errorifexists"), write("append")),
    "overwrite": OnceVerb(write("overwrite", "base"), write("overwrite")),
    "commit": OnceVerb(
        lambda at, once: run_verb(at.branch.commit, "changes", once=once),
        lambda at, once: run_verb(at.branch.commit, "other changes", once=once),
        lambda branch: branch.put("staged", b"staged"),
    ),
    "empty commit": OnceVerb(
        lambda at, once: run_verb(at.branch.commit, "empty", allow_empty=True, once=once),
        lambda at, once: run_verb(at.branch.commit, "empty", once=once),
    ),
    "import": OnceVerb(
        lambda at, once: run_verb(at.branch.import_objects, at.folder / "files", "in/", once=once),
        lambda at, once: run_verb(
            at.branch.import_objects, at.folder / "files", "other/", once=once
        ),
    ),
    "merge": OnceVerb(
        lambda at, once: run_verb(at.repo.merge, "dev", at.branch.name, message="m", once=once),
        lambda at, once: run_verb(at.repo.merge, "dev", at.branch.name, squash=True, once=once),
    ),
    "revert": OnceVerb(
        lambda at, once: run_verb(at.branch.revert, "main", "main~1", once=once),
        lambda at, once: run_verb(at.branch.revert, "main", once=once),
    ),
    "cherry_pick": OnceVerb(
        lambda at, once: run_verb(at.branch.cherry_pick, "dev", once=once),
        lambda at, once: run_verb(at.branch.cherry_pick, "dev", message="other", once=once),
    ),
    "rebase": OnceVerb(
        lambda at, once: run_verb(at.branch.rebase, "dev", once=once),
        lambda at, once: run_verb(at.branch.rebase, "main~1", once=once),
        lambda branch: commit_all(branch, {"own": b"own"}, "own"),
    ),
    "reset": OnceVerb(
        lambda at, once: run_verb(at.branch.reset, once=once),
        lambda at, once: run_verb(at.branch.reset, path="staged", once=once),
        lambda branch: branch.put("staged", b"staged"),
    ),
    "reset a folder": OnceVerb(
        lambda at, once: run_verb(at.branch.reset, "a/", once=once),
        lambda at, once: run_verb(at.branch.reset, "b/", once=once),
        lambda branch: branch.put_many({"a/1": b"1", "b/1": b"1"}),
    ),
    "hard_reset": OnceVerb(
        lambda at, once: run_verb(at.branch.hard_reset, f"{at.branch.name}~1", once=once),
        lambda at, once: run_verb(at.branch.hard_reset, "dev", once=once),
    ),
    "undo": OnceVerb(
        lambda at, once: run_verb(at.branch.undo, once=once),
        lambda at, once: run_verb(at.branch.hard_reset, "dev", once=once),
        lambda branch: commit_all(branch, {"own": b"own"}, "own"),
    ),
    "create_branch": OnceVerb(
        lambda at, once: by_name(
            run_verb(at.repo.create_branch, f"{at.branch.name}-new", "dev", once=once)
        ),
        lambda at, once: by_name(
            run_verb(at.repo.create_branch, f"{at.branch.name}-new", "main", once=once)
        ),
    ),
    "rename_branch": OnceVerb(
        lambda at, once: by_name(
            run_verb(
                at.repo.rename_branch, f"{at.branch.name}-old", f"{at.branch.name}-new", once=once
            )
        ),
        lambda at, once: by_name(
            run_verb(
                at.repo.rename_branch, f"{at.branch.name}-old", f"{at.branch.name}-x", once=once
            )
        ),
        lambda branch: Repository(branch._context).create_branch(f"{branch.name}-old", "dev"),
    ),
    "create_tag": OnceVerb(
        lambda at, once: run_verb(at.repo.create_tag, f"{at.branch.name}-tag", "dev", once=once),
        lambda at, once: run_verb(at.repo.create_tag, f"{at.branch.name}-tag", "main", once=once),
    ),
}


def fill(repo: Repository, folder: Path) -> None:
    """Give a new repository two commits on main, and one more on dev."""
    main = repo.branch("main")
    commit_all(main, dict(BASE), "base")
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"base/1": b"changed", "dev": b"dev"}, "on dev")
    commit_all(main, {"base/3": b"again", "main": b"main"}, "on main")
    (folder / "files").mkdir()
    for name in ("one", "two"):
        (folder / "files" / name).write_bytes(name.encode())


def new_stage(repo: Repository, folder: Path, verb: OnceVerb) -> Stage:
    """Return a new branch prepared for a verb."""
    branch = repo.create_branch(f"b{uuid4().hex[:12]}", "main")
    verb.prepare(branch)
    return Stage(repo, branch, folder)


def effects(stage: Stage) -> dict[str, Any]:
    """Return everything that a verb may change, without values that differ in each run.

    A doubled effect shows: as a second file, commit or entry of the log.
    """
    repo, name = stage.repo, stage.branch.name
    log = repo.operations(10_000)
    return {
        "staged and committed": _files(contents(repo, name)),
        "committed": _files(contents(repo, f"{name}@")),
        "log": [(each.message, len(each.parents)) for each in repo.log(name)],
        "layers": len(stage.branch.state.layers),
        "moves": [
            (each.ref.removeprefix(name), each.verb, each.to_commit is None)
            for each in log
            if each.ref.startswith(name)
        ],
        "open writes": [each.id for each in repo.writes() if each.branch == name and is_open(each)],
    }


def is_open(write: Any) -> bool:
    return bool(write.state == "open")


def _files(objects: dict[str, bytes]) -> list[tuple[str, bytes]]:
    """Return contents by path; of files with random names, by folder."""
    return sorted((path.partition("part-")[0], body) for path, body in objects.items())
