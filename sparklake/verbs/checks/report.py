"""Options and report of a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any

from sparklake._html import html_table
from sparklake.choices import parse_choice
from sparklake.rows.findings import (
    FINDING_SCHEMA,
    KIND_FACTS,
    Finding,
    FindingKind,
    Severity,
    finding_document,
)
from sparklake.verbs.base.arguments import GRACE

WARNING_EXIT_CODE = 9
ERROR_EXIT_CODE = 10


class CheckLevel(str, Enum):
    """The depth of a check. Each level includes the levels before it."""

    REFS = "refs"
    TREES = "trees"
    OBJECTS = "objects"
    CONTENT = "content"

    @property
    def depth(self) -> int:
        """The position of the level: 0 for refs."""
        return list(CheckLevel).index(self)


def parse_level(text: CheckLevel | str) -> CheckLevel:
    return parse_choice(CheckLevel, text, f"{text!r} is not a level: choose one of")


@dataclass(frozen=True, slots=True)
class CheckOptions:
    level: CheckLevel = CheckLevel.OBJECTS
    sample: float = 1.0
    grace: timedelta = GRACE
    resume: str | None = None
    to: str | None = None


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """The amounts of data read by a check.

    `objects` are the distinct objects of retained commits and staged changes, `contents` the
    objects whose bytes were read, and `purged` the referenced objects deleted by a purge.
    """

    commits: int = 0
    tree_files: int = 0
    records: int = 0
    objects: int = 0
    contents: int = 0
    purged: int = 0


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check.

    `kinds` counts all findings, and `findings` has the first ones of each kind. All of them are
    rows of the Parquet files in `location`.
    """

    id: str
    level: CheckLevel
    counts: CheckCounts
    kinds: Mapping[FindingKind, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    location: str = ""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The first errors and warnings of each kind."""
        return tuple(each for each in self.findings if each.severity is not Severity.LEFTOVER)

    @property
    def leftovers(self) -> tuple[Finding, ...]:
        """The first harmless leftovers of each kind."""
        return tuple(each for each in self.findings if each.severity is Severity.LEFTOVER)

    @property
    def is_healthy(self) -> bool:
        """Whether there is no error and no warning. Leftovers are possible."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 without faults, 9 for warnings, 10 for errors."""
        severities = {KIND_FACTS[each].severity for each in self.kinds}
        if Severity.ERROR in severities:
            return ERROR_EXIT_CODE
        return WARNING_EXIT_CODE if Severity.WARNING in severities else 0

    def document(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "level": self.level.value,
            "is_healthy": self.is_healthy,
            "exit_code": self.exit_code,
            "counts": asdict(self.counts),
            "kinds": {kind.value: count for kind, count in self.kinds.items()},
            "findings": list(map(finding_document, self.findings)),
            "location": self.location,
        }

    def _repr_html_(self) -> str:
        rows = map(finding_document, self.findings)
        return html_table(f"check {self.id}", FINDING_SCHEMA.names, rows)
