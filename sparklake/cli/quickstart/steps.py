"""The steps of the demo. Each does one thing, and returns its command and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from sparklake.cli.options import Format
from sparklake.cli.output import Output
from sparklake.cli.quickstart.sample import (
    DEV,
    FILES,
    MAIN,
    TABLE,
    TAG,
    Demo,
    changes,
    diff_rows,
    inventory,
    ranges,
)
from sparklake.cli.text import number, one_line, short, size
from sparklake.errors import MergeConflictError

_README = f"{FILES}README-quickstart.md"
_NOTES = "notes/main.md"


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step."""

    command: str
    facts: list[str] = field(default_factory=list)


def create(scene: Demo) -> StepResult:
    """Create the repository."""
    made = scene.lake.create_repository(
        scene.name, str(scene.namespace), range_records=scene.range_records
    )
    return StepResult(
        f"sparklake repo create lakefs://{made.name} {scene.namespace}",
        [f"one empty commit, {short(made.resolve(MAIN).id)}, on the branch {MAIN}"],
    )


def import_files(scene: Demo) -> StepResult:
    """Import the files without copying them."""
    message = f"Import {scene.source.name}"
    made = scene.repository.branch(MAIN).import_objects(str(scene.source), FILES, message).commit
    tree = scene.repository.tree(MAIN)
    total = sum(each.size for each in scene.repository.objects(MAIN))
    return StepResult(
        f"sparklake import {scene.uri(MAIN, FILES)} --from {scene.source} -m '{message}'",
        [
            f"{number(tree.count, 'object')}, {size(total)}, without copying a byte",
            f"commit {short(made.id)}: {ranges(scene, made)}",
        ],
    )


def tag(scene: Demo) -> StepResult:
    """Tag the import."""
    made = scene.repository.create_tag(TAG, MAIN)
    return StepResult(
        f"sparklake tag create {scene.uri(TAG)} {scene.uri(MAIN)}",
        [f"{TAG} is {short(made.commit_id)} and never moves"],
    )


def branch(scene: Demo) -> StepResult:
    """Create a branch."""
    scene.repository.create_branch(DEV, MAIN)
    return StepResult(
        f"sparklake branch create {scene.uri(DEV)} --source {scene.uri(MAIN)}",
        ["a pointer to a commit: it costs the same for ten objects as for ten billion"],
    )


def start_spark(scene: Demo) -> StepResult:
    """Start Spark, which only tables need."""
    from sparklake.session import spark_session

    session = spark_session()
    return StepResult("spark = spark_session()", [f"Spark {session.version}"])


def write_table(scene: Demo) -> StepResult:
    """Write a partitioned table with Spark."""
    written = scene.repository.branch(DEV).write(
        inventory(scene), TABLE, mode="overwrite", partition_by=["size_class"]
    )
    rows = list(scene.repository.diff_uncommitted(DEV))
    return StepResult(
        f"repo.branch({DEV!r}).write(inventory, {TABLE!r}, partition_by=['size_class'])\n"
        f"sparklake diff {scene.uri(DEV)}",
        [
            f"{number(written.files, 'file')}, {size(written.size)}, staged only on the branch",
            *changes(rows),
        ],
    )


def commit_table(scene: Demo) -> StepResult:
    """Commit what Spark wrote."""
    made = scene.repository.branch(DEV).commit(
        "Add an inventory of the files", metadata={"ticket": "1234"}
    )
    return StepResult(
        f"sparklake commit {scene.uri(DEV)} -m 'Add an inventory ...' --meta ticket=1234",
        [f"commit {short(made.id)}: {ranges(scene, made)}"],
    )


def mend_table(scene: Demo) -> StepResult:
    """Write the table again, with an additional column."""
    from pyspark.sql.functions import col, round  # noqa: A004  (Spark's own name)

    branch = scene.repository.branch(DEV)
    mended = inventory(scene).withColumn("kilobytes", round(col("size") / 1000, 1))
    branch.write(mended, TABLE, mode="overwrite", partition_by=["size_class"])
    made = branch.commit("Add sizes in kilobytes")
    return StepResult(
        f"repo.branch({DEV!r}).write(mended, {TABLE!r}, mode='overwrite', ...)\n"
        f"sparklake commit {scene.uri(DEV)} -m 'Add sizes in kilobytes'",
        [f"commit {short(made.id)}: {ranges(scene, made)}; the older files stay in history"],
    )


