"""Kill -9 before each step of a verb with an idempotency key: a rerun takes effect exactly once."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from sparklake import Lake, Once
from tests.support.mortals import Mortals, deaths
from tests.support.once_verbs import VERBS, effects, fill, new_stage

VISIBLE = ("staged and committed", "log", "moves")


SAMPLE = ("put", "remove a folder", "append", "commit", "import", "merge", "undo", "create_branch")
"""The verbs that `make test-system` kills; `make test-slow` kills the others, too."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[] if each in SAMPLE else pytest.mark.exhaustive) for each in VERBS],
)
def test_a_killed_run_takes_effect_once_when_it_is_repeated(
    mortals: Mortals, survivor: Lake, folder: Path, name: str
) -> None:
    verb = VERBS[name]
    repo = survivor.create_repository(f"once-{uuid4().hex}", str(folder / "ns"), range_records=4)
    fill(repo, folder)
    twin = new_stage(repo, folder, verb)
    verb.act(twin, None)  # type: ignore[arg-type]
    wanted = effects(twin)
    outcomes = set[bool]()

    def run(last: int) -> bool:
        stage = new_stage(repo, folder, verb)
        before = effects(stage)
        branch = stage.branch.name
        order = {"repository": repo.name, "branch": branch, "folder": str(folder)}
        died = mortals.send(last, "once", name=name, key=branch, **order)

        opened = stage.on(survivor.repository(repo.name))
        left = effects(opened)
        took_effect = any(left[each] != before[each] for each in VISIBLE)
        made = verb.act(opened, Once(branch))
        assert effects(opened) == wanted
        assert made.repeated is took_effect
        assert died or took_effect
        again = verb.act(opened, Once(branch))
        assert (again.value, again.repeated) == (made.value, True)
        assert effects(opened) == wanted
        outcomes.add(took_effect)
        return died

    assert deaths(run) > 5
    assert outcomes == {False, True}
