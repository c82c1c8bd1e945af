"""A lake on which bad input is tried, and what a case of it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sparklake import Branch, Lake, Repository, SparklakeError
from sparklake.testing.lakes import commit_all

SURROGATE = "not-utf-8-\udcff"
LONG = "x" * 1025


@dataclass(frozen=True)
class Lab:
    """A lake on which every case of the table is tried: none may leave a trace."""

    lake: Lake
    repo: Repository
    folder: Path
    gone: Repository
    """A handle on a repository that is gone by now."""

    @property
    def main(self) -> Branch:
        return self.repo.branch("main")

    def ghost(self, name: str) -> Branch:
        """Return a handle on a branch that is gone by now."""
        return Branch(self.repo._context, name)


def make_lab(lake: Lake, folder: Path) -> Lab:
    for name in ("source", "empty"):
        (folder / name).mkdir()
    (folder / "source" / "file").write_bytes(b"file")
    repo = lake.create_repository("lab", str(folder / "lab" / "namespace"), range_records=2)
    (folder / "link").symlink_to(folder / "lab" / "namespace")
    main = repo.branch("main")
    commit_all(main, {f"d/{number}": b"%d" % number for number in range(9)}, "base")
    dev = repo.create_branch("dev", "main")
    repo.create_branch("dirty", "main").put("staged", b"staged")
    commit_all(dev, {"d/1": b"theirs"}, "theirs")
    commit_all(main, {"d/1": b"ours"}, "ours")
    repo.create_tag("v1", "main")
    for number in range(17):  # more than there are hex digits: two ids begin alike
        main.commit(f"empty {number}", allow_empty=True)
    commit_all(repo.create_branch("new", "main"), {"n": b"new"}, "new")
    repo.create_branch("merged", "main")
    repo.merge("new", "merged")
    repo.create_branch("still", "main")
    gone = lake.create_repository("gone", str(folder / "gone"))
    lake.delete_repository("gone")
    return Lab(lake, repo, folder, gone)


Verb = Callable[[Lab], object]

Case = tuple[str, type[SparklakeError], str, Verb]
"""What it is of its kind, the class of the error, some of its words, and the call."""


def ambiguous(lab: Lab) -> str:
    firsts = Counter(each.id[0] for each in lab.repo.log("main"))
    return firsts.most_common(1)[0][0]
