"""Upkeep methods of a repository: dumps, exports, purges, garbage, and its registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparklake._lightness import lazy_module
from sparklake.argument_types import checks_arguments
from sparklake.verbs.base.periods import GRACE

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from sparklake.engine.lazy_rows import Rows
    from sparklake.graveler import keys
    from sparklake.graveler.ports import Operation, Write
    from sparklake.graveler.ports.registers import HookRun, Purge
    from sparklake.rows.objects import ObjectInfo
    from sparklake.verbs.base.context import Context
    from sparklake.verbs.checks import check as checks
    from sparklake.verbs.checks import report as check_reports
    from sparklake.verbs.checks.report import CheckLevel, CheckReport
    from sparklake.verbs.dumps import dump
    from sparklake.verbs.dumps.dump import RefsDump
    from sparklake.verbs.exports import export as exports
    from sparklake.verbs.exports import work
    from sparklake.verbs.exports.work import ExportResult
    from sparklake.verbs.gc import collect
    from sparklake.verbs.gc.collect import Collection
    from sparklake.verbs.hooks import guard as hooks
    from sparklake.verbs.purges import purge as purges
    from sparklake.verbs.refs import moves
    from sparklake.verbs.repairs import repair as repairs
    from sparklake.verbs.repairs.repair import RepairReport
    from sparklake.verbs.repairs.steps import RepairStep
    from sparklake.verbs.tables import written
else:
    # Lazy imports: a verb is imported when it is called. All of them take 0.5 s.
    keys = lazy_module("sparklake.graveler.keys")
    exports = lazy_module("sparklake.verbs.exports.export")
    work = lazy_module("sparklake.verbs.exports.work")
    checks = lazy_module("sparklake.verbs.checks.check")
    check_reports = lazy_module("sparklake.verbs.checks.report")
    collect = lazy_module("sparklake.verbs.gc.collect")
    hooks = lazy_module("sparklake.verbs.hooks.guard")
    purges = lazy_module("sparklake.verbs.purges.purge")
    dump = lazy_module("sparklake.verbs.dumps.dump")
    moves = lazy_module("sparklake.verbs.refs.moves")
    repairs = lazy_module("sparklake.verbs.repairs.repair")
    written = lazy_module("sparklake.verbs.tables.written")


@checks_arguments
class RepositoryUpkeep:
    """The upkeep methods of a repository. No branch gets a merge."""

    _context: Context

    def operations(self, limit: int = 100, ref: str | None = None) -> Sequence[Operation]:
        """Return the latest moves of refs, newest first; of one branch or tag, or of all.

        Raises InvalidInputError for a limit below 1.
        """
        return moves.list_operations(self._context, limit, ref)

    def hook_runs(self, limit: int = 100, ref: str | None = None) -> Sequence[HookRun]:
        """Return the latest runs of hooks, newest first; of one branch or tag, or of all.

        Raises InvalidInputError for a limit below 1.
        """
        return hooks.list_hook_runs(self._context, limit, ref)

    def hook_run(self, run_id: str) -> HookRun:
        """Return a run of hooks by its id; raise NotFoundError."""
        return hooks.get_hook_run(self._context, run_id)

    def writes(self) -> Sequence[Write]:
        """Return the open and abandoned writes of tables, oldest first.

        A write whose driver died stays open until it is abandoned.
        """
        return written.list_writes(self._context)

    def abandon_write(self, write_id: str) -> Write:
        """Abandon an open write; raise NotFoundError, WriteEndedError.

        It can never stage its files.
        """
        return written.abandon_write(self._context, write_id)

    def dump_refs(self, overwrite: bool = False, check_addresses: bool = True) -> RefsDump:
        """Write all branches, tags and commits at one moment into the storage namespace.

        `lake.restore_repository` and lakeFS can create a repository from them. Staged changes are
        not included. The warnings of the result name what lakeFS cannot use; without
        `check_addresses`, no address is read. Raises NamespaceInUseError if another repository has
        taken over. Unless `overwrite`, raises NewerDumpError if another program has dumped refs
        since, and RefsLostError if the dump has commits or refs that the ref store has lost.
        """
        return dump.dump_refs(self._context, dump.DumpOptions(overwrite, check_addresses))

    def export(
        self,
        ref: str,
        to: str,
        prefix: str = "",
        since: str | None = None,
        incremental: bool = False,
        keep_removed: bool = False,
        overwrite: bool = False,
        manifest_only: bool = False,
        dry_run: bool = False,
        manifest_format: str = "parquet",
    ) -> ExportResult:
        """Copy the objects of a commit to a folder or bucket, with a manifest.

        Staged changes are not included. With `since`, or `incremental`, which continues from the
        last export there, only differences are copied, and removed objects are deleted unless
        `keep_removed`. `overwrite` accepts a place that is not empty. Raises UnfitError,
        MissingFileError, CorruptFileError; docs/export.md has the rest.
        """
        options = work.ExportOptions(
            prefix=prefix,
            since=since,
            incremental=incremental,
            keep_removed=keep_removed,
            overwrite=overwrite,
            manifest_only=manifest_only,
            dry_run=dry_run,
            format=manifest_format,
        )
        return exports.export(self._context, ref, to, options)

    def manifest(
        self,
        ref: str,
        to: str,
        prefix: str = "",
        format: str = "parquet",  # noqa: A002
    ) -> ExportResult:
        """Write the objects of a commit as rows to an empty folder; copy no object.

        `format` is parquet, csv or jsonl.
        """
        return self.export(ref, to, prefix, manifest_only=True, manifest_format=format)

    def purge(
        self,
        paths: Sequence[str],
        message: str = "",
        commit: bool = False,
        even_shared: bool = False,
        also_external: bool = False,
        dry_run: bool = False,
    ) -> Purge:
        """Delete the bytes of objects from all of history; ids stay valid.

        `paths` are exact, globs, or prefixes that end with '/'. Raises PurgeBlockedError if a
        branch has them, unless `commit` commits their removal, or if other paths share the bytes,
        unless `even_shared`. Objects outside the storage namespace are only listed, unless
        `also_external`. docs/purge.md has the rest.
        """
        options = purges.PurgeOptions(
            patterns=keys.path_tuple(paths, "the paths of a purge"),
            message=message,
            commit=commit,
            even_shared=even_shared,
            also_external=also_external,
            dry_run=dry_run,
        )
        return purges.purge(self._context, options)

    def resume_purge(self, purge_id: str) -> Purge:
        """Resume an unfinished purge; raise NotFoundError."""
        return purges.resume_purge(self._context, purge_id)

    def purges(self) -> Sequence[Purge]:
        """Return all purges, newest first."""
        return self._context.refs.purges.list()

    def get_purge(self, purge_id: str) -> Purge:
        """Return a purge by its id; raise NotFoundError."""
        return purges.get_purge(self._context, purge_id)

    def receipt(self, purge_id: str) -> str:
        """Return the folder of a purge's receipt, which has Parquet files."""
        return purges.receipt_of(self._context, purges.get_purge(self._context, purge_id))

    def collect_garbage(
        self,
        dry_run: bool = False,
        sweep: str | None = None,
        grace: timedelta = GRACE,
        work: str | None = None,
    ) -> Collection:
        """Delete objects of the namespace that no kept commit and no staged change names.

        Commits that the retention does not keep expire. Objects younger than the grace period stay.
        A dry run deletes nothing; its list can be swept later by its id. `work` is a folder for the
        lists, for a namespace that is full. Raises CollectionOpenError while another collection is
        running.
        """
        return collect.collect_garbage(
            self._context, dry_run=dry_run, sweep=sweep, grace=grace, lists=work
        )

    def garbage(self, run_id: str) -> Rows[ObjectInfo]:
        """Return all garbage that a collection has found, by address; raise NotFoundError."""
        return collect.garbage_rows(self._context, run_id)

    def check(
        self,
        level: CheckLevel | str = "objects",
        sample: float = 1.0,
        resume: str | None = None,
        to: str | None = None,
        grace: timedelta = GRACE,
    ) -> CheckReport:
        """Verify the repository; return a report of what is lost, damaged or left over.

        `level` is "refs", "tables", "objects" or "content", each with the levels before it. With
        `content`, all objects are read, or a `sample`: a share up to 1. `resume` is the id of a
        check that did not end. `to` is a folder for the report, by default in the storage
        namespace. Unnamed objects below `grace` are reported as young. Nothing is changed.
        docs/check-and-repair.md has the rest.
        """
        options = check_reports.CheckOptions(
            check_reports.parse_level(level), sample, grace, resume, to
        )
        return checks.check(self._context, options)

    def repair(
        self,
        level: CheckLevel | str = "objects",
        sources: Sequence[str] = (),
        dry_run: bool = False,
        accept: Callable[[RepairStep], bool] | None = None,
    ) -> RepairReport:
        """Restore what a check of the level finds lost or damaged.

        Tables come from the local cache, copies of the namespace in `sources`, or records of other
        commits; objects from equal ones in history or in `sources`; refs from their dump. Ids and
        checksums prove each result, and replaced files are kept. `accept` decides each step; by
        default all are done. A dry run only plans. Raises CollectionOpenError, ReadOnlyError.
        docs/check-and-repair.md has the rest.
        """
        copies = keys.path_tuple(sources, "the sources of a repair")
        options = repairs.RepairOptions(
            check_reports.parse_level(level), copies, dry_run, accept or (lambda _: True)
        )
        return repairs.repair(self._context, options)
