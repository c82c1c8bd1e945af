"""Copy a file, or with -r a folder, into the repository and stage it."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from sparklake.arguments import file_at, labels
from sparklake.config import disk_root
from sparklake.documents import Document, object_document, upload_document
from sparklake.jobs.job import job_parser, run
from sparklake.lake import Lake
from sparklake.uri import folder_uri, object_uri


def put(lake: Lake, arguments: Namespace) -> Document:
    """Stage a file as an object, or all files below a folder."""
    target = (folder_uri if arguments.recursive else object_uri)(arguments.object)
    branch = lake.repository(target.repository).branch(target.ref)
    metadata, content_type = labels(arguments.meta), arguments.content_type or ""
    if arguments.recursive:
        made = branch.put_folder(
            target.key, arguments.file, metadata, content_type, arguments.follow_links
        )
        return upload_document(target.key, made)
    with file_at(arguments.file, disk_root()) as file:
        return object_document(branch.put_file(target.key, file, metadata, content_type))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; return its exit code."""
    parser = job_parser(__doc__)
    parser.add_argument("file", metavar="FILE", help="of the driver, or - for stdin")
    parser.add_argument("object", metavar="lakefs://REPO/BRANCH/KEY")
    parser.add_argument("-r", "--recursive", action="store_true", help="a folder, under KEY/")
    parser.add_argument("--follow-links", action="store_true", help="of a folder")
    parser.add_argument("--content-type", help="its media type")
    parser.add_argument("--meta", action="append", metavar="K=V", help="a label; repeatable")
    return run(parser, put, argv)


if __name__ == "__main__":
    sys.exit(main())
