"""Commands of git and lakectl that people type: which of ours they mean."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.uri import SCHEME

_NO_COPY = (
    "sparklake has no working copy: objects stay in the store, and every command names a ref."
)
_NO_REMOTE = "sparklake has no remotes: all commands work on the lake itself."
_SWITCH = (
    f"{_NO_COPY} `branch create` makes a branch, `ls` and `cat` read one, `export` copies "
    "a ref to a folder, and in Python `repo.at(ref)` reads a ref"
)
_EXPORT = f"{_NO_COPY} `export` copies a ref to a folder"
_BRING = f"{_NO_REMOTE} `merge` brings a branch into another, and `import` brings in new objects"

_WORDS: dict[str, str | list[str]] = {
    # git
    "init": "`repo create lakefs://REPO STORAGE_NAMESPACE` creates a repository",
    "clone": _EXPORT,
    "checkout": _SWITCH,
    "switch": _SWITCH,
    "add": f"{_NO_COPY} `put` stages a file or a folder",
    "stash": "Staged changes stay on their branch. `commit` them on a branch of their own "
    "(`branch create`), or drop them with `reset`",
    "push": f"{_NO_REMOTE} `merge` publishes a branch, and `export` copies a ref elsewhere",
    "fetch": _BRING,
    "pull": _BRING,
    "remote": f"{_NO_REMOTE} `repo list` lists the repositories",
    "reflog": ["op", "log"],
    "config": "The settings are in sparklake.toml and in the environment",
    # A group without a command lists, as in git.
    f"branch {SCHEME}": ["branch", "list"],
    f"tag {SCHEME}": ["tag", "list"],
    # lakectl
    "fs ls": ["ls"],
    "fs cat": ["cat"],
    "fs stat": ["stat"],
    "fs rm": ["rm"],
    "fs upload": "`put FILE URI` copies a file, and `put -r FOLDER URI` a folder",
    "fs download": "`cat URI` writes an object to stdout, and `export` copies a folder",
    "fs stage": "`stage` and `import --rows` take tables of addresses",
    "fs": "`ls`, `cat`, `stat`, `rm` and `put` are commands without it",
    "refs-dump": ["refs", "dump"],
    "refs-restore": ["refs", "restore"],
    "branch revert": ["revert"],
    "branch reset": ["reset"],
    "branch-protect list": ["protect", "list"],
    "branch-protect": "`protect add`, `list` and `remove` change its rules",
    "annotate": ["blame"],
    "ingest": "`import URI --from SOURCE` adds existing objects",
    "local": _EXPORT,
}
"""What stands for the first words of a command line: words of ours, or advice."""


def find_words(args: Sequence[str]) -> tuple[str, str | list[str]] | None:
    """Return the foreign words that a command line starts with, and what stands for them."""
    first, second = [*args[:2], "", ""][:2]
    second = SCHEME if second.startswith(SCHEME) else second
    for words in (f"{first} {second}", first):
        if words in _WORDS:
            return words, _WORDS[words]
    return None


def translated(args: Sequence[str], words: str, ours: Sequence[str]) -> list[str]:
    """Return a command line with our words in place of the foreign ones."""
    count = len(words.removesuffix(f" {SCHEME}").split())
    return [*ours, *args[count:]]
