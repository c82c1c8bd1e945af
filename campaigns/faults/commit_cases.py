"""Commits and branch moves, as cases of the campaigns."""

from __future__ import annotations

from campaigns.faults.object_cases import dirty
from campaigns.faults.scenes import Scene, VerbCase
from sparklake.errors import NoChangesError
from sparklake.testing.lakes import commit_all


def both_moved(scene: Scene) -> None:
    """Commit to two branches, without a conflict."""
    dev = scene.create_branch({"base/1": b"changed", "new": b"new"}, "dev")
    scene.repository.create_tag(scene.name_of("tag"), dev.name)
    scene.create_branch({"base/7": b"ours", "base/8": None})


def in_conflict(scene: Scene) -> None:
    scene.create_branch({"base/1": b"changed", "base/7": b"theirs"}, "dev")
    scene.create_branch({"base/7": b"ours", "base/8": None})


def two_commits(scene: Scene) -> None:
    """Commit twice to one branch, and tag the first commit."""
    branch = scene.create_branch({"base/1": b"once", "base/2": None})
    scene.repository.create_tag(scene.name_of("tag"), branch.name)
    commit_all(branch, {"base/7": b"twice"}, "second")


def to_rebase(scene: Scene) -> None:
    both_moved(scene)
    commit_all(scene.branch, {"base/5": b"second"}, "second")


def merge(scene: Scene) -> None:
    scene.repository.merge(scene.name_of("dev"), scene.label, message="merged")


def merge_with_strategy(scene: Scene) -> None:
    scene.repository.merge(scene.name_of("dev"), scene.label, "source-wins", message="merged")


def squash(scene: Scene) -> None:
    scene.repository.merge(scene.name_of("dev"), scene.label, message="squashed", squash=True)


def merge_paths(scene: Scene) -> None:
    scene.repository.merge(scene.name_of("dev"), scene.label, message="part", paths=["new"])


def transaction(scene: Scene) -> None:
    with scene.branch.transaction("a transaction") as work:
        work.put("base/1", b"in a transaction")
        work.commit("inside")
        work.delete("base/2")


def undo(scene: Scene) -> None:
    scene.branch.undo()


COMMIT_CASES = {
    "commit": VerbCase(dirty, lambda scene: scene.branch.commit("done"), done=(NoChangesError,)),
    "commit_paths": VerbCase(
        dirty, lambda scene: scene.branch.commit("done", paths=["base/"]), done=(NoChangesError,)
    ),
    "merge": VerbCase(both_moved, merge, done=(NoChangesError,)),
    "merge, conflict": VerbCase(in_conflict, merge_with_strategy, done=(NoChangesError,)),
    "merge, squash": VerbCase(both_moved, squash, done=(NoChangesError,)),
    "merge, paths": VerbCase(both_moved, merge_paths, done=(NoChangesError,)),
    "revert": VerbCase(
        two_commits,
        lambda scene: scene.branch.revert(scene.name_of("tag"), message="reverted"),
        done=(NoChangesError,),
    ),
    "cherry_pick": VerbCase(
        both_moved,
        lambda scene: scene.branch.cherry_pick(scene.name_of("tag"), message="picked"),
        done=(NoChangesError,),
    ),
    "rebase": VerbCase(
        to_rebase, lambda scene: scene.branch.rebase(scene.name_of("dev")), done=(NoChangesError,)
    ),
    "transaction": VerbCase(
        lambda scene: scene.create_branch({"own": b"own"}), transaction, done=(NoChangesError,)
    ),
    "hard_reset": VerbCase(
        two_commits, lambda scene: scene.branch.hard_reset(scene.name_of("tag"))
    ),
    "hard_reset, force": VerbCase(dirty, lambda scene: scene.branch.hard_reset("main", force=True)),
    "undo": VerbCase(two_commits, undo, repeats=False),
}
