"""Retention: what expires, what is taken then, and every verb that would use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from sparklake import Branch, Commit, Lake, Repository
from sparklake import lake as lakes
from sparklake.errors import ExpiredError, MergeConflictError, MissingFileError
from sparklake.graveler.retention import BranchRetention, Retention
from sparklake.stores.objects.local.store import LocalStore
from sparklake.strategies import Decision, Objects
from sparklake.testing.lakes import commit_all, contents, namespace_of
from sparklake.verbs.base import publish
from tests.support.cases import for_each
from tests.support.interleaved_calls import just_before
from tests.support.lakes import paths, refs_of

pytestmark = pytest.mark.both_stores

if TYPE_CHECKING:
    import pyarrow as pa

NO_GRACE = timedelta()
DAY = 24 * 60 * 60


def objects_of(repository: Repository) -> set[str]:
    """Return the addresses, in the namespace, of all objects that are there."""
    root = namespace_of(repository)
    return {str(each.relative_to(root)) for each in (root / "data").rglob("*") if each.is_file()}


def bodies_of(repository: Repository) -> set[bytes]:
    root = namespace_of(repository)
    return {(root / each).read_bytes() for each in objects_of(repository)}


@contextmanager
def days_ago(days: float) -> Iterator[None]:
    """Let commits be made some days ago."""
    then = int(datetime.now(timezone.utc).timestamp() - days * DAY)
    with (
        mock.patch.object(publish, "now", return_value=then),
        mock.patch.object(lakes, "now", return_value=then),
    ):
        yield


def expired(repo: Repository, ref: str = "main") -> set[str]:
    """Return the messages of the commits of a ref that have expired, but for the first one's."""
    found = {commit.message for commit, has_expired in repo.log(ref).marked() if has_expired}
    return found - {"Repository created"}


def collect(repo: Repository) -> int:
    """Collect all garbage; return how many commits have expired."""
    return repo.collect_garbage(grace=NO_GRACE).run.commits_expired


def old_repository(lake: Lake, folder: Path) -> Repository:
    """Create a repository 50 days ago."""
    with days_ago(50):
        return lake.create_repository("repo", str(folder / "ns"), range_records=2)


def aged_commits(repo: Repository, mark: bytes = b"") -> dict[str, Commit]:
    """Make commits of main, of which a week keeps the last two.

    Each adds an object with a body of its own, or with `mark`.
    """
    main, made = repo.branch("main"), {}
    for age, name in [(40, "old"), (30, "older"), (20, "past"), (10, "held"), (1, "head")]:
        with days_ago(age):
            made[name] = commit_all(
                main, {"a": name.encode(), name: mark or b"1" + name.encode()}, name
            )
    return made


@pytest.fixture
def repo(small_lake: Lake, folder: Path) -> Repository:
    return old_repository(small_lake, folder)


@pytest.fixture
def line(repo: Repository) -> dict[str, Commit]:
    return aged_commits(repo)


@pytest.fixture
def swept(repo: Repository, line: dict[str, Commit]) -> dict[str, Commit]:
    """Is the same commits, of which all but two have expired and lost their objects."""
    repo.settings.set_retention(7)
    assert collect(repo) == 4
    return line


def test_only_what_is_kept_names_objects(any_lake: Lake, folder: Path) -> None:
    with days_ago(50):
        repo = any_lake.create_repository("keeping", str(folder / "ns"), range_records=2)
    main = repo.branch("main")
    for age, body in [(40, b"1"), (30, b"2"), (20, b"3"), (1, b"4")]:
        with days_ago(age):
            commit_all(main, {"a": body, "same": b"same"}, body.decode())
    with days_ago(25):
        repo.create_branch("dev", "main~2").put("a", b"dev")
        repo.branch("dev").commit("d")
    repo.create_tag("v1", "main~3")
    main.put("a", b"staged")
    assert collect(repo) == 0
    before = objects_of(repo)

    repo.settings.set_retention(7, {"dev": 28})
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE).run
    assert (found.objects, found.commits_expired) == (0, 1)

    assert expired(repo) == set()

    repo.delete_tag("v1")
    found = repo.collect_garbage(dry_run=True, grace=NO_GRACE).run
    assert (found.objects, found.commits_expired) == (1, 2)
    assert expired(repo) == set()
    assert objects_of(repo) == before
    made = repo.collect_garbage(grace=NO_GRACE).run
    assert (made.state, made.objects, made.commits_expired) == ("swept", 1, 2)
    assert expired(repo) == {"1"}
    assert bodies_of(repo) == {b"2", b"3", b"4", b"same", b"dev", b"staged"}

    repo.settings.set_retention(7)
    assert collect(repo) == 1
    assert expired(repo) == {"1", "2"}
    assert bodies_of(repo) == {b"3", b"4", b"same", b"dev", b"staged"}
    assert contents(repo, "main") == {"a": b"staged", "same": b"same"}
    assert contents(repo, "dev") == {"a": b"dev", "same": b"same"}


