"""Hook files: valid ones, and the errors of invalid ones."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklake.config import HookType
from sparklake.errors import InvalidHooksError
from sparklake.hooks.declarations import MAX_FILE_BYTES, parse_action
from sparklake.hooks.events import EventName
from sparklake.hooks.properties import PythonHook, ShellHook, Webhook, seconds
from tests.support.cases import for_each

GOOD = b"""
name: checks of main
description: what lakeFS takes, too
on:
  pre-merge:
    branches: [main, 'release-*']
  pre-commit:
  post-create-tag:
    tags: [v*]
hooks:
  - id: ask
    type: webhook
    description: a server
    properties:
      url: "https://hooks.example.com/check?x=1"
      timeout: 1m30s
      headers: {Authorization: "Bearer {{ ENV.TOKEN }}"}
      query_params: {kind: [a, b], one: c}
  - id: run
    type: shell
    if: failure()
    properties: {command: [echo, 'yes']}
  - id: call
    type: python
    if: true
    properties: {function: "checks.tables:check", args: {on: no}}
  - id: theirs
    type: lua
    properties: {script: print()}
"""
ONE = "on: {pre-commit: }\nhooks:\n  - id: a\n    type: %s\n    properties: {%s}\n"


def wrong(body: bytes | str) -> str:
    with pytest.raises(InvalidHooksError) as raised:
        parse_action("h.yaml", body if isinstance(body, bytes) else body.encode())
    path, _, message = str(raised.value).partition(": ")
    assert path == "h.yaml"
    return message


def test_a_hook_file_of_lakefs_is_parsed() -> None:
    action = parse_action("_lakefs_actions/a.yaml", GOOD)
    assert action.name == "checks of main"
    assert [each.id for each in action.hooks] == ["ask", "run", "call", "theirs"]
    assert [each.condition for each in action.hooks] == ["success", "failure", "always", "success"]
    ask, run, call, theirs = action.hooks
    assert ask.properties == Webhook(
        "https://hooks.example.com/check?x=1",
        "1m30s",
        {"Authorization": "Bearer {{ ENV.TOKEN }}"},
        {"kind": ["a", "b"], "one": "c"},
    )
    assert run.properties == ShellHook(["echo", "yes"])
    # `on` and `no` are words: only true and false are truths.
    assert call.properties == PythonHook("checks.tables:check", {"on": "no"})
    assert theirs.type is HookType.LUA


def test_an_action_without_a_name_is_named_after_its_file() -> None:
    action = parse_action("_sparklake/hooks/guard.yml", (ONE % ("lua", "")).encode())
    assert action.name == "guard"


@pytest.mark.parametrize(
    ("event", "ref", "expected"),
    [
        (EventName.PRE_MERGE, "main", True),
        (EventName.PRE_MERGE, "release-1", True),
        (EventName.PRE_MERGE, "dev", False),
        (EventName.PRE_MERGE, "mainly", False),
        (EventName.POST_MERGE, "main", False),
        (EventName.PRE_COMMIT, "dev", True),
        (EventName.POST_CREATE_TAG, "v1", True),
        (EventName.POST_CREATE_TAG, "w1", False),
    ],
)
def test_branches_and_tags_are_matched_by_globs(event: EventName, ref: str, expected: bool) -> None:
    assert parse_action("a.yaml", GOOD).is_on(event, ref) is expected


@for_each(
    ("body", "message"),
    [
        (b"", "line 1: the file is empty"),
        (b"# nothing\n", "line 1: the file is empty"),
        (b"\xff", "it is not UTF-8"),
        (b"\x00", "it is not YAML"),
        (b" " * (MAX_FILE_BYTES + 1), "more than"),
        ("a: [", "line 1: "),
        ("on: 1\non: 2", "line 2: 'on' occurs twice"),
        ("? [a]\n: b", "line 1: a key must be a word"),
        ("on: &a {}\nhooks: *a", "line 2: anchors and aliases"),
        ("--- 1\n--- 2", "line 2: "),
        ("[" * 30_000, "line 1: it is nested more than 32 levels deep"),
        ("!!python/object/apply:os.getcwd []", "line 1: "),
        ("on: {pre-commit: }\nhooks: !!bool x", "line 2: 'x' is not a valid bool"),
        ("on: {pre-commit: }\nhooks: !!timestamp x", "line 2: 'x' is not a valid timestamp"),
        ("on: {pre-commit: }\nhooks: !!int ''", "line 2: '' is not a valid int"),
        ("on: {pre-commit: }\nhooks: !!float x", "line 2: 'x' is not a valid float"),
        ("on: 2024-99-99", "line 1: '2024-99-99' is not a valid timestamp"),
        ("on: " + "9" * 5000, "line 1: '999"),
        ('on: "\\UFFFFFFFF"', "it is not YAML: "),
        ('a:\nb: "\\ud800"', "line 2: a string has half of a surrogate pair"),
        ('name: "\\0"\n' + ONE % ("lua", ""), "line 1: name: a name cannot contain a NUL"),
        (
            ONE.replace("id: a", 'id: "\\0"') % ("lua", ""),
            "line 3: hooks[0].id: a name cannot contain a NUL",
        ),
        ("- on", "line 1: "),
        ("on: {}\nhooks: []", "line 1: it declares no event"),
        ("hooks: []\n", "line 1: "),
        (
            "on: {pre-comit: }\nhooks: [{id: a, type: lua}]",
            "line 1: on: Invalid enum value 'pre-comit': it must be one of pre-commit",
        ),
        (
            "on: {prepare-commit: }\nhooks: [{id: a, type: lua}]",
            "line 1: on: Invalid enum value 'prepare-commit': it must be one of ",
        ),
        (
            "on:\n  pre-commit:\n    branch: [main]\nhooks: [{id: a, type: lua}]",
            "line 3: on.pre-commit: Object contains unknown field `branch`",
        ),
        (
            "on:\n  pre-create-tag: {branches: [a]}\nhooks: [{id: a, type: lua}]",
            "line 2: on.pre-create-tag: pre-create-tag is filtered by tags",
        ),
        (
            "on: {pre-merge: {tags: [a]}}\nhooks: [{id: a, type: lua}]",
            "line 1: on.pre-merge: pre-merge is filtered by branches",
        ),
        (
            "on: {pre-commit: }\nhooks:\n- id: a\n  type: exe",
            "line 4: hooks[0].type: Invalid enum value 'exe': it must be one of python, shell,",
        ),
        ("on: {pre-commit: }\nhooks:\n- {id: 3, type: lua}", "line 3: hooks[0].id: Expected `str`"),
        (
            "on: {pre-commit: }\nhooks:\n- {id: a, type: lua}\n- {id: a, type: lua}",
            "line 4: hooks[1].id: each hook needs its own id",
        ),
        (
            "on: {pre-commit: }\nhooks:\n- id: a\n  type: lua\n  if: sometimes",
            "line 5: hooks[0].if: it must be one of",
        ),
        (ONE % ("webhook", ""), "line 5: hooks[0].properties: Object missing required field `url`"),
        (ONE % ("webhook", "url: 'ftp://x'"), "a URL must start with https://"),
        (ONE % ("webhook", "url: 'http://'"), "a URL must start with https://"),
        (ONE % ("webhook", "url: 'http://a:99999/'"), "ort"),
        (ONE % ("webhook", "url: 'http://me:secret@a/'"), "a URL may not contain a user"),
        (ONE % ("webhook", "url: 'http://a/ b'"), "a URL must be printable ASCII"),
        (ONE % ("webhook", "url: 'http://a', timeout: 2x"), "'2x' is not a duration"),
        (ONE % ("webhook", "url: 'http://a', timeout: 0"), "a timeout must be above 0"),
        (
            ONE % ("webhook", "url: 'http://a', timeout: 2h"),
            "a timeout must be above 0 and at most",
        ),
        (ONE % ("webhook", "url: 'http://a', headers: {Host: b}"), "the header 'Host' may not"),
        (ONE % ("webhook", "url: 'http://a', headers: {'a b': b}"), "the header 'a b' may"),
        (ONE % ("webhook", "url: 'http://a', retry: 3"), "unknown field `retry`"),
        (ONE % ("shell", "command: ls"), "a command must be a list of words"),
        (ONE % ("shell", "command: [ls], shell: true"), "a command must be a list of words"),
        (ONE % ("shell", "command: []"), "a command may not be empty"),
        (ONE % ("shell", "command: '', shell: true"), "a command may not be empty"),
        (ONE % ("python", "function: os.system"), "'os.system' is not a function"),
        (ONE % ("python", "function: 'a:b', table: x"), "unknown field `table`"),
    ],
)
def test_an_invalid_hook_file_is_rejected_with_its_line(body: bytes | str, message: str) -> None:
    assert message in wrong(body)


_TOKENS = st.sampled_from(
    [
        *("on: ", "hooks: ", "id: ", "type: ", "if: ", "properties: ", "args: ", "pre-commit: "),
        *("branches: ", "webhook", "shell", "python", "lua", "url: ", "timeout: ", "command: "),
        *("!!bool ", "!!int ", "!!float ", "!!timestamp ", "!!null ", "!!binary ", "!!set "),
        *("!!omap ", "!!pairs ", "!!str ", "!!seq ", "!!map ", "!x ", "!", "!<", "<<: ", "= "),
        *("\n", "\n  ", "\n- ", "  - ", "{", "}", "[", "]", ",", ": ", "? ", "| ", "> ", "---\n"),
        *("x", "''", '"', "'", "\\", "ud800", "UFFFFFFFF", "0x", "0b", "9" * 400, "1e400", ".inf"),
        *(
            "2024-99-99",
            "~",
            "%",
            "@",
            "&a",
            "*a",
            "\0",
            "\x85",
            "\ufeff",
            "\u2028",
            "true",
            "http://[",
        ),
    ]
)


@given(st.lists(_TOKENS, max_size=12).map("".join))
@example("on: {pre-commit: }\nhooks: [{id: a, type: lua, if: !!bool x}]")
def test_random_hook_files_are_parsed_or_rejected(text: str) -> None:
    with suppress(InvalidHooksError):
        parse_action("h.yaml", text.encode())


@given(st.binary(max_size=40))
def test_random_bytes_are_rejected(body: bytes) -> None:
    with suppress(InvalidHooksError):
        parse_action("h.yaml", body)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500ms", 0.5), ("30s", 30), ("1m", 60), ("1m30s", 90), ("1h", 3600), ("0.5s", 0.5), (7, 7)],
)
def test_a_duration_is_parsed(text: str | float, expected: float) -> None:
    assert seconds(text) == expected
