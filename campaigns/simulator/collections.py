"""A garbage collection beside three writers.

    python -m campaigns.simulator.collections --schedules 2000.

In each schedule a collector collects once or twice while three writers take random steps; a seed
decides every interleaving of port calls. Unreferenced tables are collected, too, in most schedules
with the trees of expired commits. Then all referenced objects and tables exist, with their
content, and after the last step, one more collection leaves nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count, pairwise, product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from campaigns.faults.checking import ViolationError
from campaigns.simulator.schedules import Schedule, scheduled
from sparklake import Lake, Repository, SparklakeError
from sparklake.errors import CollectionRunningError, ExpiredError, MissingFileError
from sparklake.graveler.dumps.dump import dump_table_ids, dump_trees, read_dump_manifest
from sparklake.graveler.guards import Action
from sparklake.graveler.ids import EMPTY_META_RANGE, earlier_generation
from sparklake.graveler.sstable.range_files import read_meta_range, tree_file_key
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects import open_object
from sparklake.strategies import Decision, Objects
from sparklake.testing.lakes import memory_lake, namespace_of, stage_table
from sparklake.verbs.base.resolve import open_branch
from sparklake.verbs.gc.collect import Collection
from sparklake.verbs.objects.stage import stage_batches

if TYPE_CHECKING:
    import pyarrow as pa

PATHS = ["a", "b", "d/c", "d/d"]
BODIES = [b"0", b"1"]
NO_GRACE = timedelta()
WRITERS = 3
TAKES_BASE = "campaigns.simulator.collections:takes_base"


def takes_base(conflicts: pa.RecordBatch, _: Objects) -> list[Decision]:
    """Resolve every conflict with base's object."""
    return ["base"] * conflicts.num_rows


class Writer:
    """An actor with random steps on shared branches, and its own handle."""

    def __init__(self, lake: Lake, name: str, chance: Random, verbs: Counter[str]) -> None:
        self.repo = lake.repository("repo")
        self.name = name
        self.chance = chance
        self.verbs = verbs
        self.made = count()
        self.promised: list[str] = []
        """The ids of its commits."""

    def __call__(self) -> None:
        for _ in range(self.chance.randint(2, 4)):
            verb = self.chance.choice(
                [
                    *(self.put, self.put_and_commit, self.put_and_commit, self.commit),
                    *(self.write, self.merge, self.revert, self.fork, self.cp, self.restore),
                    *(self.reset, self.hard_reset, self.stage, self.rm, self.drop),
                    *(self.cherry_pick, self.rebase, self.undo, self.tag, self.copy_many),
                    *(self.import_rows, self.dump),
                ]
            )
            try:
                self.promised += verb() or []
            except SparklakeError as error:  # What is refused has promised nothing.
                self.verbs[f"{verb.__name__}: {error.kind}"] += 1
            else:
                self.verbs[verb.__name__] += 1

    def branch(self) -> str:
        return self.chance.choice([each.name for each in self.repo.branches()])

    def a_commit(self) -> str:
        commits = self.repo._context.refs.commits.find_by_prefix("", 1000)
        return self.chance.choice(commits).id

    def put(self) -> None:
        path, body = self.chance.choice(PATHS), self.chance.choice(BODIES)
        self.repo.branch(self.branch()).put(path, body)

    def commit(self) -> list[str]:
        return [self.repo.branch(self.branch()).commit("c").id]

    def put_and_commit(self) -> list[str]:
        branch = self.repo.branch(self.branch())
        for path in self.chance.sample(PATHS, 2):
            branch.put(path, self.chance.choice(BODIES))
        return [branch.commit("c").id]

    def write(self) -> None:
        """Write files to a fresh place and stage them, as a table is written."""
        context, name = self.repo._context, self.branch()
        fence = open_branch(context, name, Action.STAGE).fence
        rows = []
        for number, path in enumerate(self.chance.sample(PATHS, 2)):
            key = f"data/{self.name}-{next(self.made)}/part-{number}"
            body = self.chance.choice(BODIES)
            context.store.put_if_absent(key, body)
            rows.append({"path": path, "size": 1, "checksum": md5(body), "address": key})
        stage_batches(
            *(context, name, context.runner(0, "write", name)), stage_table(rows), fence=fence
        )

    def merge(self) -> list[str]:
        source, dest = self.chance.choice([self.branch(), self.a_commit()]), self.branch()
        strategy = self.chance.choice(["source-wins", TAKES_BASE])
        return [self.repo.merge(source, dest, strategy=strategy).id]

    def revert(self) -> list[str]:
        branch = self.repo.branch(self.branch())
        return [each.id for each in branch.revert(self.a_commit(), strategy="source-wins")]

    def cherry_pick(self) -> list[str]:
        branch = self.repo.branch(self.branch())
        return [each.id for each in branch.cherry_pick(self.a_commit(), strategy="source-wins")]

    def rebase(self) -> list[str]:
        branch = self.repo.branch(self.branch())
        return [each.id for each in branch.rebase(self.a_commit(), strategy=TAKES_BASE)]

    def undo(self) -> None:
        self.repo.branch(self.branch()).undo()

    def tag(self) -> None:
        self.repo.create_tag(f"{self.name}-tag-{next(self.made)}", self.a_commit())

    def copy_many(self) -> None:
        pairs = [(self.chance.choice(PATHS), self.chance.choice(PATHS))]
        self.repo.branch(self.branch()).copy_many(pairs, self.a_commit())

    def fork(self) -> None:
        self.repo.create_branch(f"{self.name}-{next(self.made)}", self.a_commit())

    def cp(self) -> None:
        source = self.chance.choice([self.branch(), self.a_commit()])
        path = self.chance.choice(PATHS)
        self.repo.branch(self.branch()).copy(
            *(path, self.chance.choice(PATHS)), ref=source, force=True
        )

    def restore(self) -> None:
        self.repo.branch(self.branch()).restore(self.a_commit(), [self.chance.choice(PATHS)])

    def reset(self) -> None:
        self.repo.branch(self.branch()).reset()

    def hard_reset(self) -> None:
        self.repo.branch(self.branch()).hard_reset(self.a_commit(), force=True)

    def stage(self) -> None:
        """Stage a row of a known object."""
        info = self.repo.stat(self.branch(), self.chance.choice(PATHS))
        row = {"path": "s", "size": info.size, "checksum": info.checksum}
        self.repo.branch(self.branch()).stage(stage_table([{**row, "address": info.address}]))

    def import_rows(self) -> list[str]:
        """Import rows written before the fence of the move is read."""
        outside = namespace_of(self.repo).parent / "outside"
        rows = []
        for path in self.chance.sample(PATHS, 2):
            body = self.chance.choice(BODIES)
            file = outside / f"{path.replace('/', '-')}-{body.decode()}"
            row = {"path": path, "size": len(body), "checksum": md5(body)}
            rows.append({**row, "address": f"file://{file}"})
        branch = self.repo.branch(self.branch())
        return [branch.import_objects(stage_table(rows), replace=True).commit.id]

    def dump(self) -> None:
        self.repo.dump_refs()

    def rm(self) -> None:
        self.repo.branch(self.branch()).delete(self.chance.choice(PATHS))

    def drop(self) -> None:
        name = self.branch()
        if name != "main":
            self.repo.delete_branch(name, discard_staged=True)


