"""The continuation of dest's log: fields that depend on a commit's position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from sparklake.graveler.json_errors import BAD_JSON
from sparklake.metadata.delta.actions import Action, Fields, fields_of
from sparklake.metadata.delta.paths import name_of
from sparklake.metadata.delta.union.log_sides import LogSide, UnionSignature
from sparklake.metadata.delta.union.regions import region_of
from sparklake.metadata.delta.union.schemas import ROW_TRACKING, TIMESTAMPS, is_enabled
from sparklake.metadata.delta.union.settings import carried
from sparklake.metadata.union.conflicts import UnmergeableTableError

_ENABLED = "delta.enableRowTracking"
_IDS = ("baseRowId", "defaultRowCommitVersion")


class _Numbers(msgspec.Struct):
    """A file's number of rows in its statistics, or a table's highest row id in its domain."""

    numRecords: int | None = None  # noqa: N815  (Delta's names)
    rowIdHighWaterMark: int | None = None  # noqa: N815


_decode = msgspec.json.Decoder(_Numbers).decode


@dataclass(slots=True)
class RowIds:
    """The row ids and commit versions of files in dest, by path, and the highest row id."""

    of_files: dict[str, tuple[int, int]]
    highest: int = -1

    @staticmethod
    def of(dest: LogSide, commits: Sequence[Sequence[Action]]) -> RowIds:
        paths = {
            name_of(fields["path"])
            for each in commits
            for fields in fields_of(each, "add", "remove")
        }
        ids = RowIds({})
        for each in dest.commits:
            ids._take(fields_of(each.actions, "add", "remove"))
        ids._take(dest.find_adds(paths).values())
        domain = dest.find_domain(ROW_TRACKING)
        if domain is not None and not domain.get("removed"):
            highest = find_number(domain.get("configuration"), "rowIdHighWaterMark")
            if highest is None:
                raise UnmergeableTableError("the table's highest row id is not known")
            ids.highest = highest
        return ids

    def _take(self, files: Iterable[Fields]) -> None:
        for fields in files:
            if fields.get("baseRowId") is not None:
                self.of_files[name_of(fields["path"])] = _ids(fields)

    def assigned(self, actions: Iterable[Action], version: int) -> list[Action]:
        """Return a commit's actions with the ids of known files, and fresh ids of new ones."""
        highest = self.highest
        result: list[Action] = []
        for action in actions:
            kind = next((each for each in ("add", "remove") if action.get(each)), None)
            domain = action.get("domainMetadata") or {}
            if kind is not None:
                result.append({kind: self._with_ids(action[kind], version, is_new=kind == "add")})
            elif domain.get("domain") != ROW_TRACKING:
                result.append(action)
        if self.highest > highest:
            text = f'{{"rowIdHighWaterMark":{self.highest},"domainName":"{ROW_TRACKING}"}}'
            fields = {"domain": ROW_TRACKING, "configuration": text, "removed": False}
            result.append({"domainMetadata": fields})
        return result

    def _with_ids(self, fields: Fields, version: int, is_new: bool) -> Fields:
        path = name_of(fields["path"])
        if path not in self.of_files and is_new:
            rows = find_number(fields.get("stats"), "numRecords")
            if rows is None:
                raise UnmergeableTableError(
                    "row tracking needs the number of rows, which the statistics of files lack",
                    [path],
                )
            self.of_files[path] = (self.highest + 1, version)
            self.highest += rows
        plain = {name: each for name, each in fields.items() if name not in _IDS}
        return plain | dict(zip(_IDS, self.of_files.get(path, ()), strict=False))

    def check(self, source: LogSide) -> None:
        """Reject commits that may have copied row ids into files, if dest assigned others."""
        if not any(
            is_enabled(each, _ENABLED) for each in (source.metadata, source.start().get("metaData"))
        ):
            return
        for commit in source.own:
            region = region_of(commit, source.metadata)
            removed = {name_of(each["path"]): _ids(each) for each in commit.fields("remove")}
            if (region and region.ends_files) or {
                key.path for key in commit.adds
            } <= removed.keys():
                continue
            different = [
                path for path, ids in removed.items() if ids != self.of_files.get(path, ids)
            ]
            if different:
                raise UnmergeableTableError(
                    "source rewrote rows whose row ids are different in dest, because both sides "
                    "added rows. Repeat the change on a branch of dest",
                    different,
                )


def _ids(fields: Fields) -> tuple[int, int]:
    return fields.get("baseRowId", -1), fields.get("defaultRowCommitVersion", -1)


def find_number(text: object, name: str) -> int | None:
    """Return a number in statistics or in the domain of row ids, or None if it is not recorded."""
    try:
        number: int | None = getattr(_decode(text if isinstance(text, str) else "{}"), name)
    except BAD_JSON:
        return None
    return number


def check_tracked(source: LogSide, dest: LogSide) -> None:
    """Reject row tracking that source enabled beside new files of dest without row ids."""
    if is_enabled(source.metadata, _ENABLED) and not is_enabled(dest.metadata, _ENABLED):
        files = [
            name_of(each["path"])
            for commit in dest.own
            for each in commit.fields("add")
            if each.get("baseRowId") is None
        ]
        if files:
            raise UnmergeableTableError(
                "source enabled row tracking, and dest added files without row ids", files
            )


def continued(
    dest: LogSide, commits: Sequence[Sequence[Action]], signature: UnionSignature
) -> tuple[list[tuple[Action, ...]], RowIds]:
    """Return the commits to append to dest, with its row ids, times and high-water marks.

    The first action of each is its `commitInfo`.
    """
    metadata, protocol, last = dest.metadata or {}, dest.protocol, dest.last_commit
    version = -1 if last is None else last.version
    time = 0 if last is None else max(_times(last.info))
    row_ids: RowIds | None = None
    result = []
    for info, *actions in commits:
        version += 1
        time = max(signature.timestamp, time + 1)
        protocol = next(reversed([*fields_of(actions, "protocol")]), protocol)
        changed = next(reversed([*fields_of(actions, "metaData")]), None)
        if changed is not None:
            changed = carried(changed, metadata, version, time)
            actions = [each for each in actions if each.get("metaData") is None]
            if changed != metadata:
                actions.insert(0, {"metaData": changed})
            metadata = changed
        if is_enabled(metadata, TIMESTAMPS):
            info = {"commitInfo": {"inCommitTimestamp": time, **info["commitInfo"]}}
        if "rowTracking" in ((protocol or {}).get("writerFeatures") or ()):
            row_ids = row_ids or RowIds.of(dest, commits)
            actions = row_ids.assigned(actions, version)
        result.append((info, *actions))
    return result, row_ids or RowIds({})


def _times(info: Fields) -> list[int]:
    times = (info.get("inCommitTimestamp"), info.get("timestamp"), 0)
    return [each for each in times if isinstance(each, int)]
