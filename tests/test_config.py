"""Settings: which source wins, and what a file may say."""

from __future__ import annotations

import getpass
import os
from datetime import timedelta
from pathlib import Path

import pytest

from sparklake.config import (
    NO_CACHE,
    BucketTimeouts,
    BucketWrites,
    CacheSettings,
    Engine,
    OnceSettings,
    Settings,
    cache_place,
    disk_root,
    load_settings,
)
from sparklake.errors import InvalidInputError
from sparklake.settings_file import FileSettings, read_settings_file
from tests.support.cases import for_each


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name in (
        "HOME",
        "CONFIG",
        "DSN",
        "COMMITTER",
        "SCRATCH",
        "CACHE",
        "CACHE_BYTES",
        "WORKERS",
        "BUCKET_CONNECT_SECONDS",
        "BUCKET_READ_SECONDS",
        "ONCE_DAYS",
        "ONCE_WAIT_SECONDS",
    ):
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


def test_workers_are_a_number_from_one_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(tmp_path / ".sparklake", "workers = 3")
    assert load_settings().workers == 3
    monkeypatch.setenv("SPARKLAKE_WORKERS", "1")
    assert load_settings().workers == 1
    for bad in ("0", "-1", "many", "1.5", "²"):
        monkeypatch.setenv("SPARKLAKE_WORKERS", bad)
        with pytest.raises(InvalidInputError, match=f"SPARKLAKE_WORKERS is '{bad}'"):
            load_settings()


def test_timeouts_are_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().bucket_timeouts == BucketTimeouts()
    write_file(tmp_path / ".sparklake", "bucket_connect_seconds = 0.5\nbucket_read_seconds = 120")
    assert load_settings().bucket_timeouts == BucketTimeouts(0.5, 120)
    monkeypatch.setenv("SPARKLAKE_BUCKET_READ_SECONDS", "7.5")
    assert load_settings().bucket_timeouts == BucketTimeouts(0.5, 7.5)
    for bad in ("0", "-1", "long", "inf", "nan"):
        monkeypatch.setenv("SPARKLAKE_BUCKET_READ_SECONDS", bad)
        with pytest.raises(InvalidInputError, match=f"SPARKLAKE_BUCKET_READ_SECONDS is '{bad}'"):
            load_settings()


def test_the_terms_of_once_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().once == OnceSettings(7.0, 600.0)
    write_file(tmp_path / ".sparklake", "once_days = 0.5\nonce_wait_seconds = 20")
    assert load_settings().once == OnceSettings(0.5, 20.0)
    assert load_settings().once.lifetime == timedelta(hours=12)
    monkeypatch.setenv("SPARKLAKE_ONCE_DAYS", "1e9")
    monkeypatch.setenv("SPARKLAKE_ONCE_WAIT_SECONDS", "30")
    assert load_settings().once == OnceSettings(36_500.0, 30.0)
    monkeypatch.setenv("SPARKLAKE_ONCE_DAYS", "0")
    with pytest.raises(InvalidInputError, match="number of days above 0"):
        load_settings()


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
    for name in ("HOME", "CONFIG", "DSN", "COMMITTER", "CACHE", "CACHE_BYTES", "WORKERS"):
        monkeypatch.setenv(f"SPARKLAKE_{name}", "")
    assert load_settings() == Settings(tmp_path / ".sparklake", None, "ann")


@for_each(
    ("text", "complaint"),
    [
        ("dns = 'x'", "unknown field `dns`"),
        ("dsn = 5", "Expected `str | null`, got `int`"),
        ("engine = 'turbo'", "Invalid enum value 'turbo'"),
        ("workers = 0", "`int` >= 1"),
        ("dsn = ", "Invalid value"),
        ("bucket_read_seconds = 0", "`float` > 0"),
        ("cache_bytes = -1", "Expected `int` >= 0"),
        ("cache_bytes = 'much'", "Expected `int | null`, got `str`"),
        ("[lake]\ndsn = 'x'", "unknown field `lake`"),
    ],
)
def test_a_bad_file_is_named_with_its_fault(tmp_path: Path, text: str, complaint: str) -> None:
    path = write_file(tmp_path / ".sparklake", text)
    with pytest.raises(InvalidInputError) as caught:
        load_settings()
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)
    assert "Known settings: dsn, committer, engine, cache, cache_bytes, workers" in str(
        caught.value
    )


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sparklake.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match=r"sparklake\.toml is invalid"):
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
        "postgresql://sparklake@db.example.com/lake",
        "nightly-load",
        Engine.AUTO,
        "/var/cache/sparklake",
        16 << 30,
        8,
        ("webhook", "python:sparklake.hooks.quality:*"),
        ("lua", "prepare-commit"),
        ("hooks.example.com", "10.20.0.0/16"),
        ("LAKEFSACTIONS_*",),
        BucketWrites.AUTO,
        5.0,
        30.0,
        7.0,
        600.0,
    )


def test_scratch_is_chosen_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKLAKE_SCRATCH", str(tmp_path / "fast"))
    assert disk_root() == tmp_path / "fast"


# --- the cache ------------------------------------------------------------------------------------


def test_a_cache_is_in_the_users_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_place(CacheSettings()) == (tmp_path / ".cache" / "sparklake", 4 << 30)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_place(CacheSettings())[0] == tmp_path / "xdg" / "sparklake"
    monkeypatch.setenv("SPARKLAKE_SCRATCH", str(tmp_path / "fast"))
    assert cache_place(CacheSettings())[0] == tmp_path / "fast" / f"sparklake-cache-{os.getuid()}"


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_place(CacheSettings())[0] == disk_root() / f"sparklake-cache-{os.getuid()}"


def test_the_environment_wins_over_what_the_file_says_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / ".sparklake", 'cache = "~/file"\ncache_bytes = 7\n')
    assert load_settings().cache == CacheSettings("~/file", 7)
    assert cache_place(load_settings().cache) == (tmp_path / "file", 7)
    monkeypatch.setenv("SPARKLAKE_CACHE", "/environment")
    monkeypatch.setenv("SPARKLAKE_CACHE_BYTES", "9")
    assert load_settings().cache == CacheSettings("/environment", 9)


def test_a_machine_of_tasks_knows_its_own_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_driver = CacheSettings("/driver", 7)
    assert cache_place(of_the_driver) == (Path("/driver"), 7)
    monkeypatch.setenv("SPARKLAKE_CACHE", "/executor")
    monkeypatch.setenv("SPARKLAKE_CACHE_BYTES", "9")
    assert cache_place(of_the_driver) == (Path("/executor"), 9)
    assert cache_place(NO_CACHE)[1] == 0


@pytest.mark.parametrize("size", ["-1", "4G", "1.5", "\u0664"])
def test_a_size_that_is_no_number_is_refused(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKLAKE_CACHE_BYTES", size)
    for call in (load_settings, lambda: cache_place(CacheSettings())):
        with pytest.raises(InvalidInputError, match="SPARKLAKE_CACHE_BYTES"):
            call()


def test_how_buckets_are_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().bucket_writes is BucketWrites.AUTO
    monkeypatch.setenv("SPARKLAKE_BUCKET_WRITES", "upload")
    assert load_settings().bucket_writes is BucketWrites.UPLOAD
    monkeypatch.setenv("SPARKLAKE_BUCKET_WRITES", "ftp")
    with pytest.raises(InvalidInputError, match="auto, hadoop, upload"):
        load_settings()
