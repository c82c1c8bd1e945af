"""`sparklake quickstart`: the main job, told as a story."""

from __future__ import annotations

from sparklake.cli.session import Session, command


@command
def quickstart(session: Session) -> None:
    """Tell the main job as a story, on a repository of its own."""
    session.out.note("the story follows")
