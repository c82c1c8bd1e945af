"""`sparklake url`: presigned URLs."""

from __future__ import annotations

from urllib.request import urlopen
from uuid import uuid4

from sparklake.testing.s3_server import fresh_bucket
from tests.cli.running import Scene, failed, ok, said


def test_a_url_of_an_object_in_a_bucket(s3_env: dict[str, str]) -> None:
    name = f"r{uuid4().hex[:12]}"
    ok("repo", "create", f"lakefs://{name}", f"s3://{fresh_bucket(s3_env)}/lake")
    ok("put", "-", f"lakefs://{name}/main/a b.txt", stdin=b"body")
    url = ok("url", f"lakefs://{name}/main/a b.txt").strip()
    document = said("url", f"lakefs://{name}/main/a b.txt", "--expires", "30m")
    assert (document["type"], document["expires_in"]) == ("url", 1800)
    for each in (url, document["url"]):
        with urlopen(each) as answer:
            assert answer.read() == b"body"
    assert "choose 1 second to 7 days" in failed(
        2, "url", f"lakefs://{name}/main/a b.txt", "--expires", "8d"
    )


def test_a_local_object_has_no_url(scene: Scene) -> None:
    scene.put("main", {"a": "body"})
    assert "has no presigned URLs" in failed(2, "url", scene.uri("main", "a"))
