"""Containers of Azure Blob Storage and ADLS Gen2: their URIs and credentials.

The canonical URI is lakeFS's, https://ACCOUNT.blob.core.windows.net/CONTAINER/KEY. In records, the
key is percent-encoded, as lakeFS reads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from sparklake.errors import InvalidInputError, InvalidKeyError, InvalidUriError
from sparklake.extras import importing
from sparklake.stores.objects.buckets import Entry, environment, no_credentials
from sparklake.stores.objects.key_checks import invalid_uri
from sparklake.stores.objects.providers import Rewrite, StoreProvider

if TYPE_CHECKING:
    from sparklake.stores.objects.remote import RemoteStore
    from sparklake.stores.objects.remote_destination import RemoteDestination

_CLOUDS = "|".join(
    re.escape(each)
    for each in (
        "core.windows.net",
        "core.chinacloudapi.cn",
        "core.usgovcloudapi.net",
        "storage.azure.net",
    )
)
_ACCOUNT = r"[a-z0-9]{3,24}(?:\.z[0-9]{1,3})?"
_CONTAINER = r"\$?[a-z0-9-]{3,63}"
_HADOOP = rf"(?:abfss?|wasbs?)://({_CONTAINER})@({_ACCOUNT})\.(?:blob|dfs)\.({_CLOUDS})"
_BLOB = rf"https://{_ACCOUNT}\.blob\.(?:{_CLOUDS})/{_CONTAINER}"
_ANY_HTTPS = rf"https://({_ACCOUNT})\.(?:blob|dfs)\.({_CLOUDS})/({_CONTAINER})"
_SHORT = rf"az://({_CONTAINER})"
_KEY = "(?:/(.*))?"
_SECRET = re.compile(r"[?&]sig=|://[^/@]*:[^/@]*@")

# Azure stores '\' as '/', and clients drop dots at the end of a part.
_UNUSABLE = re.compile(r"\\|\.(?:/|$)")
_MAX_KEY_CHARACTERS = 1024

_FORMS = (
    "https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX or "
    "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX"
)
_SCOPE = "https://storage.azure.com/.default"
_ENVIRONMENT = ("AZURE_", "IDENTITY_", "MSI_")


@dataclass(frozen=True, slots=True)
class AzureContainer:
    """A container in an account, identified by its Blob API host."""

    host: str
    name: str

    @property
    def uri(self) -> str:
        return f"https://{self.host}/{self.name}"

    @property
    def account(self) -> str:
        return self.host.partition(".")[0]

    @property
    def endpoint(self) -> str:
        return self._setting("AZURE_STORAGE_ENDPOINT") or f"https://{self.host}"

    @property
    def advice(self) -> str:
        return (
            f"give an identity the role Storage Blob Data Contributor on {self.uri}, and sign in "
            "with it, or set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or "
            "AZURE_STORAGE_SAS_TOKEN"
        )

    def settings(self) -> Hashable:
        return environment(*_ENVIRONMENT)

    def connect(self, **options: Any) -> Any:
        from obstore.store import AzureStore

        return AzureStore(self.name, account_name=self.account, endpoint=self.endpoint, **options)

    def check_key(self, key: str) -> None:
        if _UNUSABLE.search(key) or len(key) > _MAX_KEY_CHARACTERS:
            raise InvalidKeyError(
                f"The object key {key!r} cannot be stored in Azure: it has a '\\', a part that "
                f"ends with '.', or more than {_MAX_KEY_CHARACTERS} characters; rename the object."
            )

    def entries(self, client: Any, prefix: str, *, level: bool) -> Iterator[Entry]:
        from sparklake.stores.objects.remote import listed_entries

        return listed_entries(client, prefix, _is_directory, level=level)

    def sign(self, client: Any, key: str, lifetime: timedelta) -> str:
        from azure.storage.blob import BlobSasPermissions, BlobServiceClient, generate_blob_sas

        start = datetime.now(timezone.utc)
        secret = self._key()
        if not secret and self._token():
            raise InvalidInputError(
                "AZURE_STORAGE_SAS_TOKEN cannot sign a URL: use an account key or an identity"
            )
        delegation = None
        if not secret:
            service = BlobServiceClient(self.endpoint, credential=_identity())
            with _credential_errors(self):
                delegation = service.get_user_delegation_key(start, start + lifetime)
        # Not by obstore, whose signatures are wrong for keys with spaces and other characters.
        query = generate_blob_sas(
            self.account,
            self.name,
            key,
            account_key=secret or None,
            user_delegation_key=delegation,
            permission=BlobSasPermissions(read=True),
            expiry=start + lifetime,
        )
        return f"{self.endpoint}/{self.name}/{quote(key)}?{query}"

    def _setting(self, *names: str) -> str:
        """Return a variable for the account of the environment, and for no other account."""
        return _variable(*names) if self.host == _own_host() else ""

    def _key(self) -> str:
        return self._setting("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY")

    def _token(self) -> str:
        return self._setting("AZURE_STORAGE_SAS_TOKEN").lstrip("?")

    def credentials(self) -> Callable[[], Any]:
        key, token = self._key(), self._token()
        if key:
            return lambda: {"access_key": key, "expires_at": None}
        if token:
            return lambda: {"sas_token": token, "expires_at": None}
        identity = _identity()

        def bearer() -> Any:
            with _credential_errors(self):
                access = identity.get_token(_SCOPE)
            expires = datetime.fromtimestamp(access.expires_on, timezone.utc)
            return {"token": access.token, "expires_at": expires}

        return bearer


def _identity() -> Any:
    with importing("azure-identity", "azure"):
        from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


@contextmanager
def _credential_errors(container: AzureContainer) -> Iterator[None]:
    from azure.core.exceptions import AzureError

    try:
        yield
    except AzureError as error:
        # Its text may have ids and tokens.
        raise no_credentials(container.uri, error, container.advice) from None


def _is_directory(attributes: Mapping[str, str]) -> bool:
    """Return whether an empty blob stands for a directory of Hadoop or ADLS Gen2."""
    return attributes.get("hdi_isfolder", "").lower() == "true"


def _variable(*names: str) -> str:
    return next(filter(None, map(os.environ.get, names)), "")


def _own_host() -> str:
    """Return the host of the account in the environment settings, or "".

    Accounts in different clouds may have the same name.
    """
    host = urlsplit(_variable("AZURE_STORAGE_ENDPOINT")).hostname or ""
    account = _variable("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
    if re.fullmatch(rf"{re.escape(account)}(?:\.z[0-9]+)?\.blob\.(?:{_CLOUDS})", host):
        return host
    return f"{account}.blob.core.windows.net" if account else ""


# --- URIs -----------------------------------------------------------------------------------------


def _split(uri: str) -> tuple[str, str]:
    if _SECRET.search(uri):
        raise InvalidUriError(
            "An Azure URI may not contain credentials: remove them, and use an identity, "
            "AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_ACCOUNT_KEY."
        )
    scheme, separator, place = uri.partition("://")
    literal = f"{scheme.lower()}{separator}{place}"
    if match := re.fullmatch(_ANY_HTTPS + _KEY, literal, re.DOTALL):
        account, cloud, container, key = match.groups()
    elif match := re.fullmatch(_HADOOP + _KEY, literal, re.DOTALL):
        container, account, cloud, key = match.groups()
    elif match := re.fullmatch(_SHORT + _KEY, literal, re.DOTALL):
        container, key = match.groups()
        account, _, cloud = _own_host().partition(".blob.")
        if not account:
            raise invalid_uri(
                uri, f"lacks the account: set AZURE_STORAGE_ACCOUNT_NAME, or write {_FORMS}"
            )
    else:
        raise invalid_uri(uri, f"does not name a container of Azure: write {_FORMS}")
    if key and "\\" in key:
        raise invalid_uri(uri, "has a '\\', which Azure stores as '/': correct the key")
    return f"https://{account}.blob.{cloud}/{container}", key or ""


def _open(root: str) -> RemoteStore:
    # Lazy import: obstore is optional.
    from sparklake.stores.objects.remote import RemoteStore

    host, container, *prefix = root.removeprefix("https://").split("/", 2)
    return RemoteStore(AzureContainer(host, container), *prefix)


def _open_destination(root: str) -> RemoteDestination:
    from sparklake.stores.objects.remote_destination import RemoteDestination

    return RemoteDestination(_open(root), has_folders=True)


AZURE = StoreProvider(
    schemes=("https", "abfss", "abfs", "wasbs", "wasb", "az"),
    forms=_FORMS,
    split=_split,
    open=_open,
    open_destination=_open_destination,
    canonical=f"{_BLOB}/",
    to_canonical=Rewrite(f"^{_HADOOP}", r"https://\2.blob.\3/\1"),
    to_spark=Rewrite(
        rf"^https://({_ACCOUNT})\.blob\.({_CLOUDS})/({_CONTAINER})", r"abfss://\3@\1.dfs.\2"
    ),
    plain_place=_BLOB,
    unusual=r"(?s)^https://.*[\\?&@]",
    encoded_place=_BLOB,
    hadoop_client="ABFS (hadoop-azure)",
    place=f"(?:{_BLOB}|{_HADOOP}|{_ANY_HTTPS}|{_SHORT})/",
    endpoint_variables=("AZURE_STORAGE_ENDPOINT",),
)
"""An object store in a container of Azure Blob Storage or ADLS Gen2."""
