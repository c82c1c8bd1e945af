"""The text of row strategies, and the tables of their rules."""

from __future__ import annotations

import pickle

import pytest

from sparklake.errors import InvalidInputError
from sparklake.graveler.algebra.changes import Conflict
from sparklake.graveler.algebra.classify import Strategy
from sparklake.strategies import Rows, rows
from sparklake.strategies.choosing import named_strategy, parse_resolution, rule_pair
from sparklake.strategies.judging import Judge
from sparklake.strategies.row_strategy import Newest, key_in
from tests.support.cases import for_each

TEXTS = [
    ("rows", "rows()"),
    ("rows()", "rows()"),
    ("rows(order_id)", "rows(order_id)"),
    ("rows(a,b, columns = TRUE)", "rows(a, b, columns=true)"),
    ("rows(id, then=newest(updated_at))", "rows(id, then=newest(updated_at))"),
    ("rows(id, columns=false, then=source-wins)", "rows(id, then=source-wins)"),
    ("rows(then=dest-wins)", "rows(then=dest-wins)"),
    ("rows(id, then=os.path:join)", "rows(id, then=os.path:join)"),
    ("rows(`a, b`, `c``d`, `columns=true`)", "rows(`a, b`, `c``d`, `columns=true`)"),
    ("rows(order id, then=newest(`x)y`))", "rows(order id, then=newest(`x)y`))"),
]


@for_each(("text", "name"), TEXTS)
def test_the_text_of_a_row_strategy_round_trips(text: str, name: str) -> None:
    strategy = named_strategy(text)
    assert isinstance(strategy, Rows)
    assert strategy.name == name
    assert named_strategy(name) == strategy
    assert pickle.loads(pickle.dumps(strategy)) == strategy


@for_each(
    ("text", "why"),
    [
        ("rows(a, a)", "once: a, a"),
        ("rows(a,)", "ends with a comma"),
        ("rows(a, , b)", "'' is not the name"),
        ("rows(a=b)", "'a=b' is not the name"),
        ("rows(a, columns=yes)", "true or false, not 'yes'"),
        ("rows(a, then=newest-wins)", "'newest-wins' does not resolve"),
        ("rows(a, then=rows(b))", "does not resolve"),
        ("rows(a, then=x, then=y)", "'then' is given twice"),
        ("rows(a))", "needs backticks"),
    ],
)
def test_invalid_text_is_rejected_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why.replace("(", r"\(")):
        named_strategy(text)


def test_the_python_form_equals_the_text() -> None:
    assert rows("a", "b", columns=True) == named_strategy("rows(a, b, columns=true)")
    assert rows("id", then="newest(t)") == Rows(("id",), then=Newest("t"))
    assert rows("id", then=Strategy.SOURCE_WINS) == named_strategy("rows(id, then=source-wins)")
    assert key_in({"sparklake.key": "a, `b,c`"}) == ("a", "b,c")
    with pytest.raises(InvalidInputError, match="once"):
        rows("a", "a")


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("day=1/**=source-wins", ("day=1/**", "source-wins")),
        ("a(b=c)/**=source-wins", ("a(b=c)/**", "source-wins")),
        ("tables/t/=rows(id, then=source-wins)", ("tables/t/", "rows(id, then=source-wins)")),
        ("day=1/=rows(a, columns=true)", ("day=1/", "rows(a, columns=true)")),
        ("t/=rows", ("t/", "rows")),
        ("rows(a=b)/**=none", ("rows(a=b)/**", "none")),
    ],
)
def test_a_rule_is_split_before_its_strategy(text: str, pair: tuple[str, str]) -> None:
    assert rule_pair(text) == pair


def test_a_row_strategy_requires_a_table() -> None:
    for strategy in ("rows(id)", rows("id")):
        with pytest.raises(InvalidInputError, match=r"use it in a rule, such as 'tables/orders/"):
            parse_resolution(strategy)


def test_a_rule_with_a_row_strategy_selects_table_folders() -> None:
    resolution = parse_resolution(
        "source-wins",
        [("a/x/**", "dest-wins"), ("a/*/", "rows(id)"), ("t", rows("k")), ("**/*.csv", "none")],
    )
    assert (
        resolution.label
        == "a/x/**=dest-wins; a/*/=rows(id); t=rows(k); **/*.csv=none; else source-wins"
    )
    assert resolution.rows(b"a/y/") == Rows(("id",))
    assert resolution.rows(b"t/") == Rows(("k",))
    assert [resolution.rows(each) for each in (b"a/", b"a/x/", b"a/y/z/", b"")] == [None] * 4
    assert resolution.row_tables == [b"t/"]
    assert not resolution.settles_all
    assert resolution.chosen(b"a/y/day=1/part.csv") == Rows(("id",))
    assert resolution.chosen(b"t/_SUCCESS") == Rows(("k",))
    # Spark skips other hidden files, so they have no rows.
    assert resolution.chosen(b"t/_other") is Strategy.SOURCE_WINS
    assert resolution.chosen(b"t/_delta_log/1.csv") is None


def test_conflicts_within_a_table_are_deferred() -> None:
    judge = Judge(parse_resolution(rules={"t/": "rows(id)"}), "file:///unused")
    conflict = Conflict(b"t/part", b"\x01x", b"\x01y", b"\x01z")
    assert judge.decide([conflict]) == [conflict.dest]
    assert (judge.conflicts, judge.unresolved, judge.deferred) == (1, 0, [conflict])
