"""Settings, checks and continuations after a crash, as cases of the campaigns."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import cast
from unittest import mock

from campaigns.faults.object_cases import clean
from campaigns.faults.repair_cases import healthy, repair
from campaigns.faults.scenes import Scene, VerbCase
from campaigns.faults.upkeep_cases import SECRET, purge, purged, with_secret
from sparklake.errors import InterruptError, InvalidInputError, NotFoundError
from sparklake.namespace.leftovers import unfinished_checks
from sparklake.stores.postgres.ref_store import PostgresRefs
from sparklake.testing.lakes import commit_all
from sparklake.verbs.purges import purge as purging

_DAYS = 30


# --- settings -------------------------------------------------------------------------------------


def protect(scene: Scene) -> None:
    scene.repository.settings.protect(scene.name_of("new"))


def protected(scene: Scene) -> None:
    clean(scene)
    protect(scene)


def unprotect(scene: Scene) -> None:
    scene.repository.settings.unprotect(scene.name_of("new"))


def rules(scene: Scene) -> list[str]:
    """Return the protected patterns of this round, without its label."""
    patterns = (each.pattern for each in scene.repository.settings.protection)
    return [each.removeprefix(scene.label) for each in patterns if each.startswith(scene.label)]


def set_retention(scene: Scene) -> None:
    scene.repository.settings.set_retention(_DAYS, {f"{scene.label}*": 2 * _DAYS}, tree_days=1)


def with_retention(scene: Scene) -> None:
    clean(scene)
    set_retention(scene)


def clear_retention(scene: Scene) -> None:
    scene.repository.settings.clear_retention()


def retention(scene: Scene) -> list[int]:
    """Return the days of the rules."""
    rules = scene.repository.settings.retention
    return [rules.default_days, *(each.days for each in rules.branches)] if rules else []


def read_only(scene: Scene) -> None:
    clean(scene)
    scene.repository.settings.set_read_only()


def set_writable(scene: Scene) -> None:
    scene.repository.settings.set_read_only(False)


def is_read_only(scene: Scene) -> bool:
    return scene.repository.settings.read_only


# --- what continues -------------------------------------------------------------------------------


def interrupted_purge(scene: Scene) -> None:
    """Let a purge die before its first deletion."""
    with_secret(scene)
    stopped = mock.patch.object(purging, "_finish", side_effect=InterruptError("stopped"))
    with stopped, suppress(InterruptError):
        scene.repository.purge([SECRET])


def check(scene: Scene) -> None:
    """Continue a killed check, or start one."""
    repository = scene.repository
    resumed = next(iter(unfinished_checks(repository._context.store)), None)
    with suppress(InvalidInputError, NotFoundError):  # It ended, or never started.
        repository.check("content", resume=resumed, grace=timedelta())
        return
    repository.check("content", grace=timedelta())


def as_before(scene: Scene) -> tuple[int, int, list[str], dict[str, bytes]]:
    """Return the object and table counts, the fault kinds, and the contents."""
    store = scene.repository._context.store
    objects, tables = (len(list(store.list(prefix))) for prefix in ("data/", "_lakefs/"))
    return objects, tables, *healthy(scene)


def older_refs(scene: Scene) -> None:
    """Let Postgres lack the last commit of a dump, as an older backup. One move repairs it."""
    branch = scene.create_branch({"own": b"own"})
    before = branch.head.id
    commit_all(branch, {"own": b"newer"}, "newer")
    scene.repository.dump_refs()
    values = {"uid": scene.repository.info.uid, "before": before, "head": branch.head.id}
    refs = cast("PostgresRefs", scene.repository._context.refs)
    with refs._connections.transaction() as connection:
        connection.execute("SET LOCAL session_replication_role = replica")  # without triggers
        for each in (
            "UPDATE sparklake.branches SET commit_id = %(before)s"
            " WHERE repository_uid = %(uid)s AND commit_id = %(head)s",
            "DELETE FROM sparklake.commits WHERE repository_uid = %(uid)s AND id = %(head)s",
            "DELETE FROM sparklake.operations"
            " WHERE repository_uid = %(uid)s AND to_commit = %(head)s",
        ):
            connection.execute(each, values)


SETTINGS_CASES = {
    "protect": VerbCase(clean, protect, effects=rules),
    "unprotect": VerbCase(protected, unprotect, done=(NotFoundError,), effects=rules),
    "set_retention": VerbCase(clean, set_retention, effects=retention, alone=True),
    "clear_retention": VerbCase(with_retention, clear_retention, effects=retention, alone=True),
    "set_read_only": VerbCase(read_only, set_writable, effects=is_read_only, alone=True),
    "resume_purge": VerbCase(interrupted_purge, purge, effects=purged, alone=True),
    "check": VerbCase(clean, check, effects=as_before, alone=True),
    "repair, refs": VerbCase(older_refs, repair, effects=healthy, alone=True),
}
