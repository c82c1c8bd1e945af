"""The history checker accepts serializable histories and rejects each anomaly."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from campaigns.histories.checker import (
    Call,
    HistoryError,
    Recorder,
    UndecidedError,
    calls_of,
    check_history,
    open_journal,
    read_journals,
)
from campaigns.histories.requests import (
    NOTHING,
    UNKNOWN,
    CherryPick,
    Commit,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    DeleteTag,
    HardReset,
    Merge,
    ReadHead,
    ReadLog,
    ReadObject,
    ReadRefs,
    ReadTree,
    Request,
    Reset,
    Revert,
    Stage,
    Undo,
)
from campaigns.histories.serial_model import start
from tests.support.cases import for_each

START = start({"main": ("c0", {"a": "0"}), "dev": ("c0", {"a": "0"})})


def put(branch: str, path: str, body: str | None) -> Stage:
    return Stage(branch, {path: body})


def serial(*calls: tuple[Request, Any]) -> list[Call]:
    """Return calls that run one after the other."""
    return [
        Call("one", request, 2 * at, 2 * at + 1, answer)
        for at, (request, answer) in enumerate(calls)
    ]


def together(*calls: tuple[Request, Any], after: int = 0) -> list[Call]:
    """Return calls that all run concurrently."""
    return [
        Call(f"client-{at}", request, after, after + 100, answer)
        for at, (request, answer) in enumerate(calls)
    ]


def later(call: Call, time: int) -> Call:
    end = None if call.end is None else call.end + time
    return Call(call.client, call.request, call.start + time, end, call.answer)


def unknown(request: Request, at: int) -> Call:
    return Call("dead", request, at)


EDIT = [(put("main", "a", "1"), None), (Commit("main"), "c1")]
EDITS = [*EDIT, (put("main", "a", "2"), None), (Commit("main"), "c2")]

ACCEPTED: dict[str, list[Call]] = {
    "nothing": [],
    "a commit of staged changes": serial(
        *EDIT, (ReadTree("main@"), {"a": "1"}), (ReadHead("main"), "c1"), (ReadHead("dev"), "c0")
    ),
    "a staged change is read before its commit": serial(
        EDIT[0], (ReadObject("main", "a"), "1"), (ReadObject("main@", "a"), "0")
    ),
    "a deletion": serial(
        (put("main", "a", None), None), (ReadObject("main", "a"), None), (Commit("main"), "c1"),
        (ReadTree("main"), {}),
    ),
    "a change without effect": serial(
        (put("main", "a", "0"), None), (Commit("main"), NOTHING),
        (Merge("dev", "main"), "c1"),
    )[:2],
    "concurrent puts in either order": [
        *together((put("main", "a", "1"), None), (put("main", "a", "2"), None)),
        *(later(each, 200) for each in serial((ReadObject("main", "a"), "1"))),
    ],
    "a put during a commit stays staged": [
        Call("one", put("main", "a", "1"), 0, 1, None),
        Call("one", Commit("main"), 2, 20, "c1"),
        Call("two", put("main", "a", "2"), 3, 4, None),
        Call("two", ReadHead("main"), 5, 6, "c0"),
        Call("two", ReadTree("main@"), 21, 22, {"a": "1"}),
        Call("two", ReadTree("main"), 23, 24, {"a": "2"}),
    ],
    "a read during a commit, before or after it": [
        *serial(EDIT[0]), *(later(each, 10) for each in together(
            (Commit("main"), "c1"), (ReadHead("main"), "c0"), (ReadTree("main@"), {"a": "1"}),
        )),
    ],
    "a commit without an answer that happened": [
        *serial(EDIT[0]), unknown(Commit("main"), 3),
        *(later(each, 10) for each in serial(
            (ReadHead("main"), "x"), (ReadLog("main"), ["x", "c0"]), (HardReset("dev", "x"), None),
            (ReadTree("dev"), {"a": "1"}),
        )),
    ],
    "a commit without an answer that never happened": [
        *serial(EDIT[0]), unknown(Commit("main"), 3),
        *(later(each, 10) for each in serial(
            (ReadHead("main"), "c0"), (Reset("main"), None), (ReadTree("main"), {"a": "0"}),
        )),
    ],
    "a put without an answer that happens late": [
        unknown(put("main", "b", "1"), 0),
        *(later(each, 10) for each in serial(
            (ReadTree("main"), {"a": "0"}), (ReadTree("main"), {"a": "0", "b": "1"}),
        )),
    ],
    "a merge": serial(
        (put("dev", "b", "1"), None), (Commit("dev"), "d1"), *EDIT, (Merge("dev", "main"), "m1"),
        (ReadTree("main"), {"a": "1", "b": "1"}), (ReadLog("main"), ["m1", "c1", "c0"]),
    ),
    "a merge of the source as it was at the start": [
        *serial((put("dev", "b", "1"), None), (Commit("dev"), "d1")),
        *(later(each, 10) for each in serial((put("dev", "b", "2"), None))),
        Call("two", Merge("dev", "main"), 9, 40, "m1"),
        Call("one", Commit("dev"), 20, 21, "d2"),
        Call("one", ReadHead("main"), 22, 23, "c0"),
        Call("one", ReadTree("main"), 41, 42, {"a": "0", "b": "1"}),
    ],
    "a conflict with a strategy": serial(
        *EDIT, (put("dev", "a", "2"), None), (Commit("dev"), "d1"),
        (Merge("dev", "main", "source-wins"), "m1"), (ReadTree("main"), {"a": "2"}),
    ),
    "a criss-cross": serial(
        (put("main", "b", "1"), None), (Commit("main"), "c1"),
        (put("dev", "d", "1"), None), (Commit("dev"), "d1"),
        (Merge("d1", "main"), "m1"), (Merge("c1", "dev"), "m2"),
        (put("dev", "b", "2"), None), (Commit("dev"), "d2"),
        (Merge("dev", "main"), "m3"), (ReadTree("main"), {"a": "0", "b": "2", "d": "1"}),
    ),
    "revert and cherry-pick": serial(
        *EDIT, (CherryPick("dev", "c1"), "d1"), (ReadTree("dev"), {"a": "1"}),
        (Revert("main", "c1"), "c2"), (ReadTree("main"), {"a": "0"}),
    ),
    "undo, twice": serial(
        *EDIT, (Undo("main"), "c0"), (ReadHead("main"), "c0"), (Undo("main"), "c1"),
        (ReadHead("main"), "c1"),
    ),
    "names": serial(
        *EDIT, (CreateTag("v1", "main"), None), (CreateBranch("new", "v1"), None),
        (DeleteBranch("main"), None), (ReadRefs(), {"branches": {"dev": "c0", "new": "c1"},
                                                    "tags": {"v1": "c1"}}),
        (DeleteTag("v1"), None), (CreateTag("v1", "dev"), None), (ReadHead("v1"), "c0"),
    ),
    "a hard reset drops staged changes": serial(
        *EDITS, (put("main", "b", "1"), None), (HardReset("main", "c1"), None),
        (ReadTree("main"), {"a": "1"}),
    ),
    "a reset of a prefix": serial(
        (Stage("main", {"x/1": "1", "y/1": "1"}), None), (Reset("main", "x/"), None),
        (ReadTree("main"), {"a": "0", "y/1": "1"}),
    ),
}  # fmt: skip

REFUSED: dict[str, list[Call]] = {
    "an acknowledged put is lost": serial(EDIT[0], (ReadObject("main", "a"), "0")),
    "an acknowledged put is lost by a commit": serial(*EDIT, (ReadTree("main"), {"a": "0"})),
    "an acknowledged commit is lost": serial(*EDIT, (ReadHead("main"), "c0")),
    "an earlier commit is lost by a later one": serial(*EDITS, (ReadLog("main"), ["c2", "c0"])),
    "a lost update of concurrent commits": [
        *serial(EDIT[0], (put("dev", "b", "1"), None), (Commit("dev"), "d1")),
        *(later(each, 10) for each in together(
            (Commit("main"), "c1"), (Merge("d1", "main"), "m1"),
        )),
        *(later(each, 200) for each in serial((ReadTree("main"), {"a": "0", "b": "1"}))),
    ],
    "a commit twice": serial(*EDIT, (ReadLog("main"), ["x", "c1", "c0"])),
    "a head that no request has made": serial(*EDIT, (ReadHead("main"), "x")),
    "a commit without an answer twice": [
        *serial(EDIT[0]), unknown(Commit("main"), 3),
        *(later(each, 10) for each in serial((ReadLog("main"), ["y", "x", "c0"]))),
    ],
    "a body that nobody has written": serial(*EDIT, (ReadObject("main", "a"), "7")),
    "a read that goes backwards": [
        *serial(EDIT[0]), Call("one", Commit("main"), 10, 100, "c1"),
        Call("two", ReadHead("main"), 20, 21, "c1"), Call("two", ReadHead("main"), 22, 23, "c0"),
    ],
    "a read of another client that goes backwards": [
        *serial(EDIT[0]), Call("one", Commit("main"), 10, 100, "c1"),
        Call("two", ReadTree("main@"), 20, 21, {"a": "1"}),
        Call("three", ReadTree("main@"), 22, 23, {"a": "0"}),
    ],
    "a change without an answer that comes and goes": [
        unknown(put("main", "b", "1"), 0),
        *(later(each, 10) for each in serial(
            (ReadObject("main", "b"), "1"), (ReadObject("main", "b"), None),
        )),
    ],
    "half of a staged change": serial(
        (Stage("main", {"b": "1", "c": "1"}), None), (ReadTree("main"), {"a": "0", "b": "1"})
    ),
    "half of a commit": [
        Call("one", Stage("main", {"b": "1", "c": "1"}), 0, 1, None),
        Call("one", Commit("main"), 2, 20, "c1"),
        Call("two", ReadTree("main@"), 3, 4, {"a": "0", "b": "1"}),
    ],
    "a commit without a change that came before it": serial(
        EDIT[0], (put("main", "b", "1"), None), (Commit("main"), "c1"),
        (ReadTree("main@"), {"a": "1"}),
    ),
    "a commit that found nothing": serial(EDIT[0], (Commit("main"), NOTHING)),
    "a commit of nothing": serial((Commit("main"), "c1")),
    "a committed change that is still staged": serial(
        *EDIT, (put("dev", "a", "2"), None), (Commit("dev"), "d1"),
        (Merge("d1", "main", "source-wins"), "m1"), (ReadObject("main", "a"), "1"),
    ),
    "a merge that loses dest's change": serial(
        (put("dev", "b", "1"), None), (Commit("dev"), "d1"), *EDIT, (Merge("dev", "main"), "m1"),
        (ReadTree("main"), {"a": "0", "b": "1"}),
    ),
    "a merge that loses source's change": serial(
        (put("dev", "b", "1"), None), (Commit("dev"), "d1"), *EDIT, (Merge("dev", "main"), "m1"),
        (ReadTree("main"), {"a": "1"}),
    ),
    "a conflict that was not noticed": serial(
        *EDIT, (put("dev", "a", "2"), None), (Commit("dev"), "d1"), (Merge("dev", "main"), "m1")
    ),
    "a merge of a source from before its start": [
        *serial((put("dev", "b", "1"), None), (Commit("dev"), "d1"),
                (put("dev", "b", "2"), None), (Commit("dev"), "d2"),
                (Merge("dev", "main"), "m1"), (ReadObject("main", "b"), "1")),
    ],
    "a merge of nothing": serial(*EDIT, (Merge("dev", "main"), "m1")),
    "changes that come back after a reset": serial(
        EDIT[0], (Reset("main"), None), (ReadObject("main", "a"), "1")
    ),
    "a reset of more than its prefix": serial(
        (Stage("main", {"x/1": "1", "y/1": "1"}), None), (Reset("main", "x/"), None),
        (ReadTree("main"), {"a": "0"}),
    ),
    "an undo of more than one move": serial(*EDITS, (Undo("main"), "c0")),
    "an undo of a move that nobody had seen": serial(
        *EDIT, (Undo("main"), "c0"), (ReadHead("main"), "c1")
    ),
    "a hard reset elsewhere": serial(
        *EDITS, (HardReset("main", "c1"), None), (ReadHead("main"), "c2")
    ),
    "a tag that moves": serial(
        (CreateTag("v1", "main"), None), *EDIT, (ReadHead("v1"), "c1")
    ),
    "two creations of one branch": together(
        (CreateBranch("new", "main"), None), (CreateBranch("new", "dev"), None)
    ),
    "two creations of one tag": together(
        (CreateTag("v1", "main"), None), (CreateTag("v1", "dev"), None)
    ),
    "a branch that comes back": serial(
        (DeleteBranch("dev"), None), (ReadRefs(), {"branches": {"main": "c0", "dev": "c0"},
                                                   "tags": {}})
    ),
    "a branch that disappears": serial((ReadRefs(), {"branches": {"main": "c0"}, "tags": {}})),
    "a branch with the staged changes of its predecessor": serial(
        (put("dev", "b", "1"), None), (DeleteBranch("dev"), None),
        (CreateBranch("dev", "c0"), None), (ReadObject("dev", "b"), "1"),
    ),
    "two commits with one id": serial(
        *EDIT, (put("dev", "a", "1"), None), (Commit("dev"), "c1")
    ),
    "writes of two clients that each miss the other's": [
        *together((put("main", "b", "1"), None), (put("main", "c", "1"), None)),
        *(later(each, 200) for each in together(
            (ReadTree("main"), {"a": "0", "b": "1"}), (ReadTree("main"), {"a": "0", "c": "1"}),
        )),
    ],
}  # fmt: skip


@for_each("name", ACCEPTED)
def test_a_serializable_history_is_accepted(name: str) -> None:
    order = check_history(START, ACCEPTED[name])
    assert {id(each) for each in ACCEPTED[name] if each.end is not None} <= set(map(id, order))


@for_each("name", REFUSED)
def test_an_anomaly_is_rejected(name: str) -> None:
    with pytest.raises(HistoryError, match="none of these fits"):
        check_history(START, REFUSED[name])


def test_the_report_contains_the_first_call_that_does_not_fit() -> None:
    with pytest.raises(HistoryError, match=r"(?s)explains 2, .*ReadHead.*answer='c0'.*main: c1"):
        check_history(START, serial(*EDIT, (ReadHead("main"), "c0")))


def test_a_search_that_takes_too_long_is_undecided() -> None:
    calls = together(*((put("main", "a", str(each)), None) for each in range(12)))
    with pytest.raises(UndecidedError, match="too many"):
        check_history(
            START, [*calls, *(later(e, 200) for e in REFUSED["a commit twice"])], None, 100
        )


# --- random histories -----------------------------------------------------------------------------

STEPS: list[Callable[[Random], Request]] = [
    lambda chance: put("main", chance.choice("ab"), chance.choice("123")),
    lambda chance: put("main", chance.choice("ab"), None),
    lambda _: Reset("main"),
    lambda _: DeleteBranch("dev"),
    lambda chance: CherryPick("main", "c0", chance.choice(["source-wins", "dest-wins"])),
]


def random_history(chance: Random) -> list[Call]:
    """Return a serializable history of one-step calls and reads."""
    state, calls, time = START, [], 0
    for at in range(chance.randint(3, 6)):
        is_read = chance.random() < 0.4
        request = ReadTree(chance.choice(["main", "main@"])) if is_read else None
        request = request or chance.choice(STEPS)(chance)
        answer = request_answer(state, request, at)
        after = request.act(state, None, answer, "")
        if after is None:
            continue
        state, time = after, time + 10
        begin, end = time - chance.randint(0, 15), time + chance.randint(0, 15)
        calls.append(Call(f"client-{at}", request, begin, end, answer))
    return sorted(calls, key=lambda each: each.start)


def request_answer(state: Any, request: Request, at: int) -> Any:
    if isinstance(request, ReadTree):
        branch = state.branches["main"]
        return dict(branch.visible_tree() if request.ref == "main" else branch.head.tree)
    return f"p{at}" if isinstance(request, CherryPick) else None


def is_explained_by_brute_force(calls: list[Call]) -> bool:
    return any(is_order(order) for order in permutations(calls))


def is_order(order: tuple[Call, ...]) -> bool:
    state: Any = START
    for at, call in enumerate(order):
        if any(each.end is not None and each.end < call.start for each in order[at + 1 :]):
            return False
        state = state and call.request.act(state, None, call.answer, "")
    return state is not None


@for_each("seed", range(300))
def test_the_checker_agrees_with_brute_force(seed: int) -> None:
    chance = Random(seed)
    calls = random_history(chance)
    assert check_history(START, calls) is not None
    reads = [at for at, each in enumerate(calls) if each.request.is_read]
    if reads:
        at = chance.choice(reads)
        other = {**calls[at].answer, chance.choice("ab"): chance.choice("123")}
        calls[at] = Call("liar", calls[at].request, calls[at].start, calls[at].end, other)
    try:
        check_history(START, calls)
    except HistoryError:
        assert not is_explained_by_brute_force(calls)
    else:
        assert is_explained_by_brute_force(calls)


# --- recording ------------------------------------------------------------------------------------


class RefusalError(Exception):
    pass


def test_journals_survive_the_death_of_their_writer(tmp_path: Path) -> None:
    ticks = iter(range(100))
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    with open_journal(paths[0]) as first, open_journal(paths[1]) as second:
        one = Recorder("one", first, ticks.__next__)
        two = Recorder("two", second, ticks.__next__)
        assert one.run(EDIT[0][0], lambda: "ignored", answer=lambda _: None) == "ignored"
        with pytest.raises(RefusalError):
            two.run(Commit("dev"), lambda: fail(RefusalError()), refusals=(RefusalError,))
        with pytest.raises(KeyboardInterrupt):
            two.run(Commit("main"), lambda: fail(KeyboardInterrupt()), refusals=(RefusalError,))
        two.begin(ReadTree("main"))
    with paths[1].open("ab") as file:
        file.write(b'{"type":"_Answ')  # It was killed while it wrote.
    calls = read_journals(paths)
    assert calls == [
        Call("one", EDIT[0][0], 0, 1, None),
        Call("two", Commit("main"), 3, None, UNKNOWN),
        Call("two", ReadTree("main"), 4, None, UNKNOWN),
    ]
    assert [each.request for each in check_history(START, calls)] == [EDIT[0][0]]


def test_calls_are_recorded_in_memory() -> None:
    lines: list[Any] = []
    recorder = Recorder("one", lines.append)
    recorder.run(ReadTree("main"), lambda: {"a": "0"})
    (call,) = calls_of(lines)
    assert call.end is not None
    assert call.start <= call.end
    assert check_history(START, [call]) == [call]


def fail(error: BaseException) -> Any:
    raise error
