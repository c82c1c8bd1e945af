"""Columns of batches, as every supported pyarrow has them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparklake.graveler.arrow_batches import is_text, with_column

BATCH = pa.record_batch(
    [pa.array([1, 2]), pa.array(["a", "b"])],
    schema=pa.schema([pa.field("n", pa.int64(), False), pa.field("t", pa.string())], {b"k": b"v"}),
)


def test_a_new_column_replaces_one_of_the_same_name() -> None:
    changed = with_column(BATCH, "n", pa.array([3.5, 4.5]))
    assert changed.to_pydict() == {"n": [3.5, 4.5], "t": ["a", "b"]}
    assert changed.schema.metadata == {b"k": b"v"}
    same_field = with_column(BATCH, BATCH.schema.field("n"), pa.array([3, 4]))
    assert same_field.schema.equals(BATCH.schema, check_metadata=True)


def test_a_column_with_a_new_name_is_appended() -> None:
    wider = with_column(BATCH, pa.field("x", pa.bool_(), False), pa.array([True, False]))
    assert wider.schema.names == ["n", "t", "x"]
    assert not wider.schema.field("x").nullable
    assert BATCH.schema.names == ["n", "t"]


def test_a_column_of_a_different_length_is_rejected() -> None:
    with pytest.raises((pa.ArrowInvalid, ValueError)):
        with_column(BATCH, "n", pa.array([1])).validate(full=True)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(pa.string(), True), (pa.large_string(), True), (pa.binary(), False), (pa.null(), False)],
)
def test_only_string_types_are_text(kind: pa.DataType, expected: bool) -> None:
    assert is_text(kind) is expected
