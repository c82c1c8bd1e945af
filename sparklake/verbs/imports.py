"""Import: a directory or bucket prefix becomes part of a branch, and no byte is copied."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import pyarrow as pa

from sparklake.engine.execution import stitched, write_run
from sparklake.errors import InvalidInputError, NoChangesError
from sparklake.graveler.commits import Commit
from sparklake.graveler.guards import Action
from sparklake.graveler.keys import object_key, prefix_interval
from sparklake.graveler.planning import plan_replace
from sparklake.graveler.ports import BranchState
from sparklake.graveler.range_lists import Ranges
from sparklake.stores.objects import normalise_store_uri
from sparklake.udfs.listing import SOURCE_SCHEMA, list_source_body
from sparklake.udfs.writing import apply_body
from sparklake.verbs.attempts import Attempts
from sparklake.verbs.context import Context
from sparklake.verbs.fencing import begun_anew
from sparklake.verbs.namespaces import check_namespace
from sparklake.verbs.publish import publish, until_it_moves
from sparklake.verbs.resolve import check_clean, get_branch, open_branch
from sparklake.verbs.signing import Signature


@begun_anew
def import_objects(
    context: Context, branch: str, prefix: str, source: str, signature: Signature
) -> Commit:
    """Commits the objects under a source in place of what a branch holds under a prefix.

    Raises DirtyBranchError, NoChangesError, InvalidInputError for a source that is empty or
    overlaps the repository's own namespace, MissingFileError for an object that vanishes.
    """
    root = checked_source(context, source)
    folder = f"{prefix.rstrip('/')}/" if prefix else ""
    if folder:
        object_key(folder)
    begun = open_branch(context, branch, Action.COMMIT)
    check_clean(begun, "import into it")
    check_namespace(context.store)
    imported = _write_listing(context, root, folder, branch)
    if not imported:
        raise InvalidInputError(f"{root} holds no object; nothing was imported")
    attempts = Attempts(context, context.title("import", branch))

    def attempt() -> Commit:
        state = replace(get_branch(context, branch), fence=begun.fence)
        return _import_once(attempts, state, folder, imported, signature)

    return until_it_moves(context, branch, attempt)


def checked_source(context: Context, source: str) -> str:
    """Returns the root of a source; raises InvalidInputError where it overlaps the namespace."""
    root, own = normalise_store_uri(source), context.info.storage_namespace
    here, there = _real(root), _real(own)
    if here.startswith(there) or there.startswith(here):
        raise InvalidInputError(
            f"{root} overlaps the storage namespace of {context.info.name}, {own}: name a folder "
            "that neither contains the namespace nor lies in it"
        )
    return root


def _real(uri: str) -> str:
    """Returns where a store's root really is, with a '/' at its end."""
    if not uri.startswith("file://"):
        return f"{uri}/"
    return os.path.realpath(uri.removeprefix("file://")).rstrip("/") + "/"


def _write_listing(context: Context, root: str, folder: str, branch: str) -> Ranges:
    encode = partial(list_source_body, context.workspace, root, folder)
    work = pa.table([pa.array([""])], schema=SOURCE_SCHEMA)
    pieces = write_run(context.runner(0, "import", branch), context.workspace, encode, work)
    return stitched(context.store, context.workspace, pieces)


def _import_once(
    attempts: Attempts,
    state: BranchState,
    folder: str,
    imported: Ranges,
    signature: Signature,
) -> Commit:
    context = attempts.context
    check_clean(state, "import into it")
    head = context.graph.commit(state.commit_id)
    plan = plan_replace(context.tree(head).ranges, imported, prefix_interval(folder.encode()))
    outcome = attempts.run(partial(apply_body, context.workspace), plan)
    tree = attempts.finish(plan, outcome, head.meta_range_id)
    if tree.id == head.meta_range_id:
        raise NoChangesError(f"{state.name!r} holds all of this already under {folder or '/'!r}")
    return publish(context, state, "import", [head], tree.id, signature)
