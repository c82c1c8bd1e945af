"""The settings of a restored repository: those stored with the dump, renamed like refs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sparklake.errors import CorruptFileError, InvalidInputError, InvalidNameError, SparklakeError
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS, MAX_RANGE_RECORDS
from sparklake.graveler.dumps.dump import DumpManifest, FoundDump
from sparklake.graveler.dumps.lakefs_rules import find_lakefs_rules
from sparklake.graveler.dumps.ref_files import Entity
from sparklake.graveler.guards import Action, ProtectionRule, RepositorySettings
from sparklake.graveler.ports import ObjectStore
from sparklake.graveler.refs.names import check_pattern, validate_branch_name
from sparklake.graveler.retention import BranchRetention
from sparklake.layout import DUMP_SETTINGS_KEY, PROTECTION_RULES_KEY, RETENTION_RULES_KEY
from sparklake.verbs.dumps.settings import (
    DumpSettings,
    belong_together,
    dump_settings,
    read_settings,
    renames_of,
)

_DEFAULT_BRANCH = "main"
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Options of a restored repository. None means the value of the dump.

    `renames` maps old to new names of branches and tags, as in `find_dump`, and overrides those of
    an earlier restore. `incomplete` accepts missing and damaged tree files, `accept_old` a dump
    that is not the newest. `manifest` is a path or URI, or "-" for stdin.
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
    """The settings stored with a dump, if they belong to it.

    `is_older` marks those of an older dump.
    """

    settings: DumpSettings | None = None
    is_older: bool = False
    problems: Sequence[SparklakeError] = ()


def find_settings(store: ObjectStore, manifest: DumpManifest) -> SettingsFile:
    try:
        stored = read_settings(store)
        if stored is None:
            return SettingsFile()
        _ = stored.repository_settings  # Its rules may be invalid.
    except CorruptFileError as error:
        return SettingsFile(problems=[error])
    except InvalidInputError as error:
        problem = (
            f"{DUMP_SETTINGS_KEY} in {store.uri} is damaged ({error}): restore it from a backup"
        )
        return SettingsFile(problems=[CorruptFileError(problem)])
    if belong_together(store, stored, manifest):
        return SettingsFile(stored)
    return SettingsFile(is_older=True)


def joined_renames(earlier: Mapping[str, str], renames: Mapping[str, str]) -> Mapping[str, str]:
    """Merge an earlier restore's renames with new ones, which take precedence."""
    inherited = {
        old: new
        for old, new in earlier.items()
        if old not in renames and old.partition("/")[2] not in renames
    }
    return {**inherited, **renames}


def settled_renames(renames: Mapping[str, str], dump: FoundDump) -> dict[str, str]:
    """Return effective renames, with `heads/` or `tags/` before each old name.

    A valid rename without a prefix applies to a branch or a tag, never to both: they would share
    the new name.
    """
    branches = {*(each.name for each in dump.refs.branches), *dump.refused}
    settled = {
        old if "/" in old else f"{'heads' if new in branches else 'tags'}/{old}": new
        for old, new in renames.items()
    }
    return {old: new for old, new in settled.items() if old.partition("/")[2] != new}


def _new_name(renames: Mapping[str, str], branch: str) -> str:
    return renames.get(f"heads/{branch}", branch)


def _old_name(renames: Mapping[str, str], branch: str) -> str:
    matches = (old for old, new in renames.items() if new == branch and old.startswith("heads/"))
    return next((old.removeprefix("heads/") for old in matches), branch)


def _old_pattern(renames: Mapping[str, str], pattern: str) -> str:
    """Return the old name, or the pattern itself if the old name is not a valid pattern."""
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
    retention = settings.retention
    if retention is not None:
        days: dict[str, int] = {}
        for rule in retention.branches:  # The order decides which rule applies.
            pattern = renamed(rule.pattern)
            days[pattern] = max(rule.days, days.get(pattern, 0))
        branches = tuple(BranchRetention(*each) for each in days.items())
        retention = replace(retention, branches=branches)
    return replace(settings, protection=rules, retention=retention)


