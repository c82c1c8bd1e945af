"""The settings of a restored repository.

Files beside a dump have the names of the dump. A restore renames them as it renames refs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf

from sparklake.errors import CorruptFileError, InvalidInputError, InvalidNameError, SparklakeError
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS, MAX_RANGE_RECORDS
from sparklake.graveler.dumps.dump import DumpManifest, FoundDump
from sparklake.graveler.dumps.lakefs_rules import find_lakefs_rules
from sparklake.graveler.dumps.ref_files import Entity
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.refs.names import check_pattern, validate_branch_name
from sparklake.graveler.retention import BranchRetention, Retention
from sparklake.namespace.layout import DUMP_SETTINGS_KEY, PROTECTION_RULES_KEY, RETENTION_RULES_KEY
from sparklake.verbs.dumps.settings import (
    KeptSettings,
    belong_together,
    kept_settings,
    read_settings,
    renames_of,
)

_DEFAULT_BRANCH = "main"
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Options of a restored repository. None means the value of the dump.

    `renames` maps old to new names of branches and tags, as in `find_dump`, and overrides those of
    an earlier restore. `incomplete` accepts missing and damaged tree files. `manifest` is a path or
    URI, "-" for stdin, or None for that of the namespace. `accept_old` accepts a dump that is not
    the newest.
    """

    name: str
    default_branch: str | None = None
    range_records: int | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    incomplete: bool = False
    manifest: str | None = None
    accept_old: bool = False


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The settings beside a dump. `kept` is None if none belong to it.

    `is_older` marks settings of an older dump; `problems` are set for a damaged file.
    """

    kept: KeptSettings | None = None
    is_older: bool = False
    problems: Sequence[SparklakeError] = ()


def find_settings(store: ObjectStore, manifest: DumpManifest) -> SettingsFile:
    try:
        kept = read_settings(store)
        if kept is None:
            return SettingsFile()
        _ = kept.settings  # Its rules may be invalid.
    except CorruptFileError as error:
        return SettingsFile(problems=[error])
    except InvalidInputError as error:
        problem = (
            f"{DUMP_SETTINGS_KEY} in {store.uri} is damaged ({error}): restore it from a backup"
        )
        return SettingsFile(problems=[CorruptFileError(problem)])
    if belong_together(store, kept, manifest):
        return SettingsFile(kept)
    return SettingsFile(is_older=True)


# --- renames --------------------------------------------------------------------------------------


def joined_renames(earlier: Mapping[str, str], given: Mapping[str, str]) -> Mapping[str, str]:
    """Merge an earlier restore's renames with the given ones, which take precedence."""
    kept = {
        old: new
        for old, new in earlier.items()
        if old not in given and old.partition("/")[2] not in given
    }
    return {**kept, **given}


def settled_renames(renames: Mapping[str, str], found: FoundDump) -> dict[str, str]:
    """Return effective renames with `heads/` or `tags/` before each old name.

    A valid rename without a prefix changes a branch or a tag, because both would have one name.
    """
    branches = {*(each.name for each in found.refs.branches), *found.refused}
    settled = {
        old if "/" in old else f"{'heads' if new in branches else 'tags'}/{old}": new
        for old, new in renames.items()
    }
    return {old: new for old, new in settled.items() if old.partition("/")[2] != new}


def _new_name(renames: Mapping[str, str], branch: str) -> str:
    return renames.get(f"heads/{branch}", branch)


def _old_name(renames: Mapping[str, str], branch: str) -> str:
    for old, new in renames.items():
        if new == branch and old.startswith("heads/"):
            return old.removeprefix("heads/")
    return branch


def _old_pattern(renames: Mapping[str, str], pattern: str) -> str:
    """Return the old name, or the pattern itself if no rule can have the old name."""
    old = _old_name(renames, pattern)
    with suppress(InvalidInputError):
        check_pattern(old)
        return old
    return pattern