def diff(scene: Demo) -> StepResult:
    """Compare the branch with main."""
    rows = scene.repository.diff(MAIN, DEV)
    trees = [scene.repository.tree(ref).ranges for ref in (MAIN, DEV)]
    return StepResult(
        f"sparklake diff {scene.uri(MAIN)} {scene.uri(DEV)}",
        [
            *changes(rows),
            f"opened {len(rows.plan.opened)} of {sum(map(len, trees))} ranges, where they differ",
        ],
    )


def edit_both(scene: Demo) -> StepResult:
    """Edit the same objects on both branches, and another one on main."""
    shared = [each.path for each in islice(scene.repository.objects(TAG, FILES), 2)] + [_README]
    edits = {
        MAIN: (b"as on main\n", [*shared, _NOTES]),
        DEV: (b"as on Joe's branch\n", shared),
    }
    facts = []
    for name, (text, paths) in edits.items():
        branch = scene.repository.branch(name)
        for path in paths:
            branch.put(path, text)
        made = branch.commit(f"Edit {number(len(paths), 'file')}")
        facts.append(f"commit {short(made.id)} on {name}: {ranges(scene, made)}")
    commands = (
        f"sparklake put FILE {scene.uri(name, one_line(shared[0]))}\n"
        f"sparklake commit {scene.uri(name)} -m 'Edit ...'"
        for name in edits
    )
    return StepResult("\n".join(commands), facts)


def merge_with_conflicts(scene: Demo) -> StepResult:
    """Merge without a strategy, which lists the conflicts."""
    command = f"sparklake merge {scene.uri(DEV)} {scene.uri(MAIN)}"
    try:
        scene.repository.merge(DEV, MAIN)
    except MergeConflictError as error:
        paths = (f"! conflict  {one_line(row.path)}" for row in diff_rows(error))
        return StepResult(command, [*paths, "the merge was not applied; the exit code is 3"])
    raise AssertionError("both branches have a README of their own")


def merge(scene: Demo) -> StepResult:
    """Merge with a strategy."""
    made = scene.repository.merge(DEV, MAIN, strategy="source-wins")
    return StepResult(
        f"sparklake merge {scene.uri(DEV)} {scene.uri(MAIN)} --strategy source-wins",
        [f"commit {short(made.id)}: {ranges(scene, made)}"],
    )


def log(scene: Demo) -> StepResult:
    """Draw the history."""
    from sparklake.cli.history import graph_lines, ref_names

    commits = scene.repository.log(MAIN)
    lines = graph_lines(Output(Format.JSON), commits.marked(), ref_names(scene.repository))
    return StepResult(f"sparklake log {scene.uri(MAIN)}", list(lines))


def read_back(scene: Demo) -> StepResult:
    """Read three versions through Spark."""
    repository, past = scene.repository, f"{MAIN}^2~2"
    now, before = (repository.read(ref, TABLE) for ref in (MAIN, past))
    tagged = repository.objects(TAG).to_df()
    return StepResult(
        f"repo.read('{MAIN}', {TABLE!r})\n"
        f"repo.read('{past}', {TABLE!r})\n"
        f"repo.objects({TAG!r}).to_df()",
        [
            f"{MAIN}: {now.count():,} rows of {', '.join(now.columns)}",
            f"{past}: {before.count():,} rows of {', '.join(before.columns)}",
            f"{TAG}: {tagged.count():,} objects, and no table yet",
        ],
    )


def change_uncommitted(scene: Demo) -> StepResult:
    """Show that staged changes are visible on their branch and can be dropped."""
    branch = scene.repository.branch(DEV)
    branch.put(f"{FILES}scratch.txt", b"an idea\n")
    branch.delete(_README)
    staged = changes(branch.diff())
    branch.reset()
    return StepResult(
        f"sparklake diff {scene.uri(DEV)}\nsparklake reset {scene.uri(DEV)}",
        [*staged, "dropped again: the branch has no staged changes"],
    )


STEPS: list[tuple[str, Callable[[Demo], StepResult]]] = [
    ("Create a repository", create),
    ("Import the files without copying them", import_files),
    ("Tag this version", tag),
    ("Create a branch", branch),
    ("Start Spark", start_spark),
    ("Write a partitioned table with Spark", write_table),
    ("Commit", commit_table),
    ("Write it again with another column, and commit", mend_table),
    ("Show the changes of the branch", diff),
    ("Edit the same files on both branches", edit_both),
    ("Merge: some objects are in conflict", merge_with_conflicts),
    ("Merge, and let the branch win", merge),
    ("Show the history", log),
    ("Read main, an older commit and the tag through Spark", read_back),
    ("Change something, show it, and drop it", change_uncommitted),
]
