"""The steps of the demo. Each does one thing, and returns its command and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from shlex import quote

from examples.quickstart.demo import DEV, FILES, MAIN, TAG, Demo
from examples.quickstart.facts import changes, diff_rows, ranges
from sparklake.cli.options import Format
from sparklake.cli.output import Output
from sparklake.cli.text import one_line, short, size
from sparklake.errors import MergeConflictError, MissingDependencyError
from sparklake.visible import count_of

_README = f"{FILES}README-quickstart.md"
_NOTES = "notes/main.md"


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step."""

    command: str
    facts: list[str] = field(default_factory=list)


def create(demo: Demo) -> StepResult:
    """Create the repository."""
    made = demo.lake.create_repository(demo.name, demo.namespace, range_records=demo.range_records)
    return StepResult(
        f"sparklake repo create {demo.repository_uri} {quote(demo.namespace)}",
        [f"one empty commit, {short(made.resolve(MAIN).id)}, on the branch {MAIN}"],
    )


def import_files(demo: Demo) -> StepResult:
    """Import the files without copying them."""
    message = f"Import {demo.source.name}"
    made = demo.repository.branch(MAIN).import_objects(str(demo.source), FILES, message).commit
    tree = demo.repository.tree(MAIN)
    total = sum(each.size for each in demo.repository.objects(MAIN))
    return StepResult(
        f"sparklake import {demo.uri(MAIN, FILES)} --from {quote(str(demo.source))} -m '{message}'",
        [
            f"{count_of(tree.count, 'object')}, {size(total)}, without copying a byte",
            f"commit {short(made.id)}: {ranges(demo, made)}",
        ],
    )


def tag(demo: Demo) -> StepResult:
    """Tag the import."""
    made = demo.repository.create_tag(TAG, MAIN)
    return StepResult(
        f"sparklake tag create {demo.uri(TAG)} {demo.uri(MAIN)}",
        [f"{TAG} is {short(made.commit_id)} and never moves"],
    )


def branch(demo: Demo) -> StepResult:
    """Create a branch."""
    demo.repository.create_branch(DEV, MAIN)
    return StepResult(
        f"sparklake branch create {demo.uri(DEV)} --source {demo.uri(MAIN)}",
        ["a pointer to a commit: it costs the same for ten objects as for ten billion"],
    )


def start_spark(demo: Demo) -> StepResult:
    """Wait for Spark, which only tables need."""
    version = demo.session.result().version
    return StepResult(
        "spark = spark_session()", [f"Spark {version}, which started during the first steps"]
    )


def write_table(demo: Demo) -> StepResult:
    """Write a partitioned table with Spark."""
    sample = demo.sample
    written = demo.repository.branch(DEV).write(
        sample.rows(demo.repository, TAG, FILES),
        sample.table,
        mode="overwrite",
        partition_by=[sample.partition_by],
    )
    rows = list(demo.repository.diff_uncommitted(DEV))
    return StepResult(
        f"repo.branch({DEV!r}).write({sample.variable}, {sample.table!r}, "
        f"partition_by=[{sample.partition_by!r}])\n"
        f"sparklake diff {demo.uri(DEV)}",
        [
            f"{count_of(written.files, 'file')}, {size(written.size)}, staged only on the branch",
            *changes(rows),
        ],
    )


def commit_table(demo: Demo) -> StepResult:
    """Commit what Spark wrote."""
    message = demo.sample.first_message
    made = demo.repository.branch(DEV).commit(message, metadata={"ticket": "1234"})
    return StepResult(
        f"sparklake commit {demo.uri(DEV)} -m '{message}' --meta ticket=1234",
        [f"commit {short(made.id)}: {ranges(demo, made)}"],
    )


def improve_table(demo: Demo) -> StepResult:
    """Write the table again, with an additional column."""
    sample, branch = demo.sample, demo.repository.branch(DEV)
    rows = sample.improved(sample.rows(demo.repository, TAG, FILES))
    branch.write(rows, sample.table, mode="overwrite", partition_by=[sample.partition_by])
    made = branch.commit(sample.second_message)
    return StepResult(
        f"repo.branch({DEV!r}).write(improved, {sample.table!r}, mode='overwrite', ...)\n"
        f"sparklake commit {demo.uri(DEV)} -m '{sample.second_message}'",
        [f"commit {short(made.id)}: {ranges(demo, made)}; the older files stay in history"],
    )


