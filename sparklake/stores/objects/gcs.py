"""Buckets of Google Cloud Storage: their URIs and credentials."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sparklake.errors import InvalidInputError, InvalidKeyError
from sparklake.extras import importing
from sparklake.stores.objects.buckets import Entry, environment, no_credentials, split_bucket_uri
from sparklake.stores.objects.providers import StoreProvider

if TYPE_CHECKING:
    from sparklake.stores.objects.remote import RemoteStore
    from sparklake.stores.objects.remote_destination import RemoteDestination

_BUCKET = "[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"
_UNUSABLE = re.compile("[\r\n]|^\\.well-known/acme-challenge/")
_MAX_KEY_BYTES = 1024
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_ENVIRONMENT = ("GOOGLE_", "GCE_", "CLOUDSDK_", _EMULATOR := "STORAGE_EMULATOR_HOST")


@dataclass(frozen=True, slots=True)
class GoogleBucket:
    name: str

    @property
    def uri(self) -> str:
        return f"gs://{self.name}"

    @property
    def endpoint(self) -> str:
        custom = os.environ.get(_EMULATOR) or os.environ.get("GOOGLE_BASE_URL")
        if custom and "://" not in custom:
            custom = f"http://{custom}"  # Google's own clients accept a host here.
        return (custom or "https://storage.googleapis.com").rstrip("/")

    @property
    def advice(self) -> str:
        return (
            f"give an account the role Storage Object User on {self.uri}, and use it as "
            "application default credentials, such as with GOOGLE_APPLICATION_CREDENTIALS"
        )

    def settings(self) -> Hashable:
        return environment(*_ENVIRONMENT)

    def connect(self, **options: Any) -> Any:
        from obstore.store import GCSStore

        return GCSStore(self.name, base_url=self.endpoint, **options)

    def check_key(self, key: str) -> None:
        if _UNUSABLE.search(key) or len(key.encode()) > _MAX_KEY_BYTES:
            raise InvalidKeyError(
                f"The object key {key!r} cannot be stored in Google Cloud Storage: it has a line "
                f"end, or more than {_MAX_KEY_BYTES} bytes; rename the object."
            )

    def entries(self, client: Any, prefix: str, *, level: bool) -> Iterator[Entry]:
        from sparklake.stores.objects.remote import listed_entries

        return listed_entries(client, prefix, level=level)

    def sign(self, client: Any, key: str, lifetime: timedelta) -> str:
        import obstore
        from obstore.exceptions import GenericError
        from obstore.store import GCSStore

        # With a credential provider, obstore ignores the private key of the default credentials.
        options: Any = {"allow_http": self.endpoint.startswith("http://")}
        try:
            signer = GCSStore(self.name, base_url=self.endpoint, client_options=options)
        except GenericError as error:
            # Its text may have the file.
            raise InvalidInputError(
                f"the application default credentials cannot sign a URL ({type(error).__name__}): "
                "use the key file of a service account, or that of the machine"
            ) from None
        return obstore.sign(signer, "GET", quote(key), lifetime)  # It encodes spaces only.

    def credentials(self) -> Callable[[], Any]:
        if os.environ.get(_EMULATOR):
            return lambda: {"token": "anonymous", "expires_at": None}
        with importing("google-auth", "gcs"):
            from google.auth import default
            from google.auth.exceptions import GoogleAuthError
            from google.auth.transport.requests import Request

        def bearer() -> Any:
            try:
                # Application default credentials, with a new token.
                credentials: Any = default(scopes=[_SCOPE])[0]
                credentials.refresh(Request())
            except GoogleAuthError as error:
                # Its text may have ids and tokens.
                raise no_credentials(self.uri, error, self.advice) from None
            expiry = credentials.expiry and credentials.expiry.replace(tzinfo=timezone.utc)
            return {"token": credentials.token, "expires_at": expiry}

        return bearer


# --- URIs -----------------------------------------------------------------------------------------


def _split(uri: str) -> tuple[str, str]:
    return split_bucket_uri(
        uri, "gs", _BUCKET, "A Google Cloud Storage", "application default credentials"
    )


def _open(root: str) -> RemoteStore:
    # Lazy import: obstore is optional.
    from sparklake.stores.objects.remote import RemoteStore

    bucket, _, prefix = root.removeprefix("gs://").partition("/")
    return RemoteStore(GoogleBucket(bucket), prefix)


def _open_destination(root: str) -> RemoteDestination:
    from sparklake.stores.objects.remote_destination import RemoteDestination

    return RemoteDestination(_open(root))


GCS = StoreProvider(
    schemes=("gs",),
    forms="gs://bucket/prefix",
    split=_split,
    open=_open,
    open_destination=_open_destination,
    canonical="gs://",
    plain_place=f"gs://{_BUCKET}",
    hadoop_client="the Cloud Storage connector (gcs-connector)",
    endpoint_variables=("GOOGLE_BASE_URL", _EMULATOR),
)
"""An object store in a bucket of Google Cloud Storage."""
