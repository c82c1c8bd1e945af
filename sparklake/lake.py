"""A lake: its repositories."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from sparklake._html import html_table
from sparklake.choices import parse_choice
from sparklake.config import (
    DEFAULT_ONCE,
    NO_CACHE,
    WEBHOOKS_ONLY,
    CacheSettings,
    Engine,
    HookSettings,
    Settings,
    load_settings,
)
from sparklake.engine.base import UNWATCHED, Progress
from sparklake.engine.choice import Runners
from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MissingDependencyError,
    RepositoryNotFoundError,
    SparklakeError,
)
from sparklake.graveler.commits import first_commit
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS, MAX_RANGE_RECORDS
from sparklake.graveler.guards import RepositorySettings
from sparklake.graveler.ports import ObjectStore, RefStore, RepositoryInfo
from sparklake.graveler.refs.names import suggestion, validate_branch_name, validate_repository_name
from sparklake.repository import Repository
from sparklake.rows.settings import Workspace
from sparklake.session import is_spark_3
from sparklake.stores.cache import DiskCache, find_cache
from sparklake.stores.objects import normalise_store_uri, open_store, use_timeouts
from sparklake.verbs.base.commit_graph import CommitGraph
from sparklake.verbs.base.context import Context, now
from sparklake.verbs.base.open_trees import TreeCaches
from sparklake.verbs.base.runner import runs_verbs
from sparklake.verbs.hooks.guard import HookGuard

# Lazy imports: a verb is imported where it is called. All of them take 0.5 s.
if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparklake.dataframes import LakeReader, LakeSession, LakeWriter
    from sparklake.sql.session import SqlSession
    from sparklake.streams import LakeStreamWriter

_LOG = logging.getLogger("sparklake.cache")


def connect(
    home: str | Path | None = None,
    dsn: str | None = None,
    spark: SparkSession | None = None,
    engine: Engine | str | None = None,
    progress: Progress = UNWATCHED,
) -> Lake:
    """Open a lake. A JVM starts only on demand.

    Its refs are in the Postgres at `dsn`, or in an embedded one in `home`. Raises
    RefStoreUnavailableError.

    Examples:
        >>> with sparklake.connect() as lake:
        ...     lake.repositories()
        []
    """
    settings = load_settings(home, dsn, parse_engine(engine))
    use_timeouts(settings.bucket_timeouts)
    ref_store, release = _open_ref_store(settings)
    runners = Runners(settings.engine, spark, settings.workers, progress, settings.bucket_writes)
    return Lake(
        ref_store=ref_store,
        runners=runners,
        committer=settings.committer,
        release=release,
        cache=settings.cache,
        hooks=settings.hooks,
        settings=settings,
    )


def connect_running(home: str | Path | None = None, dsn: str | None = None) -> Lake:
    """Open an existing, running lake to look up names. Raises RefStoreUnavailableError."""
    from sparklake.stores.postgres import existing_ref_store

    settings = load_settings(home, dsn, Engine.LOCAL)
    if not settings.dsn:
        from sparklake.stores.embedded import running_dsn

        settings = replace(settings, dsn=running_dsn(settings.home))
    use_timeouts(settings.bucket_timeouts)
    ref_store = existing_ref_store(settings.dsn or "")
    runners = Runners(settings.engine, workers=settings.workers)
    return Lake(ref_store, runners, settings.committer, cache=settings.cache)


def _connect_beside(
    own_home: str, own_dsn: str | None, home: str | None = None, spark: SparkSession | None = None
) -> Lake:
    """Open a lake in a Spark process, which receives no passwords.

    The password is taken from this process's settings, or by libpq.
    """
    from sparklake.stores.postgres.connections import public_dsn

    if home is not None:
        return connect(home=home, spark=spark, engine=Engine.LOCAL)
    here = load_settings(own_home).dsn
    dsn = here if here and own_dsn and public_dsn(here) == own_dsn else own_dsn
    return connect(home=own_home, dsn=dsn, spark=spark, engine=Engine.LOCAL)


@runs_verbs
class Lake:
    """The repositories of a lake. Close it, or use it as a context manager."""

    def __init__(
        self,
        ref_store: RefStore,
        runners: Runners,
        committer: str,
        release: Callable[[], None] = lambda: None,
        cache: CacheSettings = NO_CACHE,
        hooks: HookSettings = WEBHOOKS_ONLY,
        settings: Settings | None = None,
    ) -> None:
        self._settings = settings
        self._ref_store = ref_store
        self._runners = runners
        self._committer = committer
        self._release = release
        self._cache = cache
        self._hooks = hooks

    def __repr__(self) -> str:
        settings = self._settings
        place = "" if settings is None else "Postgres" if settings.dsn else str(settings.home)
        # fsspec keeps one file system for each text of its arguments, so lakes differ.
        return f"<Lake({place}) at {id(self):#x}>"

    def _repr_html_(self) -> str:
        # The lake may be closed.
        with suppress(SparklakeError):
            rows = (
                {
                    "repository": each.name,
                    "storage": each.storage_namespace,
                    "default branch": each.default_branch,
                }
                for each in self._ref_store.list_repositories()
            )
            return html_table(repr(self), ("repository", "storage", "default branch"), rows)
        return f"<code>{escape(repr(self))}</code>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads; release connections and the embedded Postgres."""
        self._runners.close()
        if self.cache is not None and self.cache.counts.reads:
            _LOG.info("tables: %s", self.cache.counts)
        self._ref_store.close()
        self._release()

    @property
    def cache(self) -> DiskCache | None:
        """The cache of tree files on this machine, or None; see its `counts`."""
        return find_cache(self._cache)

    @property
    def read(self) -> LakeReader:
        """A reader of tables at refs, in the shape of `spark.read`."""
        from sparklake.dataframes import LakeReader

        return LakeReader(self.repository, self._runners.session())

    def write(self, rows: DataFrame) -> LakeWriter:
        """Return a writer of rows to tables on branches, in the shape of `rows.write`."""
        from sparklake.dataframes import LakeWriter

        return LakeWriter(self.repository, rows)

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> DataFrame:
        """Run a statement of Spark SQL with tables at refs, or one on refs.

        Tables are `lakefs.REPOSITORY.REF.PATH`. Writes to a table of a branch are staged. `args`
        are the values of parameter markers. `USE` applies to later statements of this lake. See
        docs/sql.md. Needs the extra `sql`.

        Raises:
            InvalidInputError: The statement is malformed, or not possible with lake tables.
            TableChangedError: Concurrent changes to a Delta table persist.

        Examples:
            >>> rows = lake.sql("SHOW BRANCHES IN lakefs.lake")
        """
        return self._sql.run_to_df(text, args)

    @cached_property
    def _sql(self) -> SqlSession:
        from sparklake.dataframes import open_sql

        return open_sql(self.repository, self._runners.session)

    def session(self, ref: str) -> LakeSession:
        """Return the Spark session bound to a ref such as `lakefs://lake/dev`.

        In a lake with one repository, `dev` is enough. Unqualified names of tables are looked up
        there first. Raises RefNotFoundError, and InvalidInputError for a ref without a repository.
        """
        from sparklake.dataframes import LakeSession
        from sparklake.uri import RefUri, ref_uri

        if "://" in ref:
            uri = ref_uri(ref)
        else:
            names = [each.name for each in self._ref_store.list_repositories()]
            if len(names) != 1:
                raise InvalidInputError(
                    f"{ref!r} has no repository, and the lake has {len(names)}: write "
                    f"lakefs://REPOSITORY/{ref}"
                )
            uri = RefUri(names[0], ref)
        self.repository(uri.repository).resolve(uri.ref)
        return LakeSession(self.repository, self._runners.session, uri)

    def register(self, spark: SparkSession | None = None) -> None:
        """Register the format "lakefs" of this lake, for `spark.readStream`."""
        from sparklake.verbs.tables.sources import register_format

        opener = self.remote_opener()
        register_format(spark or self._runners.session(), opener)

    def read_stream(
        self, uri: str, from_ref: str | None = None, skip_changes: bool = False
    ) -> DataFrame:
        """Return a stream of the rows that new commits add to a Parquet or Delta table.

        It starts with all rows of the branch's head, or after the commit of `from_ref`. Commits
        that change or remove rows end the query, unless `skip_changes` leaves them out. Requires
        Spark 4. Raises MissingDependencyError on Spark 3.5.
        """
        if is_spark_3():
            raise MissingDependencyError(
                "lake.read_stream requires Spark 4. On Spark 3.5, read the rows that changed since "
                "the commit of the last run with repo.diff_table(LAST, NOW, path)"
            )
        self.register()
        reader = self._runners.session().readStream.format("lakefs")
        if from_ref is not None:
            reader = reader.option("fromRef", from_ref)
        return reader.option("skipChanges", str(skip_changes).lower()).load(uri)

    def write_stream(self, rows: DataFrame) -> LakeStreamWriter:
        """Return a writer of a stream to a table on a branch, in the shape of `rows.writeStream`.

        The option `checkpointLocation` is required, and `commitEvery` sets the number of
        micro-batches for each commit.
        """
        from sparklake.streams import LakeStreamWriter

        return LakeStreamWriter(self.repository, rows)

    def remote_opener(self) -> Callable[..., Lake]:
        """Return a function without secrets that opens this lake in another process."""
        from sparklake.stores.postgres.connections import public_dsn

        if self._settings is None:
            raise InvalidInputError(
                "refs in memory are not visible to other processes: connect to a lake"
            )
        dsn = self._settings.dsn and public_dsn(self._settings.dsn)
        return partial(_connect_beside, str(self._settings.home), dsn)

    def create_repository(
        self,
        name: str,
        storage_namespace: str,
        default_branch: str = "main",
        range_records: int = DEFAULT_RANGE_RECORDS,
        read_only: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> Repository:
        """Create a repository with one empty commit in an unused storage namespace.

        `range_records` is final. Raises InvalidNameError, AlreadyExistsError, NamespaceInUseError,
        StoreError.

        Examples:
            >>> lake.create_repository("sales", str(folder / "sales"))
            Repository(lakefs://sales, file://...)
        """
        from sparklake.verbs.base.namespace import leave_namespace, take_namespace
        from sparklake.verbs.refs.settings import checked_metadata

        validate_branch_name(default_branch)
        labels = dict(sorted(checked_metadata(metadata or {}).items()))
        store = self._place(name, storage_namespace, range_records)
        info = RepositoryInfo(
            name=name,
            uid=uuid.uuid4().hex,
            storage_namespace=store.uri,
            default_branch=default_branch,
            range_records=range_records,
            creation_date=now(),
            settings=RepositorySettings(read_only, metadata=labels),
        )
        info = take_namespace(store, self._ref_store, info)
        try:
            first = first_commit(info.creation_date)
            self._ref_store.create_repository(info, first, self._committer)
        except AlreadyExistsError:
            leave_namespace(store, self._ref_store, info)
            raise
        return self._open(info)

    def restore_repository(
        self,
        name: str,
        storage_namespace: str,
        default_branch: str | None = None,
        range_records: int | None = None,
        rename: Mapping[str, str] | None = None,
        incomplete: bool = False,
        on_note: Callable[[str], object] | None = None,
        manifest: str | None = None,
        accept_old: bool = False,
        check_addresses: bool = True,
    ) -> Repository:
        """Create a repository from a dump of sparklake or lakeFS in a namespace.

        It takes over the namespace: no other repository may use it afterwards. Dump and trees are
        verified first, and one error reports all problems. An outdated dump raises NewerDumpError,
        unless `accept_old`. In `rename`, `heads/NAME` and `tags/NAME` select one kind; later
        restores of the dump repeat it. `check` lists and `repair` restores the missing files of an
        `incomplete` dump. `on_note` receives one line with the dump's age, and one per omission.
        """
        from sparklake.verbs.dumps.restore import RestoreOptions, address_notes, restore_refs

        store = self._place(name, storage_namespace, None)
        options = RestoreOptions(
            name=name,
            default_branch=default_branch,
            range_records=range_records,
            renames=dict(rename or {}),
            incomplete=incomplete,
            manifest=manifest,
            accept_old=accept_old,
        )
        restored = restore_refs(store, self._ref_store, options, self._committer)
        repository = self._open(restored.info)
        if on_note is not None:
            is_checked = restored.is_foreign and check_addresses
            more_notes = address_notes(repository._context) if is_checked else ()
            for note in (*restored.notes, *more_notes):
                on_note(note)
        return repository

    def _place(self, name: str, storage_namespace: str, range_records: int | None) -> ObjectStore:
        """Return the store of a new repository, or reject an unsuitable namespace."""
        validate_repository_name(name)
        if range_records is not None and not 1 <= range_records <= MAX_RANGE_RECORDS:
            raise InvalidInputError(f"range_records must be 1 to {MAX_RANGE_RECORDS}")
        store = open_store(normalise_store_uri(storage_namespace))
        if self._ref_store.find_repository(name) is not None:
            raise AlreadyExistsError(f"the repository {name!r} already exists: choose another name")
        return store

    def repository(self, name: str, force: bool = False) -> Repository:
        """Open a repository. Raises RepositoryNotFoundError.

        Examples:
            >>> lake.repository("lake").branch("main")
            Branch(lakefs://lake/main)
        """
        info = self._ref_store.find_repository(validate_repository_name(name))
        if info is None:
            names = (each.name for each in self._ref_store.list_repositories())
            raise RepositoryNotFoundError(
                f"there is no repository {name!r}{suggestion(name, names)}; `sparklake repo "
                "list` shows all repositories"
            )
        return self._open(info, force=force)

    def repositories(self) -> list[Repository]:
        """Return all repositories in the byte order of their names."""
        return [self._open(info) for info in self._ref_store.list_repositories()]

    def delete_repository(self, name: str, force: bool = False) -> None:
        """Delete a repository and its history; its storage namespace keeps all files."""
        self._ref_store.delete_repository(validate_repository_name(name), force=force)

    def _open(self, info: RepositoryInfo, *, force: bool = False) -> Repository:
        workspace = Workspace(
            info.storage_namespace, info.range_records, self._cache, instance=info.uid
        )
        refs = self._ref_store.refs(info.uid, force=force)
        context = Context(
            info=info,
            refs=refs,
            runners=self._runners,
            committer=self._committer,
            graph=CommitGraph(refs),
            caches=TreeCaches(workspace, refs),
            move_guard=HookGuard(self._hooks),
            once_terms=self._settings.once if self._settings else DEFAULT_ONCE,
            remote_opener=self.remote_opener,
        )
        return Repository(context)


def parse_engine(engine: Engine | str | None) -> Engine | None:
    """Parse the name of an engine. Raises InvalidInputError."""
    if engine is None:
        return None
    return parse_choice(Engine, engine, f"{engine!r} is not an engine: choose one of")


def _open_ref_store(settings: Settings) -> tuple[RefStore, Callable[[], None]]:
    # Not at the top: psycopg and the embedded server are imported only when a lake is opened.
    from sparklake.stores.postgres import connect_ref_store

    if settings.dsn:
        return connect_ref_store(settings.dsn), lambda: None
    from sparklake.stores.embedded import embedded_dsn

    server = embedded_dsn(settings.home)
    try:
        return connect_ref_store(server.dsn, server.restart), server.release
    except BaseException:
        server.release()
        raise
