"""Decisions of a function about conflicting rows, in tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sparklake.errors import StrategyError
from sparklake.strategies.decisions import Take
from sparklake.strategies.functions import FunctionStrategy

_OF_ROWS = {each.value for each in Take}
_OF_CELLS = _OF_ROWS - {Take.DELETE.value}


def row_decisions(
    strategy: FunctionStrategy, sides: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Append the decisions about the `cells` of each row to batches of conflicting rows.

    Raises:
        StrategyError: The function fails, or returns an invalid decision.
    """
    for batch in batches:
        cells = batch.column("cells")
        rows = pc.list_parent_indices(cells)
        names = pc.list_flatten(cells)
        conflicts = pa.record_batch(
            [
                batch.column("key").take(rows),
                names,
                *(batch.column(side).take(rows) for side in sides),
            ],
            names=["key", "column", *sides],
        )
        decisions = pa.array(_answers(strategy, conflicts), pa.string())
        lists = pa.ListArray.from_arrays(_offsets(cells), decisions)
        yield pa.record_batch([*batch.columns, lists], names=[*batch.schema.names, "decisions"])


def _offsets(cells: pa.ListArray) -> pa.Array:
    lengths = pc.list_value_length(cells)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast("int32")])


def _answers(strategy: FunctionStrategy, conflicts: pa.RecordBatch) -> list[str]:
    if not conflicts.num_rows:
        return []
    try:
        returned = strategy.load()(conflicts)  # type: ignore[call-arg]
        answers = returned.to_pylist() if hasattr(returned, "to_pylist") else list(returned)
    except Exception as error:  # A user's function may raise any error.
        raise _failure(strategy, conflicts, f"failed: {type(error).__name__}: {error}") from error
    if len(answers) != conflicts.num_rows:
        words = f"returned {len(answers)} decisions for {conflicts.num_rows} conflicts"
        raise _failure(strategy, conflicts, words)
    columns = conflicts.column("column").to_pylist()
    for at, (answer, column) in enumerate(zip(answers, columns, strict=True)):
        valid = _OF_ROWS if column is None else _OF_CELLS
        if not isinstance(answer, str) or answer not in valid:
            words = f"decided {answer!r}: it must be one of {', '.join(sorted(valid))}"
            raise _failure(strategy, conflicts.slice(at, 1), words)
    return [Take(each).value for each in answers]


def _failure(strategy: FunctionStrategy, conflicts: pa.RecordBatch, what: str) -> StrategyError:
    keys = ", ".join(map(str, conflicts.column("key")[:3].to_pylist()))
    return StrategyError(
        f"the strategy {strategy.name!r} for rows, called for {keys}, {what}. Correct it, or "
        "choose another one in the rule"
    )
