"""The file system `lakefs://REPOSITORY/REF/KEY`. Reads any ref, stages to branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fsspec.spec import make_instance

from sparklake.errors import InvalidInputError
from sparklake.fs.lakes import LakeOptions, without_secrets
from sparklake.fs.writing import WritingFileSystem
from sparklake.lake import Lake


class SparklakeFileSystem(WritingFileSystem):
    """A lake as an fsspec file system.

    `home`, `dsn` and `engine` are those of `sparklake.connect`. Alternatively, `lake` is an open
    lake. A pickle contains these options without secrets, and no connection. Object paths imply
    directories: creating one is a no-op, and an empty one does not exist.
    """

    def __init__(
        self,
        *,
        lake: Lake | None = None,
        home: str | Path | None = None,
        dsn: str | None = None,
        engine: str | None = None,
        **kwargs: Any,
    ) -> None:
        if lake is not None and (home or dsn or engine):
            raise InvalidInputError("choose either an open lake, or home and dsn to open one")
        super().__init__(lake, LakeOptions(home, dsn, engine), **kwargs)
        if dsn:
            without_secrets(dsn)  # raises for an invalid one

    def __repr__(self) -> str:
        options = "an open lake" if self._given is not None else self._public_options()
        return f"{type(self).__name__}({options})"

    def __reduce__(self) -> tuple[Any, ...]:
        return make_instance, (type(self), self.storage_args, self._public_options())

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """Return the options for the same file system elsewhere, without secrets."""
        options = self._public_options()
        values: dict[str, Any] = super().to_dict(include_password=include_password)
        return values | options

    def _public_options(self) -> dict[str, Any]:
        if self._given is not None:
            raise InvalidInputError(
                "a file system on an open lake cannot be sent to another process: create it "
                "with home or dsn, or with SPARKLAKE_HOME or SPARKLAKE_DSN"
            )
        options = dict(self.storage_options)
        if options.get("dsn"):
            options["dsn"] = without_secrets(options["dsn"])
        return options