def diff(demo: Demo) -> StepResult:
    """Compare the branch with main."""
    rows = demo.repository.diff(MAIN, DEV)
    trees = [demo.repository.tree(ref).ranges for ref in (MAIN, DEV)]
    return StepResult(
        f"sparklake diff {demo.uri(MAIN)} {demo.uri(DEV)}",
        [
            *changes(rows),
            f"opened {len(rows.plan.opened)} of {sum(map(len, trees))} ranges, where they differ",
        ],
    )


def edit_both(demo: Demo) -> StepResult:
    """Edit the same objects on both branches, and another one on main."""
    first = [each.path for each in islice(demo.repository.objects(TAG, FILES), 2)]
    edits: dict[str, dict[str, bytes]] = {}
    for name in (MAIN, DEV):
        content = demo.sample.edited(name == MAIN)
        edits[name] = {**dict.fromkeys(first, content), _README: name.encode()}
    edits[MAIN][_NOTES] = b"only on main\n"
    facts = []
    for name, bodies in edits.items():
        branch = demo.repository.branch(name)
        for path, body in bodies.items():
            branch.put(path, body)
        made = branch.commit(f"Edit {count_of(len(bodies), 'file')}")
        facts.append(f"commit {short(made.id)} on {name}: {ranges(demo, made)}")
    commands = (
        f"sparklake put FILE {demo.uri(name, one_line(first[0]))}\n"
        f"sparklake commit {demo.uri(name)} -m 'Edit ...'"
        for name in edits
    )
    return StepResult("\n".join(commands), facts)


def merge_with_conflicts(demo: Demo) -> StepResult:
    """Merge without a strategy, which lists the conflicts."""
    command = f"sparklake merge {demo.uri(DEV)} {demo.uri(MAIN)}"
    try:
        demo.repository.merge(DEV, MAIN)
    except MergeConflictError as error:
        paths = (f"! conflict  {one_line(row.path)}" for row in diff_rows(error))
        return StepResult(command, [*paths, "the merge was not applied; the exit code is 3"])
    raise AssertionError("both branches have a README of their own")


def merge(demo: Demo) -> StepResult:
    """Merge with a strategy."""
    made = demo.repository.merge(DEV, MAIN, strategy="source-wins")
    return StepResult(
        f"sparklake merge {demo.uri(DEV)} {demo.uri(MAIN)} --strategy source-wins",
        [f"commit {short(made.id)}: {ranges(demo, made)}"],
    )


def log(demo: Demo) -> StepResult:
    """Draw the history."""
    from sparklake.cli.history import graph_lines, ref_names

    commits = demo.repository.log(MAIN)
    lines = graph_lines(Output(Format.JSON), commits.marked(), ref_names(demo.repository))
    return StepResult(f"sparklake log {demo.uri(MAIN)}", list(lines))


def read_back(demo: Demo) -> StepResult:
    """Read three versions through Spark."""
    repository, past = demo.repository, f"{MAIN}^2~2"
    table = demo.sample.table
    try:
        now, before = (repository.read(ref, table) for ref in (MAIN, past))
        versions = [
            f"{MAIN}: {now.count():,} rows of {', '.join(now.columns)}",
            f"{past}: {before.count():,} rows of {', '.join(before.columns)}",
        ]
    except MissingDependencyError as error:
        versions = [one_line(str(error))]
    tagged = repository.objects(TAG).to_df()
    return StepResult(
        f"repo.read('{MAIN}', {table!r})\n"
        f"repo.read('{past}', {table!r})\n"
        f"repo.objects({TAG!r}).to_df()",
        [*versions, f"{TAG}: {tagged.count():,} objects, and no table yet"],
    )


def change_uncommitted(demo: Demo) -> StepResult:
    """Show that staged changes are visible on their branch and can be dropped."""
    branch = demo.repository.branch(DEV)
    branch.put(f"{FILES}scratch.txt", b"an idea\n")
    branch.delete(_README)
    staged = changes(branch.diff())
    branch.reset()
    return StepResult(
        f"sparklake diff {demo.uri(DEV)}\nsparklake reset {demo.uri(DEV)}",
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
    ("Write it again with another column, and commit", improve_table),
    ("Show the changes of the branch", diff),
    ("Edit the same files on both branches", edit_both),
    ("Merge: some objects are in conflict", merge_with_conflicts),
    ("Merge, and let the branch win", merge),
    ("Show the history", log),
    ("Read main, an older commit and the tag through Spark", read_back),
    ("Change something, show it, and drop it", change_uncommitted),
]