def invalid_options(options: RestoreOptions) -> list[SparklakeError]:
    """Return the problems of options that do not depend on the dump."""
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
    options: RestoreOptions, file: SettingsFile, dump: FoundDump, renames: Mapping[str, str]
) -> list[SparklakeError]:
    problems = invalid_options(options)
    has_name = options.default_branch is not None or not file.problems
    if has_name and not any(isinstance(each, InvalidNameError) for each in problems):
        name = _default_branch(options, file.settings, renames)
        names = [each.name for each in dump.refs.branches]
        if Entity.BRANCH not in dump.unread and name not in (*names, *dump.refused):
            choice = f"choose one of its {len(names)} branches, such as {_shorten(names)}"
            problem = (
                f"the dump has no branch {name!r} to use as the default: "
                f"{choice if names else 'it has no branches'}"
            )
            problems.append(InvalidInputError(problem))
    size, stored = options.range_records, file.settings
    is_valid = size is not None and 1 <= size <= MAX_RANGE_RECORDS
    if is_valid and stored is not None and size != stored.range_records:
        problem = f"range_records is {stored.range_records} in this dump, and cannot be changed"
        problems.append(InvalidInputError(problem))
    return problems


def _default_branch(
    options: RestoreOptions, stored: DumpSettings | None, renames: Mapping[str, str]
) -> str:
    dumped = stored.default_branch if stored else _DEFAULT_BRANCH
    return options.default_branch or _new_name(renames, dumped)


@dataclass(frozen=True, slots=True)
class RestoredSettings:
    """The settings of a restored repository. A `beside` of None keeps the settings file."""

    default_branch: str
    range_records: int
    settings: RepositorySettings
    beside: DumpSettings | None
    notes: Sequence[str]


def restored_settings(
    store: ObjectStore,
    manifest: DumpManifest,
    options: RestoreOptions,
    file: SettingsFile,
    renames: Mapping[str, str],
) -> RestoredSettings:
    """Return the settings of a repository from a valid dump, by settled renames."""
    default = _default_branch(options, file.settings, renames)
    stored = file.settings
    if stored is None:
        return _settings_of_lakefs(store, manifest, options, default, file.is_older, renames)
    earlier = renames_of(stored, manifest)
    settings = _renamed_rules(stored.repository_settings, lambda name: _new_name(renames, name))
    notes = [_NOT_IN_DUMPS]
    inherited = joined_renames(earlier, options.renames).keys() - options.renames.keys()
    again = [f"{old}={new}" for old, new in sorted(renames.items()) if old in inherited]
    if again:
        notes.append(
            f"an earlier restore of this dump renamed branches or tags, and so did this one: "
            f"{_shorten(again)}. `--rename` OLD=NEW gives them other names"
        )
    beside = None
    if renames != earlier:
        beside = replace(stored, manifests=(manifest,), renames=dict(renames))
    return RestoredSettings(default, stored.range_records, settings, beside, notes)


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
        notes.append(f"the garbage-collection rules in {RETENTION_RULES_KEY} were adopted")
    if rules.protection:
        notes.append(f"the branch-protection rules in {PROTECTION_RULES_KEY} were adopted")
    else:
        notes.append(_NO_PROTECTION)
    settings = RepositorySettings(protection=rules.protection, retention=rules.retention)
    dumped = _renamed_rules(settings, lambda name: _old_pattern(renames, name))
    range_records = options.range_records or DEFAULT_RANGE_RECORDS
    # A later dump may replace this one, and no other one of another program.
    beside = dump_settings(_old_name(renames, default), range_records, dumped, (manifest,), renames)
    return RestoredSettings(default, range_records, settings, beside, notes)


_NOT_IN_DUMPS = (
    "a dump contains no staged changes, no operations log and no hook runs, so these were not "
    "migrated"
)
_NOT_IN_LAKEFS_DUMPS = (
    "a dump of lakeFS contains no uncommitted changes, no repository metadata, no pull requests, "
    "no action runs, no users and no permissions, so these were not migrated",
    "the nanoseconds of commit dates were dropped",
)
_NO_PROTECTION = (
    "lakeFS keeps branch-protection rules in its database, so they were not migrated: "
    "`lakectl branch-protect list` shows them, and `sparklake protect add` adds them here"
)


def _shorten(texts: Collection[str]) -> str:
    more = f" and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else ""
    return f"{', '.join([*texts][:_SHOWN])}{more}"
