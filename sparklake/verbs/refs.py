"""Branches and tags come and go; hooks hear of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklake.errors import AlreadyExistsError, ProtectedError
from sparklake.graveler.ports import RefVerb, TagInfo
from sparklake.graveler.refs.names import validate_branch_name, validate_tag_name
from sparklake.verbs.context import Context
from sparklake.verbs.expiry import checked_lifetime
from sparklake.verbs.hooks import guarded_name
from sparklake.verbs.resolve import get_commit

if TYPE_CHECKING:
    from datetime import timedelta


def create_branch(
    context: Context, name: str, source: str, *, hidden: bool, expires: timedelta | None
) -> None:
    """Creates a branch at any ref; raises InvalidNameError, AlreadyExistsError."""
    validate_branch_name(name)
    _check_free(context, name, context.refs.tags.find(name), "tag")
    start = get_commit(context, source)
    lifetime = checked_lifetime(expires)
    with guarded_name(context, RefVerb.CREATE_BRANCH, name, start):
        context.refs.branches.create(
            name, start.id, context.committer, hidden=hidden, lifetime=lifetime
        )


def delete_branch(context: Context, name: str) -> None:
    """Deletes a branch and what is staged on it; raises ProtectedError for the default branch."""
    if name == context.info.default_branch:
        raise ProtectedError(f"{name!r} is the default branch of {context.info.name}: it must stay")
    with guarded_name(context, RefVerb.DELETE_BRANCH, name):
        context.refs.branches.delete(name, context.committer)


def create_tag(context: Context, name: str, ref: str) -> TagInfo:
    """Names the commit of a ref for good; raises InvalidNameError, AlreadyExistsError."""
    validate_tag_name(name)
    _check_free(context, name, context.refs.branches.find(name), "branch")
    commit = get_commit(context, ref)
    with guarded_name(context, RefVerb.CREATE_TAG, name, commit):
        return context.refs.tags.create(name, commit.id, context.committer)


def delete_tag(context: Context, name: str) -> None:
    """Deletes a tag; raises RefNotFoundError."""
    with guarded_name(context, RefVerb.DELETE_TAG, name):
        context.refs.tags.delete(name, context.committer)


def _check_free(context: Context, name: str, other: object, noun: str) -> None:
    """Raises AlreadyExistsError for a name under which a ref would mean two things."""
    if other is not None:
        raise AlreadyExistsError(f"{context.info.name} has a {noun} {name!r}: choose another name")