def _renamed_rules(
    settings: RepositorySettings, renamed: Callable[[str], str]
) -> RepositorySettings:
    """Rename rule patterns, and join rules of one name."""
    protection: dict[str, frozenset[Action]] = {}
    for each in settings.protection:
        pattern = renamed(each.pattern)
        protection[pattern] = protection.get(pattern, frozenset()) | each.actions
    rules = tuple(ProtectionRule(*each) for each in sorted(protection.items()))
    retention = settings.retention and _renamed_retention(settings.retention, renamed)
    return replace(settings, protection=rules, retention=retention)


def _renamed_retention(retention: Retention, renamed: Callable[[str], str]) -> Retention:
    days: dict[str, int] = {}
    for each in retention.branches:  # The order decides which rule applies.
        pattern = renamed(each.pattern)
        days[pattern] = max(each.days, days.get(pattern, 0))
    return replace(retention, branches=tuple(BranchRetention(*each) for each in days.items()))


# --- problems of options --------------------------------------------------------------------------


def invalid_options(options: RestoreOptions) -> list[SparklakeError]:
    """Return the problems of options regardless of the dump."""
    problems: list[SparklakeError] = []
    if options.default_branch is not None:
        try:
            validate_branch_name(options.default_branch)
        except InvalidNameError as error:
            problems.append(error)
    if options.range_records is not None and not 1 <= options.range_records <= MAX_RANGE_RECORDS:
        problems.append(InvalidInputError(f"range_records must be 1 to {MAX_RANGE_RECORDS}"))
    return problems


def option_problems(
    options: RestoreOptions, file: SettingsFile, found: FoundDump, renames: Mapping[str, str]
) -> list[SparklakeError]:
    problems = invalid_options(options)
    if not any(isinstance(each, InvalidNameError) for each in problems):
        problems += _branch_problems(options, file, found, renames)
    return [*problems, *_range_records_problems(options.range_records, file.kept)]


def _branch_problems(
    options: RestoreOptions, file: SettingsFile, found: FoundDump, renames: Mapping[str, str]
) -> Sequence[SparklakeError]:
    if options.default_branch is None and file.problems:
        return ()  # They name the default branch.
    name = _default_branch(options, file.kept, renames)
    names = [each.name for each in found.refs.branches]
    if Entity.BRANCH in found.unread or name in (*names, *found.refused):
        return ()
    return [_no_branch(name, names)]


def _default_branch(
    options: RestoreOptions, kept: KeptSettings | None, renames: Mapping[str, str]
) -> str:
    dumped = kept.default_branch if kept else _DEFAULT_BRANCH
    return options.default_branch or _new_name(renames, dumped)


def _no_branch(name: str, names: Collection[str]) -> InvalidInputError:
    known = f"choose one of its {len(names)} branches, such as {_some(names)}"
    return InvalidInputError(
        f"the dump has no branch {name!r} to use as the default: "
        f"{known if names else 'it has no branches'}"
    )


def _range_records_problems(
    wanted: int | None, kept: KeptSettings | None
) -> Sequence[InvalidInputError]:
    is_possible = wanted is not None and 1 <= wanted <= MAX_RANGE_RECORDS
    if is_possible and kept is not None and wanted != kept.range_records:
        problem = f"range_records is {kept.range_records} in this dump, and cannot be changed"
        return [InvalidInputError(problem)]
    return ()


# --- the result -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RestoredSettings:
    """The settings of a restored repository, and notes on omitted parts.

    `beside` are the settings to write beside the dump; None keeps those there.
    """

    default_branch: str
    range_records: int
    settings: RepositorySettings
    beside: KeptSettings | None
    notes: Sequence[str]


def restored_settings(
    store: ObjectStore,
    manifest: DumpManifest,
    options: RestoreOptions,
    file: SettingsFile,
    renames: Mapping[str, str],
) -> RestoredSettings:
    """Return the settings of a repository from a valid dump, by settled renames."""
    default = _default_branch(options, file.kept, renames)
    kept = file.kept
    if kept is None:
        return _settings_of_lakefs(store, manifest, options, default, file.is_older, renames)
    earlier = renames_of(kept, manifest)
    settings = _renamed_rules(kept.settings, lambda name: _new_name(renames, name))
    notes = (
        _NOT_IN_DUMPS,
        *_rename_notes(earlier, options, renames),
        *_rule_notes(kept.settings, settings, renames),
    )
    return RestoredSettings(
        default,
        kept.range_records,
        settings,
        None if renames == earlier else replace(kept, manifests=(manifest,), renames=dict(renames)),
        notes,
    )


