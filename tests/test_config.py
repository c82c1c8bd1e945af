"""Settings: which source wins, and what a file may say."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from sparklake.config import (
    Engine,
    FileSettings,
    Settings,
    disk_root,
    load_settings,
    read_settings_file,
)
from sparklake.errors import InvalidInputError


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "CONFIG", "DSN", "COMMITTER", "SCRATCH"):
        monkeypatch.delenv(f"SPARKLAKE_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")


def write_file(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sparklake.toml"
    path.write_text(text)
    return path


def test_nothing_given_is_the_embedded_lake_of_this_user(tmp_path: Path) -> None:
    assert load_settings() == Settings(tmp_path / ".sparklake", None, "ann", Engine.AUTO)


def test_argument_wins_over_environment_over_file_over_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / ".sparklake", 'dsn = "file"\ncommitter = "file"\nengine = "spark"\n')
    assert load_settings() == Settings(tmp_path / ".sparklake", "file", "file", Engine.SPARK)

    monkeypatch.setenv("SPARKLAKE_DSN", "environment")
    monkeypatch.setenv("SPARKLAKE_COMMITTER", "environment")
    assert load_settings().dsn == "environment"
    assert load_settings().committer == "environment"

    chosen = load_settings(dsn="argument", engine=Engine.AUTO)
    assert (chosen.dsn, chosen.engine) == ("argument", Engine.AUTO)


def test_the_file_lies_in_the_chosen_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / "given", 'committer = "given"')
    write_file(tmp_path / "named", 'committer = "named"')
    monkeypatch.setenv("SPARKLAKE_HOME", str(tmp_path / "named"))
    assert load_settings().committer == "named"
    assert load_settings(home=tmp_path / "given").committer == "given"


def test_a_named_file_replaces_that_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / ".sparklake", 'dsn = "home"\ncommitter = "home"')
    monkeypatch.setenv("SPARKLAKE_CONFIG", str(write_file(tmp_path / "etc", 'dsn = "etc"')))
    assert (load_settings().dsn, load_settings().committer) == ("etc", "ann")


def test_an_empty_variable_is_no_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "CONFIG", "DSN", "COMMITTER"):
        monkeypatch.setenv(f"SPARKLAKE_{name}", "")
    assert load_settings() == Settings(tmp_path / ".sparklake", None, "ann")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("dns = 'x'", "unknown field `dns`"),
        ("dsn = 5", "Expected `str | null`, got `int`"),
        ("engine = 'turbo'", "Invalid enum value 'turbo'"),
        ("dsn = ", "Invalid value"),
        ("[lake]\ndsn = 'x'", "unknown field `lake`"),
    ],
)
def test_a_bad_file_is_named_with_its_fault(tmp_path: Path, text: str, complaint: str) -> None:
    path = write_file(tmp_path / ".sparklake", text)
    with pytest.raises(InvalidInputError) as caught:
        load_settings()
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)
    assert "It may set: dsn, committer, engine" in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sparklake.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match=r"sparklake\.toml cannot be used"):
        read_settings_file(path)


def test_a_named_file_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKLAKE_CONFIG", str(tmp_path / "absent.toml"))
    with pytest.raises(InvalidInputError, match=r"absent\.toml: No such file"):
        load_settings()


def test_a_user_without_name_or_home_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert load_settings().committer == "anonymous"
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(InvalidInputError, match="SPARKLAKE_HOME"):
        load_settings()


def test_home_is_absolute_and_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(home="lake").home == tmp_path / "lake"
    assert load_settings(home="~/lake").home == tmp_path / "lake"


def test_the_sample_in_conf_is_valid() -> None:
    sample = read_settings_file(Path(__file__).parents[1] / "conf" / "sparklake.toml")
    assert sample == FileSettings(
        "postgresql://sparklake@db.example.com/lake", "nightly-load", Engine.AUTO
    )


def test_scratch_is_chosen_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLAKE_SCRATCH", str(tmp_path / "fast"))
    assert disk_root() == tmp_path / "fast"
