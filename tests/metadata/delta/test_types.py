"""The common type of two columns."""

from __future__ import annotations

from typing import Any

from sparklake.metadata.union.types import common_type
from tests.support.cases import for_each


def struct(**fields: Any) -> dict[str, Any]:
    columns = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in fields.items()
    ]
    return {"type": "struct", "fields": columns}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def table(kind: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


WIDER = [
    ("byte", "short"),
    ("short", "long"),
    ("integer", "long"),
    ("integer", "double"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
    ("decimal(10,2)", "decimal(14,4)"),
    ("decimal(10,2)", "decimal(12,2)"),
    ("integer", "decimal(10,0)"),
    ("long", "decimal(20,0)"),
    (struct(a="integer"), struct(a="integer", b="string")),
    (struct(a="integer"), struct(a="long")),
    (array(struct(a="integer")), array(struct(a="integer", b="integer"))),
    (table(struct(a="float")), table(struct(a="double"))),
]


@for_each(("narrow", "wide"), WIDER)
def test_a_wider_type_is_the_common_type(narrow: Any, wide: Any) -> None:
    assert common_type(narrow, wide) == wide
    assert common_type(wide, narrow) == wide
    assert common_type(array(narrow), array(wide)) == array(wide)


@for_each(
    ("one", "other"),
    [
        ("long", "double"),
        ("integer", "float"),
        ("integer", "string"),
        ("date", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("decimal(10,2)", "decimal(11,4)"),
        ("long", "decimal(18,0)"),
        ("integer", "decimal(10,2)"),
        (struct(a="long"), struct(a="double")),
        (array("integer"), "integer"),
        (table("long"), array("long")),
    ],
)
def test_some_types_have_no_common_type(one: Any, other: Any) -> None:
    assert common_type(one, other) is common_type(other, one) is None


def test_a_common_struct_has_the_fields_of_both() -> None:
    both = common_type(struct(a="long", x="byte"), struct(A="integer", y="date"), str.lower)
    assert both == struct(a="long", x="byte", y="date")
