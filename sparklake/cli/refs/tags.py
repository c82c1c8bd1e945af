"""`sparklake tag`: create, list, delete."""

from __future__ import annotations

from typing import Annotated

from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.options import (
    ExistOkOption,
    MetaOption,
    OnceOption,
    RepositoryArgument,
    YesOption,
    argument,
    option,
)
from sparklake.cli.parsing import labels
from sparklake.cli.text import date, first_line, short
from sparklake.documents import Document, tag_document
from sparklake.uri import RefUri, ref_in, ref_uri, repository_uri

app = Group("tag", "Tags: create, list, delete.")

TagArgument = Annotated[str, argument("lakefs://REPO/TAG")]


@app.add()
def create(
    invocation: Invocation,
    uri: TagArgument,
    target: Annotated[str, argument("lakefs://REPO/REF")],
    message: Annotated[str, option("Describe the tag.", "--message", "-m")] = "",
    meta: MetaOption = None,
    exist_ok: ExistOkOption = False,
    once: OnceOption = None,
) -> None:
    """Create a tag, which never moves, at any ref."""
    tag = ref_uri(uri)
    ref = ref_in(tag.repository, target)
    repository = invocation.repository(tag.repository)
    info = invocation.run(
        repository.create_tag,
        tag.ref,
        ref.ref,
        message=message,
        metadata=labels(meta),
        exist_ok=exist_ok,
        once=invocation.once(once),
    )
    invocation.out.one(tag_document(info), f"{tag} is {short(info.commit_id)}")


@app.add("list")
def list_tags(invocation: Invocation, uri: RepositoryArgument) -> None:
    """List the tags of a repository."""
    invocation.out.table(
        [tag_document(tag) for tag in invocation.repository(repository_uri(uri)).tags()],
        {
            "tag": lambda each: each["name"],
            "commit": lambda each: short(each["commit_id"]),
            "date": lambda each: date(each["creation_date"]) if each["creation_date"] else "",
            "who": lambda each: each["who"],
            "message": _description,
        },
    )


def _description(tag: Document) -> str:
    metadata = ", ".join(f"{name}={value}" for name, value in sorted(tag["metadata"].items()))
    return "  ".join(filter(None, [first_line(tag["message"]), metadata]))


@app.add()
def delete(invocation: Invocation, uri: TagArgument, yes: YesOption = False) -> None:
    """Delete a tag; its commit stays."""
    tag = ref_uri(uri)
    repository = invocation.repository(tag.repository)
    match = None if yes else next((t for t in repository.tags() if t.name == tag.ref), None)
    if match is not None:
        at = str(RefUri(tag.repository, short(match.commit_id)))
        invocation.out.confirm(
            f"This deletes {tag}. Its commit stays, and `sparklake tag create {tag} {at}` creates "
            "it again.",
            "Delete it?",
        )
    repository.delete_tag(tag.ref)
    invocation.out.one({"name": tag.ref, "deleted": True}, f"{tag} is deleted")
