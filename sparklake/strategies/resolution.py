"""The strategy and rules of a merge, as one value for its tasks."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.graveler.algebra.classify import Strategy
from sparklake.graveler.ids import CommitId
from sparklake.graveler.keys import key_folders
from sparklake.metadata import registry
from sparklake.metadata.delta.table_files import is_skipped
from sparklake.metadata.formats import table_of
from sparklake.strategies.functions import FunctionStrategy
from sparklake.strategies.path_globs import matches
from sparklake.strategies.row_strategy import Rows

NO_STRATEGY = "none"
_SUCCESS = b"_SUCCESS"
_DATA_FILE = b"part-0.parquet"
DEFAULT_LABEL = "default"
"""lakeFS's name of a merge without a strategy."""


Chosen = Strategy | FunctionStrategy | Rows | None
"""A strategy, or None to leave the conflict."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The strategy for conflicts on paths that match a glob.

    The glob of a strategy for rows matches folders of tables.
    """

    glob: str
    strategy: Chosen

    def applies(self, key: bytes) -> bool:
        """Return whether the rule decides a conflict on a key."""
        if isinstance(self.strategy, Rows):
            folders = [each for each in key_folders(key) if each and self.names_table(each)]
            relative = key.removeprefix(folders[-1]) if folders else b""
            # Files that Spark skips have no rows.
            return bool(folders) and (relative == _SUCCESS or not is_skipped(relative))
        return matches(self.glob, key)

    def names_table(self, folder: bytes) -> bool:
        """Return whether the glob matches the folder of a table."""
        return matches(self.folder, folder)

    @property
    def folder(self) -> str:
        """The glob with a slash at its end."""
        return f"{self.glob.rstrip('/')}/"


@dataclass(frozen=True, slots=True)
class Resolution:
    """How conflicts are resolved: by the first matching rule, or else the default strategy.

    With `unite_tables`, the histories of tables are merged before any strategy applies. With
    `schema_check`, a Parquet table must not get files with different types. The objects of an
    `expired_base` can be neither selected nor read.
    """

    strategy: Chosen = None
    rules: tuple[Rule, ...] = ()
    unite_tables: bool = True
    schema_check: bool = True
    expired_base: CommitId | None = None

    def chosen(self, key: bytes) -> Chosen:
        """Return the strategy for a conflict on a key."""
        rule = self.find_rule(key)
        return rule.strategy if rule else self.strategy

    def find_rule(self, key: bytes) -> Rule | None:
        """Return the rule for a conflict on a key, if any."""
        return next((each for each in self.rules if each.applies(key)), None)

    def rows(self, table: bytes) -> Rows | None:
        """Return the strategy for the rows of a table's folder, if any."""
        rule = self.find_rule(table + _DATA_FILE)
        if rule is None or not isinstance(rule.strategy, Rows) or not rule.names_table(table):
            return None
        return rule.strategy

    @property
    def row_tables(self) -> list[bytes]:
        """The folders of rules for rows without wildcards."""
        globs = dict.fromkeys(each.folder for each in self.rules if not {*"*?"} & {*each.glob})
        return [each.encode() for each in globs if self.rows(each.encode())]

    def unites(self, folder: bytes) -> bool:
        """Return whether a table's metadata is merged as a whole.

        Rules that mention the folder of its format may exclude it.
        """
        metadata = registry.format_of(folder)
        if not metadata.has_rules:
            return True
        first, name = folder + metadata.samples[0].encode(), metadata.folder.rstrip("/")
        globs = (rule.glob for rule in self.rules if name in rule.glob)
        return self.unite_tables and not any(matches(glob, first) for glob in globs)

    def side(self, folder: bytes) -> Strategy | None:
        """Return the winning side for the whole table of a metadata folder, if any."""
        metadata = registry.format_of(folder)
        keys = [folder + each.encode() for each in metadata.samples]
        first, *rest = map(self.chosen, (*keys, table_of(folder) + _DATA_FILE))
        if isinstance(first, Strategy) and all(each is first for each in rest):
            return first
        return None

    @property
    def settles_all(self) -> bool:
        """Whether every conflict is resolved and no strategy can fail."""
        every = (self.strategy, *(rule.strategy for rule in self.rules))
        return all(isinstance(each, Strategy) for each in every)

    @property
    def asks_functions(self) -> bool:
        """Whether functions or merges of rows may use base's objects."""
        every = (self.strategy, *(rule.strategy for rule in self.rules))
        return any(isinstance(each, FunctionStrategy | Rows) for each in every)

    @property
    def label(self) -> str:
        """The label in the commit metadata. For a single strategy, it equals lakeFS's."""
        if not self.rules:
            return DEFAULT_LABEL if self.strategy is None else strategy_name(self.strategy)
        labels = [f"{rule.glob}={strategy_name(rule.strategy)}" for rule in self.rules]
        return "; ".join([*labels, f"else {strategy_name(self.strategy)}"])


def strategy_name(strategy: Chosen) -> str:
    """Return the label of a strategy in rules and errors."""
    if strategy is None:
        return NO_STRATEGY
    return strategy.value if isinstance(strategy, Strategy) else strategy.name
