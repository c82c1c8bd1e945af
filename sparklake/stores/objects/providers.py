"""Providers of object stores for the registry."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparklake.graveler.ports import ObjectStore, StoreTraits
from sparklake.stores.objects.destinations import Destination
from sparklake.stores.objects.key_checks import prefixed_root

_BUCKET = StoreTraits()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite of a URI's prefix, in the common syntax of `re` and RE2."""

    pattern: str
    replacement: str

    def text(self, uri: str) -> str:
        return re.sub(self.pattern, self.replacement, uri)

    def column(self, uris: Any) -> Any:
        # Lazy import: small commands do not need Arrow.
        import pyarrow.compute as pc

        if not pc.any(pc.match_substring_regex(uris, self.pattern)).as_py():
            return uris
        return pc.replace_substring_regex(uris, self.pattern, self.replacement)


@dataclass(frozen=True, slots=True)
class StoreProvider:
    """A kind of object store: its URIs, its traits, and how to open it.

    The first of `schemes` is canonical. `forms` describes its roots in error messages. The
    functions raise InvalidUriError:

    - `split` returns the canonical root of a bucket and the key of an object of any address,
      `canonical_root` the canonical spelling of a root, by default of a prefix in a bucket. They
      read nothing.
    - `open` and `open_destination` take such roots, and import their client library when called.

    `to_canonical` replaces other schemes in addresses, `to_spark` changes canonical addresses to
    Hadoop's. The regular expression `canonical` matches the start of addresses with only one
    spelling. `plain_place` matches an address up to the slash before the key. Addresses that do not
    match, or that match `unusual`, are checked one by one, which is slower. `encoded_place` matches
    the start of canonical addresses whose keys are percent-encoded in records, `place` that of all
    addresses, if they are not all those of the schemes. `hadoop_client` names the client that Spark
    needs; with `spark_may_handle`, some sessions read canonical addresses with another one.
    `endpoint_variables` are the variables of the environment that choose the server.
    """

    schemes: tuple[str, ...]
    forms: str
    split: Callable[[str], tuple[str, str]]
    open: Callable[[str], ObjectStore]
    open_destination: Callable[[str], Destination]
    canonical: str
    traits: StoreTraits = _BUCKET
    canonical_root: Callable[[str], str] | None = None
    to_canonical: Rewrite | None = None
    to_spark: Rewrite | None = None
    plain_place: str = ""
    unusual: str = ""
    encoded_place: str = ""
    hadoop_client: str = ""
    spark_may_handle: bool = False
    place: str = ""
    endpoint_variables: tuple[str, ...] = ()

    def root_of(self, uri: str) -> str:
        """Return the canonical spelling of a root."""
        if self.canonical_root is not None:
            return self.canonical_root(uri)
        return prefixed_root(uri, *self.split(uri))
