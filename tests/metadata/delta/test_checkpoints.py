"""Checkpoints of every kind are read as the same actions, and rewritten in their own form."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklake.errors import CorruptFileError
from sparklake.metadata.delta.checkpoints import (
    adds_in,
    checkpoint_parts,
    fields_in,
    rewritten_checkpoint,
)

_TEXT = pa.string()
_VECTOR = pa.struct([("storageType", _TEXT), ("pathOrInlineDv", _TEXT)])
_FIELDS = {"path": _TEXT, "size": pa.int64(), "partitionValues": pa.map_(_TEXT, _TEXT)}
_FILES = pa.struct({**_FIELDS, "deletionVector": _VECTOR, "stats_parsed": pa.struct({"n": _TEXT})})
_SIDECAR = pa.struct({"path": _TEXT, "sizeInBytes": pa.int64(), "tags": pa.map_(_TEXT, _TEXT)})
SCHEMA = pa.schema(
    {
        "add": _FILES,
        "remove": pa.struct({"path": _TEXT}),
        "metaData": pa.struct({"id": _TEXT}),
        "sidecar": _SIDECAR,
    }
)
Row = Mapping[str, Any]
INLINE = {"storageType": "i", "pathOrInlineDv": "x"}
TOP: list[Row] = [{"metaData": {"id": "m"}}]
ADDS: list[Row] = [
    {"add": {"path": "a%20b", "size": 1, "partitionValues": {"p": "1"}}},
    {"add": {"path": "c", "size": 2, "partitionValues": {}, "deletionVector": INLINE}},
    {"remove": {"path": "d"}},
]


def in_parquet(rows: Sequence[Row]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), sink)
    return sink.getvalue()


def in_json(rows: Sequence[Row]) -> bytes:
    return "".join(f"{json.dumps(each)}\n" for each in rows).encode()


def sidecar(path: str) -> Row:
    return {"sidecar": {"path": path, "sizeInBytes": 1, "tags": {"t": "1"}}}


KINDS: dict[str, dict[str, bytes]] = {
    "classic": {"0.checkpoint.parquet": in_parquet([*TOP, *ADDS])},
    "multi-part": {"0.checkpoint.1.2": in_parquet(TOP), "0.checkpoint.2.2": in_parquet(ADDS)},
    "V2": {"0.checkpoint.u.parquet": in_parquet([*TOP, *ADDS])},
    "V2 in JSON": {"0.checkpoint.u.json": in_json([*TOP, *ADDS])},
    "sidecars": {
        "0.checkpoint.u.parquet": in_parquet([*TOP, sidecar("s 1.parquet"), sidecar("s2.parquet")]),
        "_sidecars/s 1.parquet": in_parquet(ADDS[:1]),
        "_sidecars/s2.parquet": in_parquet(ADDS[1:]),
    },
    "sidecars of JSON": {
        "0.checkpoint.u.json": in_json([*TOP, sidecar("s%201.parquet"), sidecar("s3://b/t/s2")]),
        "_sidecars/s 1.parquet": in_parquet(ADDS[:1]),
        "_sidecars/s2": in_parquet(ADDS[1:]),
    },
}


def names_of(files: Mapping[str, bytes]) -> list[str]:
    return [each for each in files if not each.startswith("_sidecars/")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_checkpoint_kind_has_the_same_actions(kind: str) -> None:
    files = KINDS[kind]
    parts = list(checkpoint_parts(names_of(files), files.__getitem__, "add", "metaData", "sidecar"))

    def adds(names: set[str] | None) -> Iterator[Any]:
        return (each for part in parts for each in adds_in(part, names))

    assert [each["path"] for each in adds(None)] == ["a%20b", "c"]
    assert list(adds({"a b"})) == [ADDS[0]["add"]]
    assert list(adds({"c", "d"})) == [ADDS[1]["add"]]
    assert [each for part in parts for each in fields_in(part, "metaData")] == [{"id": "m"}]
    # Without the column, sidecars are not even read.
    read = {name: files[name] for name in names_of(files)}
    parts = list(checkpoint_parts(names_of(files), read.__getitem__, "metaData"))
    assert [each for part in parts for each in fields_in(part, "metaData")] == [{"id": "m"}]


@pytest.mark.parametrize("kind", KINDS)
def test_every_checkpoint_kind_is_rewritten_in_its_own_form(kind: str, tmp_path: Path) -> None:
    def elsewhere(files: Sequence[dict[str, Any]]) -> None:
        for fields in files:
            fields["path"] = f"s3://there/{fields['path']}"

    files = KINDS[kind]
    copies = rewritten_checkpoint(names_of(files), files.__getitem__, tmp_path, elsewhere, "it")
    assert copies.keys() == files.keys()
    bodies = {name: path.read_bytes() for name, path in copies.items()}
    columns = ("add", "remove", "sidecar")
    parts = list(checkpoint_parts(names_of(files), bodies.__getitem__, *columns))
    adds = [each for part in parts for each in adds_in(part, None)]
    expected = [each["add"] for each in ADDS[:2]]
    assert adds == [{**each, "path": f"s3://there/{each['path']}"} for each in expected]
    removes = [each for part in parts for each in fields_in(part, "remove")]
    assert removes == [{"path": "s3://there/d"}]
    for fields in (each for part in parts for each in fields_in(part, "sidecar")):
        assert fields["sizeInBytes"] == len(bodies[f"_sidecars/{unquote(fields['path'])}"])
        assert fields["tags"] == {"t": "1"}
    for name, body in bodies.items():
        if not name.endswith(".json"):
            assert pq.read_schema(pa.BufferReader(body)) == SCHEMA


def test_nested_sidecars_are_damage(tmp_path: Path) -> None:
    files = {
        "0.checkpoint.u.json": in_json([sidecar("s")]),
        "_sidecars/s": in_parquet([sidecar("s")]),
    }
    with pytest.raises(CorruptFileError, match="has sidecars"):
        rewritten_checkpoint(names_of(files), files.__getitem__, tmp_path, lambda files: None, "it")
