"""Repository settings: read-only, protected branches, labels, retention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sparklake.choices import parse_choice
from sparklake.errors import InvalidInputError, NotFoundError
from sparklake.graveler.guards import ALL_ACTIONS, Action, ProtectionRule, RepositorySettings
from sparklake.graveler.retention import BranchRetention, Retention
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.publish import check_texts
from sparklake.verbs.base.runner import runs_verbs


@runs_verbs
@dataclass(frozen=True, slots=True)
class LiveSettings:
    """The settings of a repository, read on each access."""

    _context: Context

    @property
    def read_only(self) -> bool:
        """Whether the repository rejects all changes."""
        return self.get().read_only

    @property
    def protection(self) -> tuple[ProtectionRule, ...]:
        """The protection rules, in the order of their patterns."""
        return self.get().protection

    @property
    def metadata(self) -> Mapping[str, str]:
        """The labels of the repository."""
        return self.get().metadata

    def get(self) -> RepositorySettings:
        """Return a consistent snapshot of all settings."""
        return self._context.refs.settings.get()

    def set_read_only(self, read_only: bool = True) -> None:
        """Reject or allow all changes of the repository, except its settings."""
        self._context.refs.settings.change(lambda now: replace(now, read_only=read_only))

    def protect(self, *patterns: str, block: Iterable[Action | str] = ALL_ACTIONS) -> None:
        """Block actions, except merges, on all matching branches, including future ones.

        A rule of the same pattern is replaced. On return, no blocked action is running. Raises
        InvalidInputError.
        """
        actions = frozenset(
            parse_choice(Action, each, f"{each!r} cannot be blocked: choose from") for each in block
        )
        rules = {each: ProtectionRule(each, actions) for each in _named(patterns, "pattern")}

        def edit(now: RepositorySettings) -> RepositorySettings:
            return _protected_by(now, {each.pattern: each for each in now.protection} | rules)

        self._context.refs.settings.change(edit)

    def unprotect(self, *patterns: str) -> None:
        """Remove the rules of exactly these patterns, or none. Raises NotFoundError."""
        removed = _named(patterns, "pattern")

        def edit(now: RepositorySettings) -> RepositorySettings:
            rules = {each.pattern: each for each in now.protection}
            _check_there(
                removed, rules, "rule with the pattern", "`sparklake protect list` shows them"
            )
            return _protected_by(now, {name: rules[name] for name in rules.keys() - removed})

        self._context.refs.settings.change(edit)

    @property
    def retention(self) -> Retention | None:
        """The retention of commits; None keeps them forever."""
        return self.get().retention

    def set_retention(
        self,
        default_days: int,
        branches: Mapping[str, int] | None = None,
        tree_days: int | None = None,
    ) -> Retention:
        """Allow garbage collection of commits older than `default_days`; replaces all rules.

        With `tree_days`, collections also delete unreferenced trees, and those of commits expired
        at least that many days ago, which can then no longer be listed or compared. Raises
        InvalidInputError.
        """
        rules = tuple(BranchRetention(*each) for each in (branches or {}).items())
        retention = Retention(default_days, rules, tree_days)
        self._context.refs.settings.change(lambda now: replace(now, retention=retention))
        return retention

    def clear_retention(self) -> None:
        """Keep every commit forever, except expired commits."""
        self._context.refs.settings.change(lambda now: replace(now, retention=None))

    def set_metadata(self, metadata: Mapping[str, str]) -> None:
        """Set the given labels and keep the others. Raises InvalidInputError."""
        self.edit_metadata(metadata, ())

    def remove_metadata(self, *names: str) -> None:
        """Remove the given labels, or none. Raises NotFoundError."""
        self.edit_metadata({}, _named(names, "label"))

    def edit_metadata(
        self, metadata: Mapping[str, str], removed: Iterable[str], read_only: bool | None = None
    ) -> RepositorySettings:
        """Set and remove labels, and set `read_only`, in one step; return the new settings."""
        new_labels, to_remove = checked_metadata(metadata), set(removed)

        def edit(now: RepositorySettings) -> RepositorySettings:
            _check_there(to_remove, now.metadata, "label", "`sparklake repo show` shows them")
            others = {name: text for name, text in now.metadata.items() if name not in to_remove}
            labels = checked_metadata({**others, **new_labels})
            now_read_only = now.read_only if read_only is None else read_only
            return replace(now, metadata=dict(sorted(labels.items())), read_only=now_read_only)

        return self._context.refs.settings.change(edit)


def checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    if not all(metadata):
        raise InvalidInputError("a label needs a name")
    check_texts([*metadata.keys(), *metadata.values()], "a repository's labels")
    return dict(metadata)


def _named(names: Iterable[str], noun: str) -> set[str]:
    values = set(names)
    if not values:
        raise InvalidInputError(f"pass at least one {noun}")
    return values


def _check_there(
    required: Iterable[str], there: Mapping[str, object], noun: str, advice: str
) -> None:
    for each in sorted(required):
        if each not in there:
            raise NotFoundError(f"the {noun} {each!r} does not exist; {advice}")


def _protected_by(
    settings: RepositorySettings, rules: Mapping[str, ProtectionRule]
) -> RepositorySettings:
    return replace(settings, protection=tuple(rules[name] for name in sorted(rules)))
