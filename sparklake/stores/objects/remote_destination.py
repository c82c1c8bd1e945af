"""Copies to a bucket or container of any service, through this machine."""

from __future__ import annotations

from dataclasses import dataclass

from sparklake._scratch import scratch_folder
from sparklake.errors import InvalidKeyError
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects.destinations import BucketDestination, ExpectedObject
from sparklake.stores.objects.key_checks import check_key
from sparklake.stores.objects.local.destination import copy_verified
from sparklake.stores.objects.remote import RemoteStore


@dataclass(frozen=True, slots=True)
class RemoteDestination(BucketDestination):
    """A prefix of a bucket. Objects are downloaded, verified and uploaded."""

    store: RemoteStore
    has_folders: bool = False

    def unsupported_reason(self, key: str) -> str:
        if self.has_folders and "" in key.split("/"):
            return "has an empty part"
        try:
            check_key(key)
            self.store.bucket.check_key(self.store.root + key)
        except InvalidKeyError as error:
            return str(error).partition(": ")[2].partition("; ")[0] or "has a part '.' or '..'"
        return ""

    def copy(self, key: str, expected: ExpectedObject, store: ObjectStore, source: str) -> None:
        with scratch_folder() as folder:
            copy = folder / "object"
            copy_verified(copy, expected, store, source)
            self.store.upload(key, copy, expected.content_type)
