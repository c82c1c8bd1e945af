"""The size of the ref store: python -m benchmarks.postgres_size.

Rows and bytes of the embedded Postgres for each commit, staged object, move of a branch, branch,
tag and once key. Bytes are those of tables, indexes and long values. *Compact* is after VACUUM
FULL, *as written* is before it, with the rows that commits and moves have left behind.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

import sparklake
from benchmarks import data
from benchmarks.report import output_file
from sparklake.stores.embedded import embedded_dsn

RESULT = Path(__file__).parent / "results" / "postgres-size.md"
KEY = "orders/country=DE/day=2026-07-{:02}/part-{:05}.snappy.parquet"
COLUMNS = ("what", "number", "rows each", "bytes each, compact", "bytes each, as written")

Act = Callable[["sparklake.Repository", int], None]


@dataclass(frozen=True)
class Sizes:
    """Rows and bytes of the whole schema."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Cost:
    """The rows and bytes that one of many things has added."""

    what: str
    number: int
    rows: float
    compact: float
    written: float


def main() -> None:
    """Measure each thing, and write the table and its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, dest="number", help="of each thing")
    parser.add_argument("--objects", type=int, default=100_000, help="in the repository")
    parser.add_argument("--folder", type=Path, help="where the lake is made")
    parser.add_argument("--table", type=output_file, default=str(RESULT))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sizes-", dir=args.folder) as folder:
        costs = list(measured(Path(folder), args.number, args.objects))
        server = server_version(Path(folder) / "home")
    table = "\n".join(_table(costs, server, args.number, args.objects))
    args.table.write_text(f"{table}\n", encoding="utf-8")
    rows = [asdict(each) for each in costs]
    args.table.with_suffix(".json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print(table)


def measured(folder: Path, number: int, objects: int) -> Iterator[Cost]:
    """Yield the cost of each thing."""
    with sparklake.connect(home=folder / "home", engine="local") as lake:
        server = embedded_dsn(folder / "home")
        try:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                repo = lake.create_repository("sizes", str(folder / "namespace"))
                base = pa.Table.from_batches(data.entries(objects))
                repo.branch("main").stage(base)
                repo.branch("main").commit("base")
                for what, count, act in things(base, number):
                    yield cost_of(connection, repo, what, count, act)
        finally:
            server.release()


def things(base: pa.Table, number: int) -> Iterator[tuple[str, int, Act]]:
    """Yield what to measure, how often, and the function that does it that often."""
    # Each of these commits writes nearly the whole tree again.
    some = max(number // 50, 1)
    yield "commit of 1 object", number, commits_of_one
    yield "commit of 1% of the objects, at random places", some, random_commits(base, 100)
    yield "commit of 20% of the objects, at random places", some, random_commits(base, 5)
    yield "staged object, before its commit", number, staged_objects
    yield "move of a branch (operations log)", number, moves
    yield "branch", number, branches
    yield "tag", number, tags
    yield "once key of a tag", number, once_keys


def commits_of_one(repo: sparklake.Repository, number: int) -> None:
    main = repo.branch("main")
    for each in range(number):
        main.put(KEY.format(each % 31, each), b"%d" % each)
        main.commit(f"load part {each}", metadata={"run": f"{each}"})


def random_commits(base: pa.Table, share: int) -> Act:
    """Return a function that commits new checksums of random objects."""
    chance = np.random.default_rng(share)

    def commit(repo: sparklake.Repository, number: int) -> None:
        main = repo.branch("main")
        for each in range(number):
            size = base.num_rows // share
            at = np.sort(chance.choice(base.num_rows, size, replace=False))
            checksums = pa.array([f"{share:04x}{each:04x}{row:024x}" for row in at.tolist()])
            column = base.schema.get_field_index("checksum")
            main.stage(base.take(pa.array(at)).set_column(column, "checksum", checksums))
            main.commit(f"load {each}", metadata={"run": f"{each}"})

    return commit


def staged_objects(repo: sparklake.Repository, number: int) -> None:
    rows = {KEY.format(each % 31, each): b"again %d" % each for each in range(number)}
    repo.branch("main").put_many(rows)


def moves(repo: sparklake.Repository, number: int) -> None:
    branch = repo.create_branch("moving", "main~1")
    for each in range(number):
        branch.hard_reset("main" if each % 2 else "main~2")


def branches(repo: sparklake.Repository, number: int) -> None:
    for each in range(number):
        repo.create_branch(f"load-2026-07-01-{each}", "main~1")


def tags(repo: sparklake.Repository, number: int) -> None:
    for each in range(number):
        repo.create_tag(f"v1.{each}", "main~1")


def once_keys(repo: sparklake.Repository, number: int) -> None:
    for each in range(number):
        repo.create_tag(f"v2.{each}", "main~1", once=f"nightly/tag/2026-07-01/{each}")


def cost_of(
    connection: psycopg.Connection, repo: sparklake.Repository, what: str, number: int, act: Act
) -> Cost:
    compact(connection)
    before = sizes(connection)
    act(repo, number)
    written = sizes(connection)
    compact(connection)
    after = sizes(connection)
    return Cost(
        what,
        number,
        (after.rows - before.rows) / number,
        (after.bytes - before.bytes) / number,
        (written.bytes - before.bytes) / number,
    )


def compact(connection: psycopg.Connection) -> None:
    """Remove dead rows."""
    connection.execute("VACUUM FULL")


def sizes(connection: psycopg.Connection) -> Sizes:
    """Return the rows and bytes of all tables of the schema."""
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'sparklake' ORDER BY tablename"
    ).fetchall()
    rows = total = 0
    for (name,) in tables:
        table = sql.Identifier("sparklake", name)
        (count,) = connection.execute(
            sql.SQL("SELECT count(*) FROM {}").format(table)
        ).fetchone() or (0,)
        (size,) = connection.execute(
            "SELECT pg_total_relation_size(%s::regclass)", [f"sparklake.{name}"]
        ).fetchone() or (0,)
        rows, total = rows + count, total + size
    return Sizes(rows, total)


def server_version(home: Path) -> str:
    server = embedded_dsn(home)
    try:
        with psycopg.connect(server.dsn) as connection:
            return str(connection.info.parameter_status("server_version"))
    finally:
        server.release()


def _table(costs: list[Cost], server: str, number: int, objects: int) -> Iterator[str]:
    yield "# The size of the ref store"
    yield ""
    yield (
        f"`python -m benchmarks.postgres_size -n {number} --objects {objects}`: embedded "
        f"PostgreSQL {server}. Bytes of tables, indexes and long values; keys of "
        f"{len(KEY.format(1, 1))} characters."
    )
    yield ""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for each in costs:
        yield (
            f"| {each.what} | {each.number:,} | {each.rows:.2f} | {each.compact:,.0f} "
            f"| {each.written:,.0f} |"
        )


if __name__ == "__main__":
    main()
