"""Keys and folders below a storage namespace, each spelled once. Folders end with '/'."""

from __future__ import annotations

DATA_FOLDER = "data/"
"""Objects, and one folder for each Spark write."""

_WRITE_ID_LETTERS = 32
_HEXADECIMAL = frozenset("0123456789abcdef")


def name_in_write(address: str) -> str | None:
    """Return the name of a file below the folder of a Spark write; None for other addresses."""
    parts = address.split("/")
    for at in range(len(parts) - 2, 0, -1):
        is_id = len(parts[at]) == _WRITE_ID_LETTERS and set(parts[at]) <= _HEXADECIMAL
        if is_id and f"{parts[at - 1]}/" == DATA_FOLDER:
            return "/".join(parts[at + 1 :])
    return None


METADATA_FOLDER = "_lakefs/"
"""Ranges and metaranges by id, and the files that lakeFS reads."""

NAMESPACE_MARKER_KEY = f"{METADATA_FOLDER}dummy"
"""The ownership marker of a namespace. lakeFS writes the same key."""

REFS_MANIFEST_KEY = f"{METADATA_FOLDER}refs_manifest.json"
DUMP_SETTINGS_KEY = f"{METADATA_FOLDER}sparklake_settings.json"
RETENTION_RULES_KEY = f"{METADATA_FOLDER}retention/gc/rules/config.json"
PROTECTION_RULES_KEY = f"{METADATA_FOLDER}settings/protected_branches.json"

_OWN_FOLDER = "_sparklake/"

VIEWS_FOLDER = f"{_OWN_FOLDER}views/"
"""Delta logs of single versions. Reads create missing views again."""

REPAIRS_FOLDER = f"{_OWN_FOLDER}repairs/"

PROBE_PREFIX = f"{_OWN_FOLDER}probe-"
"""The prefix of files that only show whether a namespace is writable."""

# --- checks ---------------------------------------------------------------------------------------

CHECKS_FOLDER = f"{_OWN_FOLDER}checks/"
"""The reports of checks. A check may use a folder outside the namespace instead."""

OPEN_CHECKS = "open/"
"""Its subfolder for the exchanged files of unfinished checks."""

REPORT_NAME = "report.json"
"""The name of a check's report, written at the end."""

# --- garbage collection ---------------------------------------------------------------------------

COLLECTIONS_FOLDER = f"{_OWN_FOLDER}gc/"

SWEEP_MARKER_KEY = f"{COLLECTIONS_FOLDER}open"
"""The marker of an open sweep of an earlier version, and the key prefix of all sweep markers."""

COLLECTED_KEY = f"{COLLECTIONS_FOLDER}collected.json"
"""The ids of the commits without trees. A restore of a dump reads them."""


def sweep_marker_key(sweep_id: str) -> str:
    """Return the key of an open sweep's marker, unique to it and written before its first read."""
    return f"{SWEEP_MARKER_KEY}-{sweep_id}"


def collection_folder(run_id: str) -> str:
    return f"{COLLECTIONS_FOLDER}{run_id}/"


def candidates_key(run_id: str) -> str:
    return f"{collection_folder(run_id)}tables"


def sweep_claim_key(run_id: str, marker: str) -> str:
    """Return the key of the decision on a marker's sweep."""
    return f"{collection_folder(run_id)}sweep{marker.removeprefix(SWEEP_MARKER_KEY)}"


# --- purges ---------------------------------------------------------------------------------------

PURGES_FOLDER = f"{_OWN_FOLDER}purges/"

OPEN_PURGES_FOLDER = f"{PURGES_FOLDER}open/"


def open_purge_key(purge_id: str) -> str:
    """Return the key of an open purge's marker, written before its first read."""
    return f"{OPEN_PURGES_FOLDER}{purge_id}"


def purge_folder(purge_id: str) -> str:
    return f"{PURGES_FOLDER}{purge_id}/"


def purge_receipt_folder(purge_id: str) -> str:
    return f"{purge_folder(purge_id)}receipt/"


def purge_list_folder(purge_id: str) -> str:
    return f"{purge_folder(purge_id)}found/"


def purge_plan_key(purge_id: str) -> str:
    return f"{purge_folder(purge_id)}plan.json"


def purge_claim_key(purge_id: str) -> str:
    return f"{purge_folder(purge_id)}claim"


def purge_summary_key(purge_id: str) -> str:
    return f"{purge_folder(purge_id)}summary.json"
