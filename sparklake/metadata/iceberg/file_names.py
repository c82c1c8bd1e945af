"""File names in Iceberg tables: metadata versions, and paths below the location."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sparklake.errors import InvalidInputError
from sparklake.metadata.formats import MetadataFiles

METADATA_FOLDER = "metadata/"

VERSION_HINT = "version-hint.text"

ICEBERG = MetadataFiles(
    name="Iceberg",
    folder=METADATA_FOLDER,
    # Catalogs number the files, 00000-ID.metadata.json, so they sort before the manifests. Without
    # a catalog they are v1.metadata.json, after all manifests.
    pattern=r"^version-hint\.text$|\.metadata\.json(\.gz)?$",
    prefixes=("v", ""),
    changed=rb"(^|/)metadata/((v[0-9]{1,18}|[0-9]{1,18}-[^/]+)(\.gz)?\.metadata\.json(\.gz)?"
    rb"|version-hint\.text)$",
    samples=("v1.metadata.json", VERSION_HINT),
    verbs="sparklake.verbs.iceberg.format",
)

_METADATA = re.compile(
    r"(?:v(?P<plain>[0-9]{1,18})|(?P<numbered>[0-9]{1,18})-[^/]+)"
    r"(?:\.gz)?\.metadata\.json(?:\.gz)?"
)
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/*")
_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}


def current_metadata(names: Iterable[str]) -> str | None:
    """Return the metadata file with the highest version, or None without any.

    `version-hint.text` does not matter: readers of a folder look for later versions, too.

    Raises:
        InvalidInputError: Several files have the highest version, or names of a catalog and of a
            folder are mixed, so that versions cannot be compared.
    """
    versions: dict[int, list[str]] = {}
    kinds = set[bool]()
    for name in names:
        match = _METADATA.fullmatch(name)
        if match:
            kinds.add(match["plain"] is None)
            versions.setdefault(int(match["plain"] or match["numbered"]), []).append(name)
    if not versions:
        return None
    latest = sorted(versions[max(versions)])
    if len(latest) > 1 or len(kinds) > 1:
        names = sorted(name for each in versions.values() for name in each)
        candidates = latest if len(latest) > 1 else names
        raise InvalidInputError(
            f"its current metadata is ambiguous: {', '.join(candidates[:5])}. Remove all but one "
            "from the ref: keep the one that the table's catalog references"
        )
    return latest[0]


def next_metadata(name: str | None, unique: str) -> str:
    """Return the file name of the next metadata; None means a new table.

    Names of catalogs contain a `unique` text, those of tables in a folder are only numbered.
    """
    match = _METADATA.fullmatch(name or "")
    if match is None:
        return f"00000-{unique}.metadata.json"
    if match["plain"]:
        return f"v{int(match['plain']) + 1}.metadata.json"
    return f"{int(match['numbered']) + 1:05}-{unique}.metadata.json"


def metadata_version(name: str) -> int:
    """Return the version in the name of a metadata file, -1 for another file."""
    match = _METADATA.fullmatch(name)
    return -1 if match is None else int(match["plain"] or match["numbered"])


@dataclass(frozen=True, slots=True)
class Location:
    """The folder of a table as its metadata spells it."""

    uri: str

    def relative(self, path: str) -> str:
        """Return a path below the table.

        Raises:
            InvalidInputError: The file is outside of the table's location.
        """
        relative = self.find_relative(path)
        if relative is None:
            raise InvalidInputError(
                f"its file {path!r} is outside of its location {self.uri!r}, so the ref does not "
                "contain it. Rewrite the table into one folder (rewrite_data_files, or a copy)"
            )
        return relative

    def find_relative(self, path: str) -> str | None:
        folder, name = f"{_canonical(self.uri).rstrip('/')}/", _canonical(path)
        relative = name.removeprefix(folder)
        return None if relative == name or ".." in relative.split("/") else relative


def is_same_place(one: str, other: str) -> bool:
    """Return whether two URIs differ at most in the spelling of the scheme."""
    return _canonical(one) == _canonical(other)


def _canonical(uri: str) -> str:
    """Normalise the spelling of schemes and local paths."""
    match = _SCHEME.match(uri)
    if match is None:
        return f"file:/{uri.lstrip('/')}"
    scheme = match["scheme"].lower()
    return f"{_ALIASES.get(scheme, scheme)}:/{uri[match.end() :]}"
