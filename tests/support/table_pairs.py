"""Repositories with a hand-written table log on two branches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparklake import Repository
from sparklake.testing.lakes import memory_lake
from tests.support.delta_desks import refused
from tests.support.written_tables import WrittenTable, add, created


@dataclass(frozen=True)
class Pair:
    """A repository with a table of the files f1 and f2, and a branch beside main."""

    repo: Repository
    main: WrittenTable
    dev: WrittenTable

    def refused(self, words: str, strategy: str | None = None, **more: Any) -> None:
        """Check that the merge raises the previewed conflict and moves no ref."""
        preview = self.repo.preview_merge("dev", "main", strategy, **more)
        with refused(self.repo, words) as raised:
            self.repo.merge("dev", "main", strategy, **more)
        assert preview.unresolved == raised.value.count <= preview.conflict_count


def repository(folder: Path, range_records: int) -> Repository:
    return memory_lake().create_repository(
        "lake", str(folder / "namespace"), range_records=range_records
    )


def parted(folder: Path, range_records: int = 3, *, cleaned: bool = False) -> Pair:
    repo = repository(folder, range_records)
    main = WrittenTable(repo, "main")
    main.change(*created("t"), add("f1"))
    main.change(add("f2"))
    if cleaned:
        main.checkpoint(clean=True)
    repo.branch("main").put("zz", b"1")
    main.commit()
    repo.create_branch("dev", "main")
    return Pair(repo, main, WrittenTable(repo, "dev"))