def _settings_of_lakefs(
    store: ObjectStore,
    manifest: DumpManifest,
    options: RestoreOptions,
    default: str,
    is_older: bool,
    renames: Mapping[str, str],
) -> RestoredSettings:
    rules = find_lakefs_rules(store, lambda name: _new_name(renames, name))
    notes = [*_NOT_IN_LAKEFS_DUMPS, *rules.notes]
    if is_older:
        notes.append(
            f"the settings in {DUMP_SETTINGS_KEY} belong to an older dump, and were not applied"
        )
    if rules.retention is not None:
        notes.append(f"the rules of garbage collection in {RETENTION_RULES_KEY} were taken over")
    if rules.protection:
        notes.append(f"the rules of branch protection in {PROTECTION_RULES_KEY} were taken over")
    else:
        notes.append(_NO_PROTECTION)
    settings = RepositorySettings(protection=rules.protection, retention=rules.retention)
    dumped = _renamed_rules(settings, lambda name: _old_pattern(renames, name))
    notes += _rule_notes(dumped, settings, renames)
    range_records = options.range_records or DEFAULT_RANGE_RECORDS
    # A later dump may replace this one, and no other one of another program.
    beside = kept_settings(_old_name(renames, default), range_records, dumped, (manifest,), renames)
    return RestoredSettings(default, range_records, settings, beside, notes)


_NOT_IN_DUMPS = (
    "a dump contains no staged changes, no log of operations and no runs of hooks, so these "
    "were not carried over"
)
_NOT_IN_LAKEFS_DUMPS = (
    "a dump of lakeFS contains no uncommitted changes, no repository metadata, no pull requests, "
    "no runs of actions, no users and no permissions, so these were not carried over",
    "the nanoseconds of commit dates were not carried over",
)
_NO_PROTECTION = (
    "lakeFS keeps rules of branch protection in its database, so they were not carried over: "
    "`lakectl branch-protect list` shows them, and `sparklake protect add` adds them here"
)


def _rename_notes(
    earlier: Mapping[str, str], options: RestoreOptions, renames: Mapping[str, str]
) -> Sequence[str]:
    """Return the note on names changed by an earlier restore and this one."""
    chosen = joined_renames(earlier, options.renames).keys() - options.renames.keys()
    again = [f"{old}={new}" for old, new in sorted(renames.items()) if old in chosen]
    if not again:
        return ()
    return [
        f"an earlier restore of this dump renamed branches or tags, and so did this one: "
        f"{_some(again)}. `--rename` OLD=NEW gives them other names"
    ]


def _rule_notes(
    dumped: RepositorySettings, restored: RepositorySettings, renames: Mapping[str, str]
) -> Sequence[str]:
    """Return notes on renamed branches with less protection or retention by wildcard rules."""
    branches = {
        old.removeprefix("heads/"): new for old, new in renames.items() if old.startswith("heads/")
    }
    bare, shorter = list[str](), list[str]()
    for old, new in sorted(branches.items()):
        before = _old_pattern(renames, new)
        if dumped.guard(before).protected - restored.guard(new).protected:
            bare.append(f"{old}={new}")
        if _days(dumped, before) > _days(restored, new):
            shorter.append(f"{old}={new}")
    notes = []
    if bare:
        notes.append(
            f"rules of branch protection cover the old names of renamed branches, and not the new "
            f"ones: {_some(bare)}. `sparklake protect add` protects these branches"
        )
    if shorter:
        notes.append(
            f"by the rules of garbage collection, renamed branches keep commits for fewer days: "
            f"{_some(shorter)}. Before the next collection, `sparklake gc rules set` changes them"
        )
    return notes


def _days(settings: RepositorySettings, branch: str) -> float:
    return settings.retention.days(branch) if settings.retention else inf


def _some(texts: Collection[str]) -> str:
    more = f" and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else ""
    return f"{', '.join([*texts][:_SHOWN])}{more}"
