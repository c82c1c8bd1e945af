"""What refs mean, against a real git on the same graph; `branch$`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import pytest

from sparklake import Branch, Lake, Repository
from sparklake.errors import InvalidRefError, InvalidUriError, ObjectNotFoundError, RefNotFoundError
from sparklake.testing.lakes import commit_all
from sparklake.verbs.objects.list import Folder
from tests.support.git import Git, needs_git
from tests.support.graphs import grow
from tests.support.lakes import paths, put_sizes, stage_sizes

# The picture, and what its names mean, at the end of git's page on revisions:
#
#   G   H   I   J
#    \ /     \ /
#     D   E   F
#      \  |  / \
#       \ | /   |
#        \|/    |
#         B     C
#          \   /
#           \ /
#            A
GRAPH: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("GHIJE", ()),
    "D": ("G", "H"),
    "F": ("I", "J"),
    "B": ("D", "E", "F"),
    "C": ("F",),
    "A": ("B", "C"),
}
EXAMPLES = """
A = A^0
B = A^   = A^1     = A~1
C = A^2
D = A^^  = A^1^1   = A~2
E = B^2  = A^^2
F = B^3  = A^^3
G = A^^^ = A^1^1^1 = A~3
H = D^2  = B^^2    = A^^^2  = A~2^2
I = F^   = B^3^    = A^^3^
J = F^2  = B^3^2   = A^^3^2
"""
Stage = Callable[[Branch, Mapping[str, "int | None"]], None]
STEPS = [kind + count for kind in "~^" for count in ("", "0", "1", "2", "3", "4")]


def resolved(repo: Repository, expressions: Sequence[str]) -> list[str | None]:
    """Return the names of the commits that expressions mean, None where there is none."""
    found: list[str | None] = []
    for each in expressions:
        try:
            found.append(repo.resolve(each).message)
        except RefNotFoundError:
            found.append(None)
    return found


def resolved_by_git(git: Git, expressions: Sequence[str]) -> list[str | None]:
    names = dict(zip(git.ids([*GRAPH]), GRAPH, strict=True))
    return [None if each is None else names[each] for each in git.ids(expressions)]


@needs_git
def test_the_examples_of_git_mean_what_they_mean_to_git(repo: Repository, tmp_path: Path) -> None:
    git = Git(tmp_path / "git")
    git.commit_tree(GRAPH)
    grow(repo, GRAPH)
    lines = [line.split(" = ") for line in EXAMPLES.strip().splitlines()]
    wanted = [name for name, *others in lines for _ in others]
    expressions = [each.strip() for _, *others in lines for each in others]
    assert len(expressions) == 25
    assert resolved(repo, expressions) == wanted
    assert resolved_by_git(git, expressions) == wanted


@needs_git
def test_any_steps_mean_what_they_mean_to_git(
    small_lake: Lake, folder: Path, tmp_path: Path
) -> None:
    repo, git = small_lake.create_repository("refs", str(folder / "refs")), Git(tmp_path / "git")
    git.commit_tree(GRAPH)
    grow(repo, GRAPH)
    chains = [each for length in range(4) for each in product(STEPS, repeat=length)]
    expressions = [name + "".join(chain) for name in GRAPH for chain in chains]
    found = resolved(repo, expressions)
    assert found == resolved_by_git(git, expressions)
    assert {None, *GRAPH} == {*found}


def test_a_ref_is_an_id_then_a_branch_then_a_tag_then_the_beginning_of_an_id(
    repo: Repository,
) -> None:
    commits = grow(repo, {"one": (), "two": ("one",)})
    one, two = commits["one"], commits["two"]
    prefix = two.id[:16]
    assert repo.resolve(prefix) == repo.resolve(two.id) == two
    assert repo.resolve(f"{prefix}~") == one
    tag = repo.create_tag(prefix, one.id)
    assert tag.commit_id == repo.resolve(prefix).id == one.id
    repo.delete_tag(prefix)
    repo.create_branch(prefix, one.id)
    assert repo.resolve(prefix) == one
    # A full id is no name that anything may have; put past the checks, it gives way.
    repo._context.refs.branches.create(two.id, one.id, "tester")
    assert repo.resolve(two.id) == two


def shown(repo: Repository, ref: str) -> list[str]:
    return [each.path for each in repo.folder(ref)]


@pytest.mark.parametrize("stage", [put_sizes, stage_sizes], ids=["rows", "run"])
def test_a_branch_with_a_dollar_is_what_is_staged_alone(repo: Repository, stage: Stage) -> None:
    main = repo.branch("main")
    put_sizes(main, {f"a/{number:02}": 1 for number in range(30)} | {"b": 1, "c": 1})
    main.commit("base")
    assert paths(repo, "main$") == shown(repo, "main$") == []
    stage(main, {"a/07": 2, "b": None, "new/1": 3, "new/2": 4, "never": None})
    assert paths(repo, "main$") == ["a/07", "new/1", "new/2"]
    assert paths(repo, "main$", "new/") == ["new/1", "new/2"]
    assert [each.size for each in repo.objects("main$")] == [2, 3, 4]
    assert list(repo.folder("main$")) == [Folder("a/"), Folder("new/")]
    assert repo.stat("main$", "a/07").size == 2
    view = repo.at("main$")
    assert [view.exists(each) for each in ("a/07", "a/08", "b")] == [True, False, False]
    for gone in ("a/08", "b", "never"):
        with pytest.raises(ObjectNotFoundError, match=r"'main\$' has no object"):
            repo.stat("main$", gone)
    main.commit("all")
    assert paths(repo, "main$") == []


def test_only_a_branch_has_something_staged(repo: Repository) -> None:
    repo.create_tag("v1", "main")
    for ref in ("v1$", f"{repo.resolve('main').id}$"):
        with pytest.raises(
            InvalidRefError, match=r"'\$' must follow a branch, and .* is not a branch"
        ):
            repo.objects(ref)
    with pytest.raises(RefNotFoundError, match="'nope'"):
        repo.objects("nope$")


def test_refs_may_be_uris_of_their_repository(repo: Repository) -> None:
    name = f"lakefs://{repo.name}"
    commit_all(repo.branch(f"{name}/main"), {"a": b"1"}, "first")
    dev = repo.create_branch("dev", f"{name}/main")
    commit_all(dev, {"b": b"2"}, "on dev")
    assert [each.path for each in repo.diff(f"{name}/main", f"{name}/dev")] == ["b"]
    assert repo.merge(f"{name}/dev", f"{name}/main").message == "Merge 'dev' into 'main'"
    assert repo.read_bytes(f"{name}/main~1", "a") == b"1"
    with pytest.raises(InvalidUriError, match=f"such as lakefs://{repo.name}/dev"):
        repo.resolve("lakefs://other/dev")
