"""Objects as files: read in parts, and staged when they are closed."""

from __future__ import annotations

import csv
import io
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake import Branch, Repository
from sparklake.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    InvalidKeyError,
    MissingFileError,
    ObjectNotFoundError,
    ProtectedError,
)
from sparklake.testing.lakes import contents, namespace_of
from sparklake.verbs.base.content import ReadAhead
from tests.support.recorded_reads import recorded_parts

LARGE = bytes(range(256)) * 40_000


# --- reading --------------------------------------------------------------------------------------


def test_a_file_is_read_as_any_other(repo: Repository, main: Branch) -> None:
    main.put("large", LARGE)
    tag = repo.create_tag("v1", main.commit("large").id).name
    main.put("large", b"newer")
    with repo.open(tag, "large") as file:
        assert (file.name, file.readable(), file.seekable(), file.writable()) == (
            *("large", True, True, False),
        )
        assert file.read(3) == LARGE[:3]
        assert file.seek(-5, io.SEEK_END) == len(LARGE) - 5
        assert (file.read(), file.read(), file.read(1)) == (LARGE[-5:], b"", b"")
        assert file.seek(1000) == 1000
        assert file.seek(24, io.SEEK_CUR) == file.tell() == 1024
        assert file.read(2_000_000) == LARGE[1024:2_001_024]
        assert file.seek(len(LARGE) + 10) == len(LARGE) + 10
        assert file.read(10) == b""
        with pytest.raises(ValueError, match="the position"):
            file.seek(-1)
        file.seek(0)
        assert file.read() == LARGE
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
    assert file.closed
    with main.open("large") as newer:
        assert newer.read() == b"newer"


def test_only_what_is_asked_for_is_read(repo: Repository, main: Branch) -> None:
    main.put("large", LARGE)
    with recorded_parts() as parts, repo.open("main", "large") as file:
        assert parts == []
        file.seek(5_000_000)
        file.read(10)
        file.read(10)
    assert sum(parts) <= 64 << 10
    with recorded_parts() as parts, repo.open("main", "large") as file:
        assert b"".join(iter(lambda: file.read(1000), b"")) == LARGE
    # What is read in order is read ahead.
    assert (sum(parts), len(parts)) == (len(LARGE), 11)
    with recorded_parts() as parts, repo.open("main", "large") as file:
        assert file.read() == LARGE
    assert parts == [len(LARGE)]


