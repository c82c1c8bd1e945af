"""Temporary folders, and what killed processes leave of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparklake._scratch import remove_abandoned, scratch_folder

HOLD = """
import sys, time
from pathlib import Path
from sparklake._scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "big").write_bytes(b"x" * 1000)
    print("ready", flush=True)
    time.sleep(60)
"""

CROWD = """
import os, sys
from pathlib import Path
from sparklake._scratch import scratch_folder
for turn in range(150):
    root, start = Path(sys.argv[1], f"root-{turn}"), Path(sys.argv[1], f"start-{turn}")
    root.mkdir()
    children = []
    for _ in range(4):
        children.append(os.fork())
        if not children[-1]:
            while not start.exists():
                pass
            with scratch_folder(root) as folder:
                (folder / "file").write_text("content")
            os._exit(0)
    start.touch()
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
"""


def holder(root: Path) -> subprocess.Popen[str]:
    """Start a process that has a scratch folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_folder_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "file").write_text("content")
        (home,) = tmp_path.iterdir()
        assert home.stat().st_mode & 0o777 == 0o700
        assert folder.parent == home
    assert not folder.exists()


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        (home,) = tmp_path.iterdir()
        remove_abandoned(tmp_path)
        assert home.exists(), "its process lives"
        process.send_signal(signal.SIGKILL)
        process.wait()
        remove_abandoned(tmp_path)
        assert not home.exists()


def test_what_is_of_others_stays(tmp_path: Path) -> None:
    foreign = tmp_path / f"sparklake-{os.getuid() + 1}-x"
    being_made = tmp_path / f"sparklake-{os.getuid()}-y"
    for each in (foreign, being_made):
        each.mkdir()
    remove_abandoned(tmp_path)
    assert foreign.exists()
    assert being_made.exists()


@pytest.mark.system
def test_processes_that_begin_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    """Each looks for what is abandoned while the others are about to lock their own."""
    subprocess.run([sys.executable, "-c", CROWD, str(tmp_path)], check=True)
