"""Conditional writes with an old client."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError

from sparklake.stores.objects.s3.client import send_conditions


@pytest.fixture
def old_client(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a client without the condition parameters, like botocore 1.34."""
    client: Any = boto3.session.Session().client("s3")
    for name in ("PutObject", "CompleteMultipartUpload"):
        members = client.meta.service_model.operation_model(name).input_shape.members
        for condition in ("IfNoneMatch", "IfMatch"):
            monkeypatch.delitem(members, condition, raising=False)
    return client


def test_an_old_client_rejects_the_parameter(old_client: Any, bucket: str) -> None:
    with pytest.raises(ParamValidationError):
        old_client.put_object(Bucket=bucket, Key="k", Body=b"", IfNoneMatch="*")


def test_an_old_client_puts_only_absent_objects(old_client: Any, bucket: str) -> None:
    send_conditions(old_client)
    target = {"Bucket": bucket, "Key": "whole"}
    old_client.put_object(**target, Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        old_client.put_object(**target, Body=b"second", IfNoneMatch="*")
    assert old_client.get_object(**target)["Body"].read() == b"first"
    first = old_client.head_object(**target)["ETag"]
    old_client.put_object(**target, Body=b"third")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        old_client.put_object(**target, Body=b"fourth", IfMatch=first)
    assert old_client.get_object(**target)["Body"].read() == b"third"


def test_an_old_client_completes_an_upload_only_once(old_client: Any, bucket: str) -> None:
    send_conditions(old_client)
    target = {"Bucket": bucket, "Key": "parts"}

    def upload(body: bytes) -> None:
        upload_id = old_client.create_multipart_upload(**target)["UploadId"]
        part = old_client.upload_part(**target, UploadId=upload_id, PartNumber=1, Body=body)
        parts = [{"PartNumber": 1, "ETag": part["ETag"]}]
        old_client.complete_multipart_upload(
            **target, UploadId=upload_id, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
        )

    upload(b"first")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        upload(b"second")
    assert old_client.get_object(**target)["Body"].read() == b"first"