def test_text_is_read_and_written(repo: Repository, main: Branch) -> None:
    rows = [["a", "é"], ["b\nc", "東京"]]
    with main.open("t.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert repo.read_bytes("main", "t.csv") == 'a,é\r\n"b\nc",東京\r\n'.encode()
    with repo.open("main", "t.csv", "r", newline="") as file:
        assert list(csv.reader(file)) == rows
    with main.open("latin", "wt", encoding="latin-1") as file:
        file.write("é")
    assert repo.read_bytes("main", "latin") == b"\xe9"
    with main.open("latin", "r", errors="replace") as file:
        assert file.read() == "\ufffd"


def test_an_empty_object_is_read(repo: Repository, main: Branch) -> None:
    with main.open("empty", "wb"):
        pass
    with repo.open("main", "empty") as file:
        assert (file.read(), file.read(10)) == (b"", b"")


def test_what_is_gone_or_has_changed_outside_is_told(repo: Repository, main: Branch) -> None:
    for path, body in (("x", LARGE), ("empty", b"")):
        address = main.put(path, body).address.removeprefix("file://")
        Path(address).write_bytes(b"other")
        with repo.open("main", path) as file, pytest.raises(CorruptFileError, match="overwritten"):
            file.read(1)
        Path(address).unlink()
        with repo.open("main", path) as file, pytest.raises(MissingFileError, match="restore it"):
            file.read(1)


def test_there_is_no_file_of_nothing(repo: Repository, main: Branch) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        repo.open("main", "nothing")
    assert type(raised.value) is ObjectNotFoundError
    with pytest.raises(FileNotFoundError):
        repo.open("nowhere", "nothing")
    with pytest.raises(InvalidInputError, match="open a file on a branch"):
        repo.open("main", "x", "wb")
    for mode in ("a", "ab", "r+", "rbt", "", "wx", "U"):
        with pytest.raises(InvalidInputError, match="mode"):
            main.open("x", mode)


# --- writing --------------------------------------------------------------------------------------


def test_pandas_writes_to_the_branch_and_to_no_local_file(
    main: Branch, repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    rows = pd.DataFrame({"id": [1, 2]})
    with main.open("files/a.parquet", "wb") as file:
        rows.to_parquet(file)
    assert not list((tmp_path / "files").iterdir())
    with repo.open("main", "files/a.parquet") as file:
        assert pd.read_parquet(file).equals(rows)


def test_a_file_is_staged_when_it_is_closed(repo: Repository, main: Branch) -> None:
    with main.open("a b/%?", "wb", metadata={"k": "v"}, content_type="text/x") as file:
        assert str(file.name) == "a b/%?"
        file.write(LARGE)
        file.write(b"end")
        assert not main.is_dirty
    assert contents(repo, "main") == {"a b/%?": LARGE + b"end"}
    found = repo.stat("main", "a b/%?")
    assert (found.metadata, found.content_type) == ({"k": "v"}, "text/x")
    assert found.checksum == main.put("same", LARGE + b"end").checksum
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"late")


def test_a_file_may_be_written_in_any_order(repo: Repository, main: Branch) -> None:
    with main.open("z.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("inside", b"body")
    with repo.open("main", "z.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("inside") == b"body"


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_what_raises_stages_nothing(main: Branch, mode: str) -> None:
    def write() -> None:
        with main.open("x", mode) as file:
            file.write("x" if mode == "w" else b"x")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        write()
    assert not main.is_dirty


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_what_is_never_closed_stages_nothing(main: Branch, mode: str) -> None:
    files = [main.open("x", mode)]
    files[0].write("x" if mode == "w" else b"x")
    with pytest.warns(ResourceWarning, match="'x' was never closed"):
        files.clear()
    assert not main.is_dirty


def test_a_text_that_cannot_be_encoded_stages_nothing(main: Branch) -> None:
    with pytest.raises(UnicodeEncodeError), main.open("x", "w", encoding="ascii") as file:
        file.write("é")
    assert not main.is_dirty


def test_what_may_not_be_written_is_refused_before(repo: Repository, main: Branch) -> None:
    main.put("x", b"")
    for mode in ("x", "xb"):
        with pytest.raises(AlreadyExistsError, match="already has an object 'x'"):
            main.open("x", mode)
        with main.open(f"new-{mode}", mode):
            pass
    with pytest.raises(InvalidKeyError):
        main.open("/x", "wb")
    repo.settings.protect("main", block=["stage"])
    with pytest.raises(ProtectedError):
        main.open("y", "wb")


def test_a_branch_that_refuses_when_it_is_closed_leaves_nothing(
    repo: Repository, main: Branch
) -> None:
    file = main.open("x", "wb")
    file.write(b"x")
    repo.settings.protect("main", block=["stage"])
    with pytest.raises(ProtectedError):
        file.close()
    assert file.closed
    assert not main.is_dirty


def test_files_are_written_at_the_same_time(repo: Repository, main: Branch) -> None:
    def write(number: int) -> None:
        with main.open(f"{number}", "wb") as file:
            for _ in range(20):
                file.write(b"%d" % number * 5000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    assert contents(repo, "main") == {f"{each}": b"%d" % each * 100_000 for each in range(24)}
    assert len(list((namespace_of(repo) / "data").iterdir())) == 24


# --- reading ahead --------------------------------------------------------------------------------


class Asked:
    """Content that notes what it is asked for."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.parts: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.body)

    def __getitem__(self, part: slice, /) -> bytes:
        self.parts.append(part.indices(len(self.body))[:2])
        return self.body[part]


def test_what_is_asked_for_in_order_is_read_ahead() -> None:
    asked = Asked(bytes(range(100)))
    content = ReadAhead(asked, 20)
    assert [content[at : at + 5] for at in range(0, 35, 5)] == [
        asked.body[at : at + 5] for at in range(0, 35, 5)
    ]
    assert asked.parts == [(0, 5), (5, 30), (30, 55)]
    asked.parts.clear()
    assert (content[70:80], content[10:12], content[90:]) == (
        *(asked.body[70:80], asked.body[10:12], asked.body[90:]),
    )
    assert asked.parts == [(70, 80), (10, 12), (90, 100)]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=12), st.integers(0, 9))
def test_parts_are_what_they_are_however_they_are_read(
    spans: list[tuple[int, int]], ahead: int
) -> None:
    body = bytes(range(50))
    content, last = ReadAhead(Asked(body), ahead), 0
    for start, length in spans:
        # Every other part follows on the one before.
        start = last if start % 2 else start
        assert content[start : start + length] == body[start : start + length]
        last = min(start + length, 50)
