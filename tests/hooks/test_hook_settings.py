"""Which hooks are allowed: by the environment, by the settings file, by nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake.config import SETTINGS_FILE, WEBHOOKS_ONLY, HookSettings, load_settings
from sparklake.errors import InvalidInputError


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", *(f"HOOKS_{each}" for each in ("ALLOW", "SKIP", "PRIVATE", "ENV"))):
        monkeypatch.delenv(f"SPARKLAKE_{name}", raising=False)


def test_only_webhooks_to_public_addresses_are_allowed_by_default(tmp_path: Path) -> None:
    assert load_settings(tmp_path).hooks == WEBHOOKS_ONLY == HookSettings(("webhook",), (), (), ())


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / SETTINGS_FILE).write_text(
        'hooks_allow = ["python:a.*"]\nhooks_private = ["10.0.0.0/8"]\nhooks_env = ["A_*"]\n'
    )
    settings = HookSettings(("python:a.*",), (), ("10.0.0.0/8",), ("A_*",))
    assert load_settings(tmp_path).hooks == settings
    monkeypatch.setenv("SPARKLAKE_HOOKS_ALLOW", "")
    monkeypatch.setenv("SPARKLAKE_HOOKS_SKIP", "lua, prepare-commit")
    changed = HookSettings((), ("lua", "prepare-commit"), ("10.0.0.0/8",), ("A_*",))
    assert load_settings(tmp_path).hooks == changed


@pytest.mark.parametrize("name", ["ALLOW", "SKIP"])
def test_an_unknown_hook_type_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"SPARKLAKE_HOOKS_{name}", "webhook,phyton")
    with pytest.raises(InvalidInputError, match="'phyton' is not a hook type"):
        load_settings(tmp_path)