def md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def referenced_objects(repo: Repository) -> Iterator[ObjectInfo]:
    """Yield every object of unexpired commits and staged changes."""
    commits = repo._context.refs.commits
    ids = [each.id for each in commits.find_by_prefix("", 1000)]
    for each in sorted(set(ids) - commits.expired(ids)):
        yield from repo.objects(each)
    for state in repo.branch_states(hidden=True):
        if state.layers:
            yield from repo.objects(state.name)
            yield from repo.objects(f"{state.name}$")


def check(repo: Repository) -> set[str]:
    """Read all referenced objects; return the addresses in the namespace."""
    refs = repo._context.refs
    heads = [each.commit_id for each in refs.snapshot().named]
    _require(not refs.commits.expired(heads), "a head has expired")
    root, addresses = repo.info.storage_namespace, set()
    for each in {info.address: info for info in referenced_objects(repo)}.values():
        store, key = open_object(each.address)
        _require(md5(store.get(key)) == each.checksum, f"{each} has other content")
        if each.address.startswith(f"{root}/"):
            addresses.add(each.address.removeprefix(f"{root}/"))
    return addresses


def check_trees(repo: Repository) -> None:
    """Check merge bases, diffs of retained commits, and the last dump."""
    commits = repo._context.refs.commits
    ids = [each.id for each in commits.find_by_prefix("", 1000)]
    retained = sorted(set(ids) - commits.expired(ids))
    for one, other in pairwise(retained):
        list(repo.diff(one, other))
        list(repo.diff(one, other, three_way=True))
    for one in ids:
        if one in commits.collected(ids):
            with suppress(ExpiredError):
                list(repo.objects(one))
                raise ViolationError(f"the tree of {one} was collected, and is listed")
        else:
            list(repo.objects(one))
    store = repo._context.store
    with suppress(MissingFileError):
        manifest = read_dump_manifest(store)
        for tree in dump_trees(store, manifest):
            for each in read_meta_range(store, tree).ranges:
                _require(store.find(tree_file_key(each.id)), f"the dump names the lost {each.id}")


def tables_of(repo: Repository) -> set[str]:
    files = (namespace_of(repo) / "_lakefs").iterdir()
    return {each.name for each in files if len(each.name) == 64}


def named_tables(repo: Repository) -> set[str]:
    """Return the tables referenced by refs, staged changes, and a dump with its heads."""
    context, tables = repo._context, set[str]()
    moment = context.refs.collections.look()
    trees = {each.meta_range_id for each in moment.refs.commits if each.id not in moment.treeless}
    with suppress(MissingFileError):
        manifest = read_dump_manifest(context.store)
        tables.update(dump_table_ids(context.store, manifest))
        trees |= dump_trees(context.store, manifest)
    for tree in trees - {EMPTY_META_RANGE}:
        tables.add(tree)
        for each in read_meta_range(context.store, tree).ranges:
            tables.add(each.id)
            # A dead range stays while a later generation is named.
            earlier = earlier_generation(each.id)
            while context.store.find(tree_file_key(earlier)):
                tables.add(earlier)
                earlier = earlier_generation(earlier)
    return tables


