"""Translation of git's and lakectl's commands."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.uri import SCHEME

_NO_COPY = (
    "sparklake has no working copy: objects stay in the store, and every command names a ref."
)
_NO_REMOTE = "sparklake has no remotes: all commands work on the lake itself."
_SWITCH = (
    f"{_NO_COPY} `branch create` creates a branch, `ls` and `cat` read one, `export` copies "
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
    "reflog": ["op", "log"],
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
    "fs": "`ls`, `cat`, `stat`, `rm` and `put` are commands without it",
    "refs-dump": ["refs", "dump"],
    "refs-restore": ["refs", "restore"],
    "branch-protect": "`protect add`, `list` and `remove` change its rules",
    "annotate": ["blame"],
    "local": _EXPORT,
    # The guided demo is no part of the package.
    "quickstart": "`make quickstart` in a clone of the repository runs the guided demo",
}
"""What stands for the first words of a command line: words of ours, or advice."""

# Options of all commands, which may come before the second word.
_WITH_VALUE = ("--output", "--engine", "--home", "--dsn", "--result-file")


def understood(args: Sequence[str]) -> tuple[list[str], str | None]:
    """Translate a git or lakectl command, or return advice."""
    end = 1
    while end < len(args) and args[end].startswith("-"):
        end += 2 if args[end] in _WITH_VALUE else 1
    options, tail = args[1:end], args[end:]
    second = SCHEME if tail and tail[0].startswith(SCHEME) else " ".join(tail[:1])
    for words in (f"{args[0]} {second}", args[0]) if args else ():
        ours = _WORDS.get(words)
        if isinstance(ours, str):
            return [*args], f"there is no command {words!r}. {ours}."
        if ours is not None:
            count = len(words.removesuffix(f" {SCHEME}").split())
            return [*ours, *options, *tail[count - 1 :]], None
    return [*args], None
