"""Log, show and merge bases: against brute force, and what they cost."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import islice, product
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from benchmarks.counting import counted_round_trips, recorded_reads
from sparklake import Commit, Lake, Repository
from sparklake.errors import InvalidInputError, RefNotFoundError
from sparklake.testing.lakes import commit_all, put_all
from tests.support.cases import for_each
from tests.support.graphs import START, grow, insert
from tests.support.lakes import stage_sizes

HOUR = 60 * 60


@pytest.fixture
def repo(any_lake: Lake, folder: Path) -> Repository:
    return new_repository(any_lake, folder)


def new_repository(lake: Lake, folder: Path) -> Repository:
    return lake.create_repository(f"r-{uuid4().hex}", str(folder / "history"), range_records=4)


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


# --- log ------------------------------------------------------------------------------------------


@dataclass
class Shape:
    """A random history, whose clocks are wrong, with the first commit under it."""

    commits: dict[str, Commit]
    names: list[str]

    def log(self, start: str, asked: dict[str, Any]) -> list[str] | None:
        """Is a log as one would write it with all commits at hand; None where it must fail."""
        since = asked.get("since")
        found: set[str] = set()
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            if since is None or self.date(name) >= since - timedelta(days=1):
                waiting += self.parents(name)[: 1 if asked.get("first_parent") else None]
        order = sorted(found, key=self.place)
        stop_at, after = asked.get("stop_at"), asked.get("after")
        if stop_at:
            if since is None and stop_at not in order:
                return None
            order = [name for name in order if self.place(name) <= self.place(stop_at)]
        if after:
            if since is None and after not in order:
                return None
            order = [name for name in order if self.place(name) > self.place(after)]
        return [
            name
            for name in order
            if not (since and self.date(name) < since)
            and not (asked.get("until") and self.date(name) > asked["until"])
            and not (asked.get("no_merges") and len(self.parents(name)) > 1)
            and not (asked.get("grep") and asked["grep"] not in name)
        ][: asked.get("limit")]

    def date(self, name: str) -> datetime:
        return moment(self.commits[name].creation_date)

    def parents(self, name: str) -> list[str]:
        return [self.of(each) for each in self.commits[name].parents]

    def of(self, commit_id: str) -> str:
        return next(name for name, each in self.commits.items() if each.id == commit_id)

    def place(self, name: str) -> tuple[int, int, str]:
        each = self.commits[name]
        return -each.generation, -each.creation_date, each.id


def random_shape(repo: Repository, chance: random.Random) -> Shape:
    history: dict[str, list[str]] = {"c0": []}
    for number in range(1, 24):
        latest = [*history][-5:]
        wanted = chance.choice((1, 1, 1, 2, 2, 3))
        history[f"c{number}"] = chance.sample(latest, min(len(latest), wanted))
    dates = {
        name: START + HOUR * (6 * at + chance.randint(-30, 30)) for at, name in enumerate(history)
    }
    # As squash merges of lakeFS do.
    skipped = {name: chance.choice((0, 0, 0, 0, 0, 1, 9, 1_000)) for name in history}
    return Shape(grow(repo, history, dates, skipped), [*history])


def random_options(chance: random.Random, names: list[str]) -> dict[str, Any]:
    early, late = sorted(START + HOUR * chance.randint(-30, 180) for _ in "ab")
    options = {
        "limit": chance.randint(1, 25),
        "after": chance.choice(names[-8:]),
        "since": moment(early),
        "until": moment(late) + timedelta(milliseconds=chance.choice((0, 1, 999))),
        "stop_at": chance.choice(names[:16]),
        "first_parent": True,
        "no_merges": True,
        "grep": chance.choice(("1", "c2")),
    }
    return {name: each for name, each in options.items() if chance.random() < 0.35}


def test_logs_are_those_of_brute_force(repo: Repository) -> None:
    chance = random.Random(11)
    shape = random_shape(repo, chance)
    refused = 0
    for _ in range(600):
        start = chance.choice(shape.names[-6:])
        asked = random_options(chance, shape.names)
        expected = shape.log(start, asked)
        if expected is not None:
            assert [each.message for each in repo.log(start, **asked)] == expected, asked
        elif "limit" not in asked:  # which may end the log before
            with pytest.raises(RefNotFoundError, match="does not contain"):
                list(repo.log(start, **asked))
            refused += 1
    assert refused > 20


def test_a_log_filters_by_committer_message_and_metadata(repo: Repository) -> None:
    for number, committer in enumerate(("Ana <ana@x.io>", "Bo", "ana")):
        metadata = {"job": f"j{number}", **({"ticket": "12"} if number else {})}
        repo.branch("main").commit(
            f"Fix tax {number}\n\nof (all) orders", committer, metadata, allow_empty=True
        )

    def messages(**asked: Any) -> str:
        return "".join(each.message[8:9] for each in repo.log("main", **asked))

    assert messages(author="ANA") == "20"
    assert messages(author="^ana$") == "2"
    assert messages(grep=r"tax [01]\n\nof \(all") == "10"
    assert messages(metadata={"ticket": None}) == "21"
    assert messages(metadata={"ticket": "12", "job": "j1"}) == "1"
    assert messages(author="ana", grep="fix", limit=1) == "2"
    assert messages(metadata={"ticket": "1"}) == ""
    for name in ("author", "grep"):
        with pytest.raises(InvalidInputError, match=f"{name} '\\(' is not a regular expression"):
            repo.log("main", **{name: "("})  # type: ignore[arg-type]


def test_a_log_goes_on_page_by_page(repo: Repository) -> None:
    shape = random_shape(repo, random.Random(12))
    whole = [each.message for each in repo.log("c23")]
    for size, first_parent in product((1, 3, 7), (False, True)):
        pages: list[str] = []
        after = None
        while page := list(repo.log("c23", size, after, first_parent=first_parent)):
            pages += [each.message for each in page]
            after = page[-1].id
        assert pages == shape.log("c23", {"first_parent": first_parent})
        assert first_parent or pages == whole


def test_an_ancestor_whose_clock_was_ahead_is_not_lost(repo: Repository) -> None:
    history: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["d"]}
    hours = {"a": 0, "b": 90, "c": 77, "d": 101, "e": 95}
    grow(repo, history, {name: START + HOUR * each for name, each in hours.items()})

    def since(hour: int) -> list[str]:
        return [each.message for each in repo.log("e", since=moment(START + HOUR * hour))]

    assert since(100) == ["d"]
    assert since(90) == ["e", "d", "b"]
    assert since(78) == ["e", "d", "b"]
    assert since(-1) == ["e", "d", "c", "b", "a"]
    # c is more than a day older than this: nobody looks behind it.
    assert since(102) == []
    assert list(repo.log("e", since=moment(START * 2))) == []


def test_since_looks_no_further_than_a_day(repo: Repository) -> None:
    grow(repo, {"a": [], "b": ["a"], "c": ["b"]}, {"a": START, "b": START - 100 * HOUR, "c": START})
    assert [each.message for each in repo.log("c", since=moment(START - HOUR))] == ["c"]
    assert [each.message for each in repo.log("c", since=moment(START - 76 * HOUR))] == ["c", "a"]


@for_each(
    ("asked", "error", "words"),
    [
        ({"limit": 0}, InvalidInputError, "0 commits is invalid: choose 1 to"),
        ({"limit": -1}, InvalidInputError, "-1 commits is invalid: choose 1 to"),
        ({"since": datetime(2024, 1, 1)}, InvalidInputError, "since .* has no time zone"),  # noqa: DTZ001 - to be refused
        ({"until": datetime(2024, 1, 1)}, InvalidInputError, "until .* has no time zone"),  # noqa: DTZ001 - to be refused
        ({"since": moment(2), "until": moment(1)}, InvalidInputError, "swap the two"),
        ({"after": "nope"}, RefNotFoundError, "no branch, tag or commit 'nope'"),
        ({"stop_at": "main~9"}, RefNotFoundError, "goes back beyond the first"),
        ({"after": "main~x"}, InvalidInputError, "not a ref"),
        ({"stop_at": "main$"}, InvalidInputError, "means staged changes"),
    ],
)
def test_what_a_log_cannot_be_asked(
    repo: Repository, asked: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        repo.log("main", **asked)


# --- show -----------------------------------------------------------------------------------------


def test_show_counts_what_differs_from_the_first_parent(repo: Repository) -> None:
    main = repo.branch("main")
    first = repo.show("main")
    assert (first.commit, first.added, first.removed, first.changed) == (main.head, 0, 0, 0)
    commit_all(main, {f"k/{at:02}": b"1" for at in range(40)}, "base")
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"k/00": b"22", "new": b"1", "k/01": None, "k/02": None}, "dev")
    commit_all(main, {"other": b"1"}, "main")
    repo.merge("dev", "main")
    expected = {
        "main": (1, 2, 1),
        "main^2": (1, 2, 1),
        "main~1": (1, 0, 0),
        "dev~1": (40, 0, 0),
        "dev@": (1, 2, 1),
    }
    for ref, counts in expected.items():
        found = repo.show(ref)
        assert found.commit == repo.resolve(ref)
        assert (found.added, found.removed, found.changed) == counts, ref
    emptied = repo.create_branch("emptied", "main")
    emptied.delete_prefix("")
    emptied.commit("all gone")
    assert repo.show("emptied").removed == 40


def test_show_reads_only_what_both_have_and_differs(repo: Repository) -> None:
    main = repo.branch("main")
    stage_sizes(main, {f"k/{at:03}": 1 for at in range(200)})
    main.commit("base")
    put_all(main, {"k/100": b"22", "k/007": None})
    main.commit("two")
    repo = Repository(repo._context)
    shown: set[str] = set()
    with recorded_reads() as reads:
        found = repo.show("main~1")
        assert (found.added, found.removed, found.changed) == (200, 0, 0)
        shown |= {*reads} & {each.id for each in repo.tree("main~1").ranges}
    assert shown == set()
    with recorded_reads() as reads:
        found = repo.show("main")
        assert (found.added, found.removed, found.changed) == (0, 1, 1)
    sides = [{each.id for each in repo.tree(ref).ranges} for ref in ("main~1", "main")]
    assert {*reads} & (sides[0] | sides[1]) <= sides[0] ^ sides[1]


# --- merge bases ----------------------------------------------------------------------------------


def test_merge_bases_of_a_criss_cross(repo: Repository) -> None:
    commits = grow(
        repo, {"a": [], "l": ["a"], "r": ["a"], "x": ["l", "r"], "y": ["r", "l"], "alone": []}
    )
    both = sorted([commits["l"], commits["r"]], key=lambda each: each.id)
    assert repo.merge_bases("x", "y") == repo.merge_bases("y", "x") == both
    assert repo.merge_base("x", "y") == both[0]
    assert repo.merge_bases("x", "l") == [commits["l"]]
    assert repo.merge_bases("x", "x~0") == [commits["x"]]
    assert repo.merge_bases("x", "alone") == []
    with pytest.raises(RefNotFoundError, match="no common ancestor"):
        repo.merge_base("x", "alone")


def test_merge_bases_are_those_of_brute_force(repo: Repository) -> None:
    chance = random.Random(13)
    shape = random_shape(repo, chance)

    def ancestors(name: str) -> set[str]:
        return {*(shape.log(name, {}) or [])}

    for _ in range(100):
        left, right = chance.choices(shape.names, k=2)
        common = ancestors(left) & ancestors(right)
        above = {each for other in common for each in ancestors(other) - {other}}
        best = sorted(common - above, key=lambda each: (shape.place(each)[0], shape.place(each)[2]))
        assert [each.message for each in repo.merge_bases(left, right)] == best


# --- what it costs --------------------------------------------------------------------------------


@pytest.fixture(
    scope="module", params=[30_000, pytest.param(1_000_000, marks=pytest.mark.exhaustive)]
)
def long_history(
    request: pytest.FixtureRequest, lake: Lake, dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Lake, str, int]:
    """Is a line of so many commits, one an hour, the last of which is the head of `long`."""
    count: int = request.param
    repo = new_repository(lake, tmp_path_factory.mktemp("long"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            """
            INSERT INTO sparklake.commits
            SELECT %(uid)s, encode(sha256(n::text::bytea), 'hex'),
                   ARRAY[CASE n WHEN 2 THEN %(first)s::text
                         ELSE encode(sha256((n - 1)::text::bytea), 'hex') END],
                   'tester', n::text, %(start)s + 3600 * n::bigint, '', '{}', n
            FROM generate_series(2, %(count)s) AS n
            """,
            {
                "uid": repo.info.uid,
                "first": repo.resolve("main").id,
                "start": START,
                "count": count,
            },
        )
        # As the server's own maintenance would soon: plans for an empty table are slow.
        connection.execute("ANALYZE sparklake.commits")
        ((head,),) = connection.execute(
            "SELECT encode(sha256(%s::text::bytea), 'hex')", [str(count)]
        ).fetchall()
    repo.create_branch("long", head)
    return lake, repo.name, count


def test_a_log_reads_what_it_shows_and_little_more(long_history: tuple[Lake, str, int]) -> None:
    lake, name, count = long_history
    latest = [str(each) for each in range(count, count - 20, -1)]
    for asked, expected in (
        ({"limit": 10}, latest[:10]),
        ({"limit": 10, "first_parent": True, "no_merges": True}, latest[:10]),
        ({"limit": 10, "after": "long~9"}, latest[10:]),
        ({"since": moment(START + HOUR * (count - 14))}, latest[:15]),
        ({"stop_at": "long~4"}, latest[:5]),
        ({"limit": 2, "author": "tester", "grep": "0$"}, latest[::10]),
    ):
        repo = lake.repository(name)
        with counted_round_trips() as answers:
            assert [each.message for each in repo.log("long", **asked)] == expected  # type: ignore[arg-type]
        assert len(answers) <= 8, (asked, answers)
        assert sum(answers) <= 100, (asked, answers)


def test_steps_back_cost_one_round_trip(long_history: tuple[Lake, str, int]) -> None:
    lake, name, count = long_history
    for steps in (65, 1_000, count - 5):
        repo = lake.repository(name)
        with counted_round_trips() as answers:
            assert repo.resolve(f"long~{steps}").message == str(count - steps)
        assert len(answers) <= 4, answers
        assert sum(answers) <= 4, answers
    with pytest.raises(RefNotFoundError, match="goes back beyond the first"):
        repo.resolve(f"long~{count}")


def test_round_trips_grow_with_the_logarithm(long_history: tuple[Lake, str, int]) -> None:
    lake, name, count = long_history
    repo = lake.repository(name)
    with counted_round_trips() as answers:
        assert len(list(islice(repo.log("long"), 20_000))) == 20_000
    assert len(answers) <= 20, answers
    repo = lake.repository(name)
    with counted_round_trips() as answers:
        base = repo.merge_base("long", f"long~{10_000}")
    assert base.message == str(count - 10_000)
    assert len(answers) <= 20, answers


def test_branches_that_part_and_merge_are_read_about_once(
    lake: Lake, dsn: str, folder: Path
) -> None:
    """Feature branches from far back, and lines that stay apart for long: all are read together."""
    chance, repo = random.Random(14), new_repository(lake, folder)
    history: dict[str, list[str]] = {"root": []}
    main, apart = ["root"], ["root"] * 10
    while len(history) < 6_000:
        tip = main[-chance.randint(1, min(200, len(main)))]
        for _ in range(chance.randint(1, 30)):
            name = f"c{len(history)}"
            history[name], tip = [tip], name
        name = f"c{len(history)}"
        history[name] = [main[-1], tip]
        main.append(name)
        for at, each in enumerate(apart):
            apart[at] = f"c{len(history)}"
            history[apart[at]] = [each]
    history["top"] = [main[-1], *apart]
    commits = insert(dsn, repo, history)
    repo.create_branch("top", commits["top"].id)
    for do, trips, rows in (
        (lambda repo: list(repo.log("top", 10)), 4, 2_500),
        (lambda repo: list(repo.log("top")), 12, 7_000),
        (lambda repo: list(repo.log("top", first_parent=True)), 12, 7_000),
        (lambda repo: repo.merge_bases(commits[main[-1]].id, commits[apart[0]].id), 12, 7_000),
        (lambda repo: repo.merge_bases(commits[main[-2]].id, commits[main[-9]].id), 8, 3_500),
    ):
        fresh = lake.repository(repo.name)
        with counted_round_trips() as answers:
            do(fresh)
        assert len(answers) <= trips, answers
        assert sum(answers) <= rows, answers
    assert len(list(repo.log("top"))) == len(history)
