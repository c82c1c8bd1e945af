"""Trials, rounds and damage detect violations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from campaigns.faults import damage, hostile_dumps
from campaigns.faults.cases import CASES
from campaigns.faults.checking import ViolationError, check_repository
from campaigns.faults.crash import kills
from campaigns.faults.damage import IN_PLACE, damages_of, judge
from campaigns.faults.forks import Answer
from campaigns.faults.rounds import Options, report, run_rounds
from campaigns.faults.scenes import Scene, create_repository, state_of
from campaigns.faults.specimens import ASKED_OF, QUESTIONS, Specimen, create_specimen
from campaigns.faults.trials import Expected, judged
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake

OLD, NEW = {"branch": "old"}, {"branch": "new"}
EXPECTED = Expected(9, OLD, NEW, None)
KILLED = Answer(3, died=True)
CONFIRMED = Answer(9, died=False)
REFUSED = Answer(3, died=False, error="StoreError: disk", kind="store")


# --- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "state", "outcome"),
    [
        (KILLED, OLD, "old"),
        (KILLED, NEW, "new"),
        (CONFIRMED, NEW, "new, confirmed"),
        (REFUSED, OLD, "old, store"),
        (REFUSED, NEW, "new, store"),
    ],
)
def test_an_outcome_is_one_of_two_states(answer: Answer, state: Any, outcome: str) -> None:
    assert judged(answer, state, EXPECTED) == outcome


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (KILLED, {"branch": "half"}, "neither the old nor the new"),
        (KILLED, {}, "neither the old nor the new"),
        (CONFIRMED, OLD, "the old state is left"),
        (REFUSED, {"branch": "half"}, "neither the old nor the new"),
        (Answer(3, died=False, error="KeyError: 'k'"), OLD, "another library"),
    ],
)
def test_other_outcomes_are_violations(answer: Answer, state: Any, words: str) -> None:
    with pytest.raises(ViolationError, match=words):
        judged(answer, state, EXPECTED)


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as path:
        yield path


@pytest.mark.parametrize("name", [each for each in CASES if not CASES[each].alone])
def test_every_case_changes_what_is_compared(folder: Path, name: str) -> None:
    lake = memory_lake()
    create_repository(lake, "lake", str(folder / "lake"))
    case, scene = CASES[name], Scene(lake, "lake", "r000001", f"file://{folder}/rounds")
    case.prepare(scene)
    before = state_of(scene), case.effects(scene) if name != "export" else None
    case.run(scene)
    assert (state_of(scene), case.effects(scene)) != before
    check_repository(scene.repository)


def test_kills_cover_all_verbs_and_their_steps() -> None:
    few = list(kills(Options(200, 7), lambda case, store: 5))
    assert len(few) == len(set(few)) == 200
    assert {each.split(":")[0] for each in few} == set(CASES)
    every = list(kills(Options(0, 7, stores=("s3",)), lambda case, store: 3))
    assert set(every) == {f"{case}:s3:{step}" for case in CASES for step in (1, 2, 3)}
    assert few == list(kills(Options(200, 7), lambda case, store: 5))
    assert few != list(kills(Options(200, 8), lambda case, store: 5))


# --- rounds ---------------------------------------------------------------------------------------


def test_a_broken_round_is_counted_and_can_be_repeated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(name: str) -> tuple[str, str]:
        if name == "merge:2":
            raise ViolationError("a lost commit")
        return name.split(":")[0], "old"

    options = Options(3, 7, table=tmp_path / "table.md", stores=("azure",))
    figures = run_rounds("campaigns.faults.crash", options, ["commit:1", "merge:2", "merge:3"], run)
    assert figures.broken == ["merge:2"]
    assert figures.total == 3
    output = capsys.readouterr().err
    assert "python -m campaigns.faults.crash --seed 7 --stores azure --only 'merge:2'" in output
    assert "a lost commit" in output
    with pytest.raises(SystemExit):
        report("Kills", options, figures, "python -m campaigns.faults.crash")
    text = (tmp_path / "table.md").read_text()
    assert "3 rounds" in text
    assert "1 broken" in text
    assert "| merge | 1 | 1 | 2 |" in text


def test_a_repeated_round_raises() -> None:
    def run(name: str) -> tuple[str, str]:
        raise ViolationError(name)

    with pytest.raises(ViolationError, match="merge:2"):
        run_rounds("campaigns.faults.crash", Options(3, 7, only="merge:2"), ["commit:1"], run)


# --- damage ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def specimen() -> Iterator[Specimen]:
    with memory_folder() as folder:
        yield create_specimen(folder)


def test_a_healthy_lake_answers_correctly(specimen: Specimen) -> None:
    for name, question in QUESTIONS.items():
        assert judge(specimen, name, question(specimen), {"no file"}) == 0
    check_repository(specimen.repository)


def test_every_kind_of_file_exists_and_is_checked(specimen: Specimen) -> None:
    assert set(specimen.kinds.values()) == set(ASKED_OF)
    for kind in ASKED_OF:
        assert specimen.foreign_files(kind)


@pytest.mark.parametrize("name", IN_PLACE)
def test_every_damage_changes_bytes(name: str) -> None:
    body, chance = bytes(range(256)) * 8, Random(3)
    assert all(IN_PLACE[name](body, chance) != body for _ in range(20))


def test_a_wrong_answer_is_a_violation(specimen: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    right = QUESTIONS["everything"](specimen)
    monkeypatch.setitem(QUESTIONS, "everything", lambda _: {**right, "main": {}})
    with pytest.raises(ViolationError, match="a wrong answer"):
        judge(specimen, "everything", right, {"no file"})


def test_an_error_without_the_damaged_file_is_a_violation(specimen: Specimen) -> None:
    kind = damage.RANGE
    for damaged in (damages_of(specimen, kind, Random(each)) for each in range(20)):
        with damage.done(damaged):
            names = {path.name for path in damaged.files}
            try:
                errors = judge(specimen, "everything", None, names)
            except ViolationError:
                continue  # It had no effect, and None is not the answer.
            assert errors == 1
            with pytest.raises(ViolationError, match="names no damaged file"):
                judge(specimen, "everything", None, {"another file"})
            return
    raise AssertionError("no damage had an effect")


@pytest.mark.parametrize("name", hostile_dumps.CHANGES)
def test_every_hostile_change_changes_the_dump(specimen: Specimen, name: str) -> None:
    with hostile_dumps.copied(specimen) as place:
        before = {each: each.read_bytes() for each in (place / "_lakefs").iterdir()}
        hostile_dumps.CHANGES[name](place, Random(5))
        after = {each: each.read_bytes() for each in (place / "_lakefs").iterdir()}
    assert after != before


def test_an_invented_commit_is_a_violation(
    specimen: Specimen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check of ids, a changed commit would be restored."""
    from sparklake.graveler.dumps import dump
    from sparklake.layout import REFS_MANIFEST_KEY

    with hostile_dumps.copied(specimen) as place:
        hostile_dumps.change_message(place)
        assert hostile_dumps.restored(specimen, place) == "refused"

        def trusting(self: Any, record: Any, message: Any) -> Any:
            return dump._commit(message)

        monkeypatch.setattr(dump._DumpReading, "commit", trusting)
        with pytest.raises(ViolationError, match="invented the commit"):
            hostile_dumps.restored(specimen, place)
    assert json.loads((specimen.namespace / REFS_MANIFEST_KEY).read_bytes())
