"""Reset: drop what is staged, in part."""

from __future__ import annotations

from sparklake.graveler.guards import Action
from sparklake.graveler.keys import Interval, key_prefix, object_key, prefix_interval, successor
from sparklake.graveler.planning.path_filter import Choice
from sparklake.verbs.context import Context
from sparklake.verbs.fencing import begun_anew
from sparklake.verbs.leftovers import cut_out
from sparklake.verbs.namespaces import check_namespace
from sparklake.verbs.publish import until_it_moves
from sparklake.verbs.versions import with_versions


def reset_object(context: Context, branch: str, path: str) -> None:
    """Drops what is staged of one object; where nothing is, that is no error."""
    key = object_key(path)
    _reset(context, branch, Interval(key, successor(key)))


def reset_prefix(context: Context, branch: str, prefix: str) -> None:
    """Drops what is staged of all objects whose paths begin with a prefix."""
    _reset(context, branch, prefix_interval(key_prefix(prefix)))


@with_versions
@begun_anew
def _reset(context: Context, branch: str, within: Interval) -> None:
    check_namespace(context.store)

    def attempt() -> None:
        state = context.refs.staging.seal(branch, Action.RESET)
        if state.layers:
            cut = cut_out(context, state, Choice((within,)), "reset")
            context.refs.staging.drop(branch, state, cut, fence=state.fence)

    until_it_moves(context, branch, attempt)