def let_expire(repo: Repository) -> None:
    """Create two branches of commits with their own objects, and retain heads alone."""
    main, dev = repo.branch("main"), repo.branch("dev")
    dev.commit("dev")
    for body in (b"2", b"3", b"4"):
        for path in PATHS:
            main.put(path, body)
            dev.put(path, body + b"d")
        main.commit("more")
        dev.commit("more")
    for path in PATHS:
        main.put(path, b"0")
    main.commit("most")


def run_schedule(seed: int, folder: Path) -> Counter[str]:
    """Run one schedule; return counts of its events. Raises ViolationError.

    In every second schedule, commits other than heads expire, in half of these before others come.
    Unreferenced tables are collected, in most schedules with the trees of expired commits.
    """
    chance, happened = Random(seed), Counter[str]()
    lake = memory_lake()
    repo = lake.create_repository("repo", str(folder / str(seed)), range_records=2)
    _prepare(repo, folder / "outside", seed)

    def collect() -> None:
        collector = lake.repository("repo")
        remaining = chance.randint(1, 2)
        while remaining:
            # A concurrent dump of refs excludes it.
            with suppress(CollectionRunningError):
                _count(happened, collector.collect_garbage(grace=NO_GRACE))
                remaining -= 1

    schedule = Schedule(chance)
    writers = [Writer(lake, f"w{number}", chance, happened) for number in range(WRITERS)]
    actors: list[Callable[[], None]] = [collect, *writers]
    with scheduled(schedule):
        schedule.run(actors)
    happened["calls"] = schedule.steps
    _judge(lake.repository("repo"), [each for writer in writers for each in writer.promised])
    shutil.rmtree(namespace_of(repo))
    return happened


def _prepare(repo: Repository, outside: Path, seed: int) -> None:
    main = repo.branch("main")
    for path in PATHS:
        main.put(path, b"0")
    main.commit("base")
    main.put("a", b"1")
    main.reset()
    repo.create_branch("dev", "main").put("b", b"1")
    outside.mkdir(exist_ok=True)
    for path, body in product(PATHS, BODIES):
        (outside / f"{path.replace('/', '-')}-{body.decode()}").write_bytes(body)
    repo.settings.set_retention(36_500, tree_days=0)
    if seed % 2:
        let_expire(repo)
        repo.settings.set_retention(0, tree_days=1 if seed % 8 == 7 else 0)
    if seed % 4 == 1:
        repo.collect_garbage(grace=NO_GRACE)


def _count(happened: Counter[str], collection: Collection) -> None:
    run = collection.run
    happened += Counter(
        {
            "collections": 1,
            "collections that deleted objects": int(run.objects > 0),
            "collections that deleted tables": int(run.tree_files > 0),
            "objects deleted": run.objects,
            "tables deleted": run.tree_files,
            "commits that lost their trees": run.trees,
        }
    )


def _judge(repo: Repository, promised: list[str]) -> None:
    """Check the referenced objects, and afterwards the absence of all others."""
    check(repo)
    check_trees(repo)
    for commit_id in promised:
        _require(repo.resolve(commit_id).id == commit_id, f"the commit {commit_id} is lost")
    repo.collect_garbage(grace=NO_GRACE)
    check(repo)
    check_trees(repo)
    # Covered staged objects count too; after the resets, all referenced objects are visible.
    for each in repo.branches(hidden=True):
        each.reset()
    repo.collect_garbage(grace=NO_GRACE)
    _require(check(repo) == objects_of(repo), "a collection left garbage when all was quiet")
    _require(named_tables(repo) == tables_of(repo), "a collection left tables when all was quiet")


def objects_of(repo: Repository) -> set[str]:
    """Return the keys of all objects in the namespace."""
    root = namespace_of(repo)
    return {str(each.relative_to(root)) for each in (root / "data").rglob("*") if each.is_file()}


def _require(condition: object, otherwise: str) -> None:
    if not condition:
        raise ViolationError(otherwise)


def run_schedules(seeds: Iterable[int]) -> Counter[str]:
    """Run schedules in a folder, in memory if possible; return counts of events."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() else None
    happened = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="sparklake-", dir=place) as folder:
        for seed in seeds:
            try:
                happened += run_schedule(seed, Path(folder))
            except BaseException as error:
                raise ViolationError(f"schedule {seed}: {error}") from error
    return happened


def main() -> None:
    """Run schedules, and print counts of events."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--schedules", type=int, default=1, help="the number of seeds")
    options = parser.parse_args()
    start = time.perf_counter()
    happened = run_schedules(range(options.seed, options.seed + options.schedules))
    seconds = time.perf_counter() - start
    print(f"{options.schedules:,} schedules in {seconds:.0f} s, 0 violations")
    print(*(f"  {name}: {times:,}" for name, times in sorted(happened.items())), sep="\n")


if __name__ == "__main__":
    main()