@pytest.mark.usefixtures("healthy_at_end")
def test_log_listings_diffs_and_bases_stay(repo: Repository, swept: dict[str, Commit]) -> None:
    assert expired(repo) == {"old", "older", "past"}
    assert [each.message for each in repo.log("main", 5)] == [
        *("head", "held", "past", "older", "old")
    ]
    assert repo.log("main", 3).to_arrow().column("expired").to_pylist() == [False, False, True]
    assert repo.show("main~2").has_expired
    assert not repo.show("main").has_expired
    assert (repo.show("main~2").added, repo.show("main~2").changed) == (1, 1)
    assert paths(repo, swept["past"].id) == ["a", "old", "older", "past"]
    assert repo.stat("main~2", "a").size == 4
    assert repo.at("main~2").exists("past")
    assert [(row.type.value, row.path) for row in repo.diff("main~3", "main~2")] == [
        *(("changed", "a"), ("added", "past"))
    ]
    assert repo.merge_base("main~3", "main~2").id == swept["older"].id
    assert {row.path: row.commit.message for row in repo.blame("main")}["old"] == "old"
    assert repo.resolve("main~4").id == swept["old"].id


READS: dict[str, Callable[[Repository, str], object]] = {
    "read": lambda repo, ref: repo.read_bytes(ref, "a"),
    "read what is there still": lambda repo, ref: repo.read_bytes(ref, "old"),
    "open": lambda repo, ref: repo.open(ref, "a"),
    "stat to read": lambda repo, ref: repo.stat(ref, "a", require_readable=True),
    "table": lambda repo, ref: repo.read(ref, "t"),
    "view": lambda repo, ref: repo.view(ref, "t"),
    "diff-table left": lambda repo, ref: repo.diff_table(ref, "main", "t", ["k"]),
    "diff-table right": lambda repo, ref: repo.diff_table("main", ref, "t", ["k"]),
}


@for_each("step", ["{}", "main~2", "{}^0"])
@for_each("read", READS)
def test_reading_it_is_refused(
    repo: Repository, swept: dict[str, Commit], read: str, step: str
) -> None:
    with pytest.raises(ExpiredError, match="gc rules show") as raised:
        READS[read](repo, step.format(swept["past"].id))
    assert raised.value.commit_id == swept["past"].id


def test_exporting_it_is_refused(
    repo: Repository, swept: dict[str, Commit], tmp_path: Path
) -> None:
    to = str(tmp_path / "out")
    for ref in ("main~2", swept["old"].id):
        with pytest.raises(ExpiredError):
            repo.export(ref, to)
        with pytest.raises(ExpiredError):
            repo.manifest(ref, to)
    # What it went on from is only compared.
    assert repo.export("main", to, since="main~2").added == 2


