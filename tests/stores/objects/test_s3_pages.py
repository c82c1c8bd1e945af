"""Listings with our own page parser, compared with botocore's."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.session import get_session

from sparklake.stores.objects.s3.pages import PageParsers

FIELDS = ("Key", "Size", "LastModified", "ETag")
TIME = "2026-11-23T21:32:26.000Z"


def an_object(key: str = "k", size: str = "10", time: str = TIME, more: str = "") -> str:
    return (
        f"<Contents><Key>{key}</Key><LastModified>{time}</LastModified>{more}"
        f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def page(*contents: str, space: str = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"') -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult{space}><Name>lake</Name>'
        "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
        f"<NextContinuationToken>a+b</NextContinuationToken>{''.join(contents)}"
        "<CommonPrefixes><Prefix>a%20b/</Prefix></CommonPrefixes></ListBucketResult>"
    )


ETAG = "<ETag>&quot;781e5e245d69b566979b86e28d23f2c7-2&quot;</ETag>"
READ = {
    "keys": page(*map(an_object, ("a%20b", "%C3%BC/%26", "a+b", "%2F%2F", "&amp;&lt;", "%00"))),
    "times": page(
        *(an_object(time=f"2026-11-23T21:32:26{each}Z") for each in ("", ".123", ".123456"))
    ),
    "sizes": page(an_object(size="0"), an_object(size=str(1 << 62)), an_object(more=ETAG)),
    "no namespace": page(an_object(), space=""),
    "another namespace": page(an_object(), space=' xmlns="urn:else"'),
    "plain names": page(an_object("a%20b")).replace("<EncodingType>url</EncodingType>", ""),
    "the last page": page(an_object()).replace(">true<", ">false<"),
}
LEFT = {
    "no objects": page(),
    "an offset": page(an_object(), an_object(time="2026-11-23T21:32:26.000+02:00")),
    "another form of time": page(an_object(time="Mon, 23 Nov 2026 21:32:26 GMT")),
    "no size": page(an_object().replace("<Size>10</Size>", "")),
    "an empty key": page(an_object("")),
    "words as a size": page(an_object(size="ten")),
    "cut off": page(an_object())[:-40],
    "nothing": "",
    "no XML": "{}",
    "an error": "<Error><Code>InternalError</Code><Message>again</Message></Error>",
    "something else": "<Answer><Contents><Key>k</Key></Contents></Answer>",
}


class Answers:
    """A server with one response for every request, and clients of both kinds."""

    def __init__(self) -> None:
        self.body = ""
        self.server = HTTPServer(("127.0.0.1", 0), self._handler())
        self.plain = self._client(get_session())
        core: Any = get_session()
        core.register_component("response_parser_factory", PageParsers())
        self.quick = self._client(core)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = answers.body.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        return Handler

    def _client(self, core: Any) -> Any:
        names: Any = {"region_name": "us-east-1", "botocore_session": core}
        session: Any = boto3.session.Session("test-key", "test-secret", **names)
        return session.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.server.server_port}",
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    responder = Answers()
    thread = Thread(target=responder.server.serve_forever)
    thread.start()
    yield responder
    responder.server.shutdown()
    thread.join()
    responder.server.server_close()


def listed(client: Any) -> Any:
    """Return the answer without headers, or the type of its error."""
    try:
        answer = client.list_objects_v2(Bucket="lake")
    except Exception as error:  # noqa: BLE001  (any error, which the other client must raise, too)
        return type(error).__name__
    answer.pop("ResponseMetadata")
    return answer


def shortened(answer: Any) -> Any:
    """Return a response with only the object fields that sparklake uses."""
    if isinstance(answer, dict) and "Contents" in answer:
        some = [{name: each.get(name, "") for name in FIELDS} for each in answer.pop("Contents")]
        return {**answer, "Contents": some}
    return answer


@pytest.mark.parametrize("name", READ)
def test_our_parser_agrees_with_botocore(name: str, answers: Answers) -> None:
    answers.body = READ[name]
    expected = shortened(listed(answers.plain))
    answer = listed(answers.quick)
    assert set(answer["Contents"][0]) == set(FIELDS), "this module read them"
    assert answer == expected


@pytest.mark.parametrize("name", LEFT)
def test_unusual_responses_are_left_to_botocore(name: str, answers: Answers) -> None:
    answers.body = LEFT[name]
    expected = listed(answers.plain)
    assert listed(answers.quick) == expected
