"""A history checker: does a serial order of requests explain all answers?

Clients record when a request starts, when it ends, and its answer. A history is accepted if the
requests can be put in an order in which each takes effect once, between its start and its end, and
a repository that runs them one at a time gives the same answers. A request without an answer may
have happened at any later time, or never.

    with open_journal(folder / "writer-1.jsonl") as sink:
        recorder = Recorder("writer-1", sink)
        recorder.run(Commit("main"), lambda: branch.commit("c").id, refusals=(ProtectedError,))
    ...
    check_history(start({"main": (head, {})}), read_journals(folder.glob("*.jsonl")))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, Union

import msgspec

from campaigns.histories.requests import ANY_REQUEST, UNKNOWN, Request
from campaigns.histories.serial_model import Fact, Facts, State

T = TypeVar("T")

MOST_STATES = 500_000
"""The number of states after which a search gives up."""


class HistoryError(Exception):
    """No serial order explains a history."""


class UndecidedError(Exception):
    """The search for a serial order was given up."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request and its answer. `end` is None if the client saw no answer."""

    client: str
    request: Request
    start: int
    end: int | None = None
    answer: Any = UNKNOWN


# --- recording ------------------------------------------------------------------------------------


class _Begun(msgspec.Struct, frozen=True, tag=True):
    client: str
    number: int
    at: int
    request: ANY_REQUEST


class _Answered(msgspec.Struct, frozen=True, tag=True):
    client: str
    number: int
    at: int
    answer: Any = None


class _Refused(msgspec.Struct, frozen=True, tag=True):
    client: str
    number: int


Line = Union[_Begun, _Answered, _Refused]  # noqa: UP007  (msgspec reads it on Python 3.10)


@dataclass(slots=True)
class Recorder:
    """A recorder of one client's requests. A refused request must have had no effect.

    All clients of a history share a clock. Each line is passed on before the request starts, so a
    client that is killed leaves a request without an answer.
    """

    client: str
    sink: Callable[[Line], object]
    clock: Callable[[], int] = time.monotonic_ns
    _number: int = 0

    def run(
        self,
        request: Request,
        call: Callable[[], T],
        refusals: tuple[type[BaseException], ...] = (),
        answer: Callable[[T], Any] = lambda value: value,
    ) -> T:
        """Record a call, and return its result. Errors other than `refusals` are no answer."""
        number = self.begin(request)
        try:
            result = call()
        except refusals:
            self.refuse(number)
            raise
        self.answer(number, answer(result))
        return result

    def begin(self, request: Request) -> int:
        """Record the start of a request; return its number."""
        self._number += 1
        self.sink(_Begun(self.client, self._number, self.clock(), request))  # type: ignore[arg-type]
        return self._number

    def answer(self, number: int, answer: Any = None) -> None:
        """Record the answer of a request."""
        self.sink(_Answered(self.client, number, self.clock(), answer))

    def refuse(self, number: int) -> None:
        """Record a request without effect."""
        self.sink(_Refused(self.client, number))


@contextmanager
def open_journal(path: Path) -> Iterator[Callable[[Line], object]]:
    """Return an appender of lines to a file. They survive the death of the process."""
    with path.open("ab", buffering=0) as file:
        yield lambda line: file.write(msgspec.json.encode(line) + b"\n")


def read_journals(paths: Iterable[Path]) -> list[Call]:
    """Return the calls in some journals. A last line without an end counts as not written."""
    decoder = msgspec.json.Decoder(Line)
    return calls_of(
        decoder.decode(line)
        for path in paths
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    )


def calls_of(lines: Iterable[Line]) -> list[Call]:
    """Return the calls of recorded lines by their start, without the refused ones."""
    starts: dict[tuple[str, int], Call] = {}
    for line in lines:
        name = line.client, line.number
        if isinstance(line, _Begun):
            starts[name] = Call(line.client, line.request, line.at)
        elif isinstance(line, _Refused):
            del starts[name]
        else:
            call = starts[name]
            starts[name] = Call(call.client, call.request, call.start, line.at, line.answer)
    return sorted(starts.values(), key=lambda each: each.start)


# --- checking -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """The effective requests as bits, the views of unfinished ones, and the result."""

    done: int
    view: Mapping[int, Any]
    state: State
    order: tuple[Any, ...] = ()

    @property
    def key(self) -> Any:
        return self.done, frozenset(self.view.items()), self.state.key