VERBS: dict[str, Callable[[Repository, Branch, str], object]] = {
    "branch": lambda repo, main, ref: repo.create_branch("new", ref),
    "tag": lambda repo, main, ref: repo.create_tag("new", ref),
    "hard reset": lambda repo, main, ref: main.hard_reset(ref),
    "cherry-pick": lambda repo, main, ref: main.cherry_pick(ref),
    "restore": lambda repo, main, ref: main.restore(ref, ["a"]),
    "cp": lambda repo, main, ref: main.copy("a", "b", ref),
    "cp -r": lambda repo, main, ref: main.copy("", "b/", ref, recursive=True),
    "copy many": lambda repo, main, ref: main.copy_many([("a", "b")], ref),
    "merge": lambda repo, main, ref: repo.merge(ref, "other"),
    "squash": lambda repo, main, ref: repo.merge(ref, "other", squash=True),
    "merge paths": lambda repo, main, ref: repo.merge(ref, "other", paths=["a"]),
    "preview": lambda repo, main, ref: repo.preview_merge(ref, "other"),
    "plan": lambda repo, main, ref: repo.plan_merge(ref, "other"),
    "rebase": lambda repo, main, ref: repo.branch("other").rebase(ref),
    "revert what came after": lambda repo, main, ref: main.revert("main~1"),
    "revert several": lambda repo, main, ref: main.revert("main", "main~1"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_naming_it_is_refused(repo: Repository, line: dict[str, Commit], verb: str) -> None:
    first = repo.resolve("main~5").id
    commit_all(repo.create_branch("other", first), {"o": b"1"}, "other")
    repo.settings.set_retention(7)
    collect(repo)
    before, main = refs_of(repo), repo.branch("main")
    with pytest.raises(ExpiredError) as raised:
        VERBS[verb](repo, main, line["past"].id)
    assert raised.value.commit_id == line["past"].id
    assert refs_of(repo) == before


def test_moves_back_to_it_are_refused(repo: Repository, line: dict[str, Commit]) -> None:
    main = repo.branch("main")
    main.hard_reset("main~2")
    repo.settings.set_retention(0)
    collect(repo)
    with pytest.raises(ExpiredError) as raised:
        main.undo()
    assert raised.value.commit_id == line["head"].id
    assert main.head == line["past"]
    # Where it was is not kept, but what it is.
    assert expired(repo, line["head"].id) == {"head", "held", "older", "old"}


def test_its_own_commits_that_have_expired_are_not_rebased(
    repo: Repository, line: dict[str, Commit]
) -> None:
    dev = repo.create_branch("dev", "main~4")
    for age, name in [(35, "d1"), (34, "d2"), (1, "d3")]:
        with days_ago(age):
            commit_all(dev, {name: name.encode()}, name)
    repo.settings.set_retention(7)
    collect(repo)
    with pytest.raises(ExpiredError):
        dev.rebase("main")
    assert [each.message for each in dev.cherry_pick("main", strategy="source-wins")] == ["head"]


# --- bases ----------------------------------------------------------------------------------------


def takes_base(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    return ["base"] * conflicts.num_rows


def reads_base(conflicts: pa.RecordBatch, objects: Objects) -> list[Decision]:
    for row in conflicts.to_pylist():
        objects.read(row["base"]["address"])
    return ["source"] * conflicts.num_rows


@pytest.fixture
def apart(repo: Repository) -> Commit:
    """Is the expired base of two branches that have changed an object, and each another one."""
    main = repo.branch("main")
    with days_ago(40):
        base = commit_all(main, {"a": b"0", "b": b"b", "c": b"c", "gone": b"base"}, "base")
    dev = repo.create_branch("dev", "main")
    for age in (30, 1):
        with days_ago(age):
            body = b"%d" % age
            commit_all(main, {"a": b"main" + body, "b": b"main" + body, "gone": None}, "main")
            commit_all(dev, {"a": b"dev" + body, "c": b"dev" + body, "gone": b"dev"}, "dev")
    repo.settings.set_retention(7)
    collect(repo)
    assert bodies_of(repo).isdisjoint({b"0", b"base"})
    assert expired(repo) == {"base"}
    return base


def test_a_base_that_has_expired_tells_records_apart(repo: Repository, apart: Commit) -> None:
    assert repo.merge_base("dev", "main") == apart
    with pytest.raises(MergeConflictError):
        repo.merge("dev", "main")
    assert repo.preview_merge("dev", "main", "source-wins").conflict_count == 2
    repo.merge("dev", "main", "source-wins")
    assert contents(repo, "main") == {"a": b"dev1", "b": b"main1", "c": b"dev1", "gone": b"dev"}


@pytest.mark.parametrize("strategy", [takes_base, reads_base, "union-lines"])
def test_nothing_of_it_is_taken(
    repo: Repository, apart: Commit, strategy: Callable[..., list[Decision]] | str
) -> None:
    before = refs_of(repo)
    rules = {"gone": "source-wins"}
    for verb in (repo.merge, repo.preview_merge):
        with pytest.raises(ExpiredError, match=r"merge base .* has expired.*'a'") as raised:
            verb("dev", "main", strategy, rules=rules)
        assert raised.value.commit_id == apart.id
    assert refs_of(repo) == before


def test_a_base_that_is_kept_is_taken(repo: Repository, apart: Commit) -> None:
    repo.create_branch("fix", "main")
    commit_all(repo.branch("fix"), {"b": b"fix"}, "fix")
    commit_all(repo.branch("main"), {"b": b"changed"}, "changed")
    repo.merge("fix", "main", takes_base)
    assert contents(repo, "main")["b"] == b"main1"


@pytest.mark.usefixtures("healthy_at_end")
@pytest.mark.parametrize("strategy", [None, "source-wins"])
def test_a_delta_log_whose_base_has_gone_is_not_united(
    repo: Repository, strategy: str | None
) -> None:
    """Both sides took the base's last commit out of the log, so that nothing else has it."""
    log = "t/_delta_log/"
    entry, last = f"{log}{0:020}.json", f"{log}{1:020}.json"
    action = (
        b'{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}\n{"metaData": {"id": "t"}}'
    )
    main = repo.branch("main")
    with days_ago(40):
        base = commit_all(main, {entry: action, last: b'{"commitInfo": {}}'}, "base")
    dev = repo.create_branch("dev", "main")
    for branch in (main, dev):
        for age in (30, 1):
            name = branch.name.encode()
            with days_ago(age):
                commit_all(branch, {last: b'{"commitInfo": {"%s": %d}}' % (name, age)}, "later")
    repo.settings.set_retention(7)
    collect(repo)
    before = refs_of(repo)
    for verb in (repo.merge, repo.preview_merge):
        with pytest.raises(ExpiredError, match="expired") as raised:
            verb("dev", "main", strategy)
        assert raised.value.commit_id == base.id
    assert refs_of(repo) == before


@pytest.mark.usefixtures("healthy_at_end")
def test_bases_of_a_criss_cross_may_have_expired(repo: Repository) -> None:
    main = repo.branch("main")
    with days_ago(40):
        commit_all(main, {"a": b"0", "b": b"0", "c": b"0"}, "base")
        dev = repo.create_branch("dev", "main")
        heads = [commit_all(main, {"b": b"1"}, "m").id, commit_all(dev, {"c": b"1"}, "d").id]
        repo.merge(heads[1], "main")
        repo.merge(heads[0], "dev")
    with days_ago(30):
        commit_all(main, {"a": b"m"}, "m2")
        commit_all(dev, {"a": b"d"}, "d2")
    with days_ago(1):
        commit_all(main, {"m": b"m"}, "m3")
        commit_all(dev, {"d": b"d"}, "d3")
    repo.settings.set_retention(7)
    collect(repo)
    assert len(repo.merge_bases("dev", "main")) == 2
    with pytest.raises(ExpiredError):
        repo.merge("dev", "main", takes_base)
    repo.merge("dev", "main", "source-wins")
    assert contents(repo, "main") == {"a": b"d", "b": b"1", "c": b"1", "m": b"m", "d": b"d"}
    collect(repo)
    assert contents(repo, "main") == {"a": b"d", "b": b"1", "c": b"1", "m": b"m", "d": b"d"}


def test_a_commit_that_has_expired_is_reverted_to_a_tree_that_is_kept(
    repo: Repository, line: dict[str, Commit]
) -> None:
    repo.create_tag("kept", "main~3")
    repo.settings.set_retention(7)
    collect(repo)
    assert expired(repo) == {"old", "past"}
    main = repo.branch("main")
    main.revert(line["past"].id, strategy="dest-wins")
    assert "past" not in contents(repo, "main")


# --- beside others --------------------------------------------------------------------------------


@pytest.mark.usefixtures("healthy_at_end")
@pytest.mark.parametrize("staged_elsewhere", [True, False])
def test_a_commit_that_is_made_once_more_is_kept_again(
    repo: Repository, line: dict[str, Commit], staged_elsewhere: bool
) -> None:
    """If its objects were deleted, their ranges are written anew, with the next ids."""
    main = repo.branch("main")
    with days_ago(5):
        made = commit_all(main, {"x": b"x"}, "again")
        if staged_elsewhere:
            repo.create_branch("other", "main~1").restore(made.id, ["x"])
        main.hard_reset("main~1")
        repo.settings.set_retention(0)
        collect(repo)
        assert (b"x" in bodies_of(repo)) == staged_elsewhere
        with pytest.raises(ExpiredError):
            repo.read_bytes(made.id, "x")
        again = commit_all(main, {"x": b"x"}, "again")
    assert (again == made) == staged_elsewhere
    assert ("again" in expired(repo, "main")) is False
    assert repo.read_bytes(again.id, "x") == b"x"
    collect(repo)
    assert contents(repo, "main")["x"] == b"x"


VERBS_BESIDE: dict[str, tuple[str, Callable[[Repository, Branch, str], object]]] = {
    "cherry-pick": ("move", lambda repo, main, ref: main.cherry_pick(ref, strategy="source-wins")),
    "revert": ("move", lambda repo, main, ref: main.revert("main~1", strategy="source-wins")),
    "hard reset": ("move", VERBS["hard reset"]),
    "merge": ("move", VERBS["merge"]),
    "rebase": ("move", VERBS["rebase"]),
    "branch": ("create", VERBS["branch"]),
    "restore": ("drop", VERBS["restore"]),
    "cp": ("add_run", VERBS["cp"]),
    "copy many": ("put", VERBS["copy many"]),
}


@pytest.mark.parametrize("verb", VERBS_BESIDE)
def test_one_that_a_collection_overtakes_is_refused(
    repo: Repository, line: dict[str, Commit], verb: str
) -> None:
    """It began when the commit was there, and must not name what is gone."""
    first = repo.resolve("main~5").id
    commit_all(repo.create_branch("other", first), {"o": b"1"}, "other")
    repo.settings.set_retention(7)
    method, act = VERBS_BESIDE[verb]
    refs = repo._context.refs
    owner = type(refs.branches if method in ("move", "create") else refs.staging)
    collector = repo.collect_garbage
    with just_before(owner, method, lambda: collector(grace=NO_GRACE)), pytest.raises(ExpiredError):
        act(repo, repo.branch("main"), line["past"].id)
    for each in repo.branches():
        assert sorted(contents(repo, each.name)) == paths(repo, each.name)


def test_a_read_that_a_collection_overtakes_says_so(
    repo: Repository, line: dict[str, Commit]
) -> None:
    repo.settings.set_retention(7)
    collector = repo.collect_garbage
    overtaken = just_before(LocalStore, "get_part", lambda: collector(grace=NO_GRACE))
    with overtaken, pytest.raises(ExpiredError):
        repo.read_bytes("main~2", "a")
    root = namespace_of(repo)
    for each in objects_of(repo):
        (root / each).unlink()
    with pytest.raises(MissingFileError):
        repo.read_bytes("main", "a")


@pytest.mark.usefixtures("healthy_at_end")
def test_one_that_died_between_expiry_and_sweep_is_ended(
    repo: Repository, line: dict[str, Commit]
) -> None:
    repo.settings.set_retention(7)
    before = objects_of(repo)
    dies = mock.patch.object(LocalStore, "delete", side_effect=ZeroDivisionError)
    with dies, pytest.raises(ZeroDivisionError):
        repo.collect_garbage(grace=NO_GRACE)
    assert objects_of(repo) == before
    with pytest.raises(ExpiredError):
        repo.create_branch("new", "main~2")
    # Rules that keep more come too late for these.
    repo.settings.clear_retention()
    assert collect(repo) == 0
    assert len(expired(repo)) == 3
    assert contents(repo, "main") == {
        name: b"head" if name == "a" else b"1" + name.encode() for name in ["a", *line]
    }
    assert objects_of(repo) < before


def test_rules_go_into_a_dump_and_marks_do_not(
    small_lake: Lake, repo: Repository, swept: dict[str, Commit], folder: Path
) -> None:
    rules = repo.settings.set_retention(7, {"release-*": 90, "dev": 1})
    assert rules == Retention(7, (BranchRetention("release-*", 90), BranchRetention("dev", 1)))
    repo.dump_refs()
    small_lake.delete_repository("repo")
    small_lake.restore_repository("repo", str(folder / "ns"))
    heir = small_lake.repository("repo")
    assert heir.settings.get() == replace(heir.settings.get(), retention=rules)
    assert expired(heir) == set()
    with pytest.raises(MissingFileError):
        heir.read_bytes("main~2", "a")
    collect(heir)
    assert len(expired(heir)) == 3
    with pytest.raises(ExpiredError):
        heir.read_bytes("main~2", "a")
