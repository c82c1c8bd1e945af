"""`sparklake check`: verify a whole repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import RepositoryArgument, flag, option
from sparklake.cli.parsing import duration, one_level
from sparklake.cli.text import one_line
from sparklake.documents import check_document
from sparklake.uri import SCHEME, repository_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.rows.findings import Finding
    from sparklake.verbs.checks.report import CheckReport

_SHOWN = 10
"""The maximum number of findings shown per kind."""


@command
def check(
    invocation: Invocation,
    uri: RepositoryArgument,
    refs: Annotated[bool, flag("Check refs and commits only.")] = False,
    trees: Annotated[bool, flag("Also verify ranges and metaranges.")] = False,
    objects: Annotated[bool, flag("Also compare objects and sizes (the default).")] = False,
    content: Annotated[
        bool, flag("Also verify checksums of objects, and change summaries.")
    ] = False,
    sample: Annotated[float, option("Read only this share of the objects, such as 0.01.")] = 1.0,
    resume: Annotated[str | None, option("Resume an unfinished check.", metavar="CHECK")] = None,
    to: Annotated[
        str | None, option("Write the report here, not in the namespace.", metavar="URI")
    ] = None,
    grace: Annotated[str, option("Do not count younger objects as garbage: 30m, 12h.")] = "6h",
) -> None:
    """Verify a repository; report lost and damaged data.

    Changes nothing. Exit codes: 0 healthy, 9 warnings only, 10 lost or damaged data.
    """
    young = duration(grace)
    level = one_level({"refs": refs, "trees": trees, "objects": objects, "content": content})
    repository = invocation.repository(repository_uri(uri))
    with invocation.out.working("checking"):
        report = repository.check(level, sample, resume, to, young)
    invocation.out.one(check_document(report), _told(report, repository.name))
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _told(report: CheckReport, name: str) -> str:
    counts = report.counts
    lines = [
        f"checked {count_of(counts.commits, 'commit')}, "
        f"{count_of(counts.tree_files, 'tree file')}, {count_of(counts.records, 'record')}, "
        f"{count_of(counts.objects, 'object')} and the content of {counts.contents:,} in "
        f"{SCHEME}{name}"
    ]
    for kind, count in report.kinds.items():
        some = [each for each in report.findings if each.kind is kind]
        first = some[0]
        lines.append(f"{first.severity.value}: {count:,} {kind.value}: {first.meaning}")
        lines += [f"    {_line(each)}" for each in some[:_SHOWN]]
        lines.append(f"    what to do: {first.remedy}")
    if report.is_healthy:
        lines.append("nothing is lost or damaged")
    lines.append(f"report: {one_line(report.location)}")
    return "\n".join(lines)


def _line(each: Finding) -> str:
    parts = [one_line(each.subject)]
    if each.first_path:
        last = "" if each.last_path == each.first_path else f" to {one_line(each.last_path)}"
        parts.append(f"path {one_line(each.first_path)}{last}")
    if each.commit_count:
        more = f" and {each.commit_count - 1:,} more" if each.commit_count > 1 else ""
        parts.append(f"commit {each.commits[0][:12]}{more}")
    if each.branches:
        parts.append(f"branches {', '.join(map(one_line, each.branches))}")
    if each.detail:
        parts.append(one_line(each.detail))
    return "; ".join(parts)