@dataclass(slots=True)
class _Search:
    calls: Sequence[Call]
    most_states: int
    mandatory: int = 0
    best: _Node | None = None
    _visited: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.mandatory = sum(1 << at for at, each in enumerate(self.calls) if each.end is not None)

    def run(self, state: State) -> list[Call]:
        """Return an order consistent with all calls."""
        waiting = [_Node(0, {}, state)]
        while waiting:
            node = waiting.pop()
            if node.done & self.mandatory == self.mandatory and node.state.explains_commits:
                return [self.calls[each] for each in _numbers(node.order)]
            if node.key in self._visited:
                continue
            self._visited.add(node.key)
            if len(self._visited) > self.most_states:
                raise UndecidedError(f"{len(self.calls)} calls have too many possible orders")
            if self.best is None or node.done.bit_count() > self.best.done.bit_count():
                self.best = node
            waiting.extend(reversed(self._next(node)))
        raise HistoryError(self._report())

    def _next(self, node: _Node) -> list[_Node]:
        """Return the possible next events, the likeliest first.

        A read that fits and teaches nothing can be put here in any order, so it is the only choice.
        """
        nodes: list[_Node] = []
        looks: list[_Node] = []
        for at in self._candidates(node.done):
            for after in self._steps(node, at):
                if self.calls[at].request.is_read and after.state is node.state:
                    return [after]
                (looks if after.done == node.done else nodes).append(after)
        return [*nodes, *looks]

    def _candidates(self, done: int) -> list[int]:
        """Return the possible next calls by their ends; unanswered ones come last."""
        candidates: list[int] = []
        horizon: float = float("inf")
        for at, call in enumerate(self.calls):
            if done >> at & 1:
                continue
            if call.start > horizon:
                break
            candidates.append(at)
            if call.end is not None:
                horizon = min(horizon, call.end)
        candidates = [each for each in candidates if self.calls[each].start <= horizon]
        return sorted(candidates, key=lambda each: _end(self.calls[each]))

    def _steps(self, node: _Node, at: int) -> Iterator[_Node]:
        """Yield the next actions of a call: take effect at once, or only look."""
        request = self.calls[at].request
        if not request.has_look:
            yield from self._acted(node, at, node.state, None)
        elif at in node.view:
            yield from self._acted(node, at, node.state, node.view[at])
        elif looked := request.look(node.state):
            state, view = looked
            yield from self._acted(node, at, state, view)
            yield _Node(node.done, {**node.view, at: view}, state, node.order)

    def _acted(self, node: _Node, at: int, state: State, view: Any) -> Iterator[_Node]:
        call = self.calls[at]
        after = call.request.act(state, view, call.answer, f"?{at}")
        if not after:
            return
        views = {
            each: value
            for each, value in node.view.items()
            if each != at and self.calls[each].request.is_current(after, value)
        }
        yield _Node(node.done | 1 << at, views, after, (node.order, at))

    def _report(self) -> str:
        best = self.best
        if best is None:
            return "the history is empty"
        next_calls = [self.calls[each] for each in self._candidates(best.done)]
        lines = [f"  {each}" for each in next_calls]
        return "\n".join(
            [
                f"No serial order explains {len(self.calls)} calls. One of the longest explains "
                f"{best.done.bit_count()}, and then none of these fits:",
                *lines,
                "The state before them:",
                *(f"  {line}" for line in _shown(best.state)),
            ]
        )


def check_history(
    state: State,
    calls: Iterable[Call],
    commits: Mapping[str, Fact] | None = None,
    most_states: int = MOST_STATES,
) -> list[Call]:
    """Return a serial order of calls consistent with their answers.

    `state` is the repository before the first call. `commits` are all commits after the last call.
    They make the search much faster, and the order must explain exactly these. Calls without an
    answer that did not happen are left out.

    Raises:
        HistoryError: There is no such order. The message names calls that do not fit.
        UndecidedError: The search reaches `most_states` states.
    """
    relevant = [each for each in calls if each.end is not None or not each.request.is_read]
    if commits is not None:
        answered = {each.answer for each in relevant if each.request.makes_commit}
        state = replace(state, facts=Facts(commits, answered))
    return _Search(sorted(relevant, key=lambda each: each.start), most_states).run(state)


def _end(call: Call) -> float:
    return float("inf") if call.end is None else call.end


def _numbers(order: tuple[Any, ...]) -> list[int]:
    numbers = []
    while order:
        order, at = order
        numbers.append(at)
    return numbers[::-1]


def _shown(state: State) -> Iterator[str]:
    for name, branch in sorted(state.branches.items()):
        head = branch.head
        yield f"branch {name}: {state.name_of(head)} {head.tree}, staged {list(branch.layers)}"
    for name, version in sorted(state.tags.items()):
        yield f"tag {name}: {state.name_of(version)}"
