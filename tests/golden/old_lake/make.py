"""Write a small lake with the sparklake that is on the path: `make.py FOLDER`.

The lake beside this file was written by commit 76ad500, which precedes the first release. To write
one with an older version, run this file in a checkout of it. It makes FOLDER/namespace,
FOLDER/refs.sql (by the pg_dump of the server's version) and FOLDER/expected.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from campaigns.postgres import embedded_home, fresh_database, home_dsn
from sparklake import Repository
from sparklake.testing.lakes import postgres_lake

NAMESPACE = "file:///an-old-namespace"
"""Stands for the namespace in the dump of the refs."""

OBJECTS = {f"data/{number:03}": b"%d" % number for number in range(40)}


def fill(repo: Repository) -> None:
    """Use most verbs, with ranges of few objects, and leave some changes staged."""
    main = repo.branch("main")
    main.put_many(OBJECTS.items())
    main.put("labelled", b"x", {"owner": "ann", "ü": "é"})
    main.commit("Load data", metadata={"run": "1"})
    repo.create_tag("v1", "main")
    dev = repo.create_branch("dev", "main")
    dev.put("data/003", b"changed on dev")
    dev.delete("data/010")
    dev.commit("Change on dev")
    main.put("data/020", b"changed on main")
    changed = main.commit("Change on main")
    repo.merge("dev", "main")
    main.revert(changed.id)
    topic = repo.create_branch("topic", "v1")
    topic.put("new/a", b"a")
    topic.commit("Add on topic")
    topic.put("new/b", b"staged")
    topic.delete("data/001")
    repo.dump_refs()


def described(repo: Repository) -> dict[str, object]:
    """Return what each ref shows, and what is kept of it."""
    refs = {
        name: {
            "commit": (commit := repo.resolve(name)).id,
            "tree": commit.meta_range_id,
            "objects": {
                each.path: [each.checksum, each.size, each.metadata]
                for each in repo.objects(f"{name}@" if name != "v1" else name)
            },
            "log": [each.id for each in repo.log(name)],
        }
        for name in ("main", "dev", "topic", "v1")
    }
    staged = [[each.type.value, each.path] for each in repo.diff_uncommitted("topic")]
    operations = [[each.verb, each.ref, each.to_commit] for each in repo.operations()]
    return {"refs": refs, "staged": staged, "operations": operations}


def main(folder: Path) -> None:
    """Write the lake."""
    folder.mkdir(parents=True, exist_ok=True)
    with embedded_home() as home, home_dsn(home) as server, fresh_database(server) as dsn:
        with postgres_lake(dsn) as lake:
            namespace = folder / "namespace"
            repo = lake.create_repository("lake", str(namespace), range_records=8)
            fill(repo)
            expected = described(repo)
        dumped = subprocess.run(
            ["pg_dump", "--inserts", "--no-owner", "--no-privileges", dsn],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    # psql's own commands and settings of the session go. A message may have blank lines.
    dropped = ("\\", "--", "SET ", "SELECT pg_catalog.set_config")
    kept = [each for each in dumped.splitlines() if not each.startswith(dropped)]
    refs = "\n".join(kept).replace(f"file://{namespace}", NAMESPACE)
    (folder / "refs.sql").write_text(refs + "\n")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
