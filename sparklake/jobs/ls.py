"""List objects, one level or all; staged changes of a branch count.

`branch@` leaves them out, and `branch$` has what is staged alone.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence

from sparklake.documents import Document, explanation_document, folder_document, object_document
from sparklake.jobs.job import explain_option, job_parser, run
from sparklake.lake import Lake
from sparklake.uri import prefix_uri


def ls(lake: Lake, arguments: Namespace) -> Document | Iterable[Document]:
    """List objects as they come, however many there are."""
    place = prefix_uri(arguments.prefix)
    repository = lake.repository(place.repository)
    if arguments.explain:
        return explanation_document(repository.objects(place.ref, place.key).explain())
    if arguments.recursive:
        return map(object_document, repository.objects(place.ref, place.key))
    return map(folder_document, repository.folder(place.ref, place.key))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("prefix", metavar="lakefs://REPO/REF/[PREFIX]")
    parser.add_argument("-r", "--recursive", action="store_true", help="all levels")
    explain_option(parser)
    return run(parser, ls, argv)


if __name__ == "__main__":
    sys.exit(main())
