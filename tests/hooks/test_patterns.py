"""The limits of `hooks_allow` patterns: the promise of SECURITY.md, as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake.config import HookSettings, HookType
from sparklake.hooks.patterns import is_host
from sparklake.hooks.properties import PythonHook, ShellHook, Webhook, is_allowed
from tests.hooks.test_webhooks import refused
from tests.support.cases import for_each
from tests.support.hook_server import hook_server

HOOKS = "/opt/hooks/*"
SITE = "https://host.example/a/*"


def shell(pattern: str, command: str | list[str]) -> bool:
    hook = ShellHook(command, shell=isinstance(command, str))
    return is_allowed(HookSettings(allow=(f"shell:{pattern}",)), HookType.SHELL, hook)


def webhook(pattern: str, url: str) -> bool:
    return is_allowed(HookSettings(allow=(f"webhook:{pattern}",)), HookType.WEBHOOK, Webhook(url))


def python(pattern: str, function: str) -> bool:
    hook = PythonHook(function)
    return is_allowed(HookSettings(allow=(f"python:{pattern}",)), HookType.PYTHON, hook)


@for_each(
    ("pattern", "word"),
    [
        *((HOOKS, "/opt/hooks/ok.sh"), (HOOKS, "/opt/hooks/..ok"), (HOOKS, "/opt/hooks/a b;c")),
        *((HOOKS, "//opt/./hooks//ok.sh"), ("/opt/hooks/**", "/opt/hooks/a/ok.sh")),
        *(("/opt/*/ok.sh", "/opt/hooks/ok.sh"), ("/opt/**/ok.sh", "/opt/a/b/ok.sh")),
        *(("notify", "notify"), ("notify-*", "notify-team"), ("notify-?", "notify-a")),
    ],
)
def test_a_command_within_a_pattern_is_allowed(pattern: str, word: str) -> None:
    assert shell(pattern, [word, "any", "arguments"])


@for_each(
    ("pattern", "word"),
    [
        *((HOOKS, "/opt/hooks/../../bin/sh"), (HOOKS, "/opt/hooks/..")),
        *((HOOKS, "/opt/hooks/a/ok.sh"), (HOOKS, "/opt/hooks"), (HOOKS, "/opt/hooks/")),
        *((HOOKS, "/opt/hooks/./"), (HOOKS, "/OPT/hooks/ok.sh"), (HOOKS, "ok.sh")),
        *(("/opt/hooks/**", "/opt/hooks/a/../../../bin/sh"), ("/opt/hooks/**", "/opt/hooksx/a")),
        # A name is looked up in the PATH. No relative path is.
        *(("notify-*", "notify-/../../bin/sh"), ("notify-*", "notify-x/y")),
        *(("notify-*", "/usr/bin/notify-x"), ("**", "a/sh"), ("**", "./sh"), ("**", "../sh")),
        *(("*", "/bin/sh"), ("sh", "/bin/sh"), ("/bin/sh", "sh"), ("notify", "notify2")),
        # Patterns are no regular expressions and have no classes.
        *((".*", "sh"), ("[a-z]h", "sh"), ("/opt/hooks/..", "/opt/hooks/.."), ("", "sh")),
    ],
)
def test_a_command_outside_a_pattern_is_rejected(pattern: str, word: str) -> None:
    assert not shell(pattern, [word, "-c", "id"])


@for_each(
    ("pattern", "text", "is_within"),
    [
        ("touch x; true", "touch x; true", True),
        ("touch x", "touch x; id", False),
        *((HOOKS, "/opt/hooks/ok.sh; id", False), (HOOKS, "/opt/hooks/ok.sh", False)),
        *((HOOKS, HOOKS, False), ("**", "id", False), ("*", "*", False), ("*", "id", False)),
        *(("notify-*", "notify-x; id", False), ("notify-?", "notify-?", False)),
        ("/opt/hooks/ok.sh", "/opt/hooks/ok.sh $(id)", False),
    ],
)
def test_wildcards_never_match_a_shell_script(pattern: str, text: str, is_within: bool) -> None:
    assert shell(pattern, text) is is_within


def test_a_type_without_a_pattern_allows_every_hook() -> None:
    settings = HookSettings(allow=("shell", "webhook"))
    for hook in (ShellHook("id; *", shell=True), ShellHook(["/opt/../bin/sh"])):
        assert is_allowed(settings, HookType.SHELL, hook)
    assert is_allowed(settings, HookType.WEBHOOK, Webhook("https://host./a/../b"))
    assert not is_allowed(HookSettings(allow=()), HookType.SHELL, ShellHook(["id"]))


def test_symbolic_links_are_not_resolved(tmp_path: Path) -> None:
    """Write access to an allowed folder decides what runs from it."""
    (tmp_path / "hook").symlink_to("/bin/sh")
    assert shell(f"{tmp_path}/*", [f"{tmp_path}/hook"])
    assert not shell("/bin/*", [f"{tmp_path}/hook"])


@for_each(
    ("pattern", "url"),
    [
        *((SITE, "https://host.example/a/b"), (SITE, "https://host.example/a/")),
        *((SITE, "HTTPS://HOST.example:443/a/b"), (SITE, "https://host.example/a/b?to=/c#d")),
        *((SITE, "https://host.example/a/b%20c"), (SITE, "https://host.example/a/b;v=1")),
        *(("https://Host.example:443/**", "https://host.example/a/b/c"),),
        *(("https://host.example", "https://host.example/"),),
        *(
            ("https://*.example/", "https://b.example"),
            ("https://**.example/", "https://a.b.example/"),
        ),
        *(("http://[::1]:8080/*", "http://[::1]:8080/a"), ("http://h:*/*", "http://h:99/a")),
    ],
)
def test_a_url_within_a_pattern_is_allowed(pattern: str, url: str) -> None:
    assert webhook(pattern, url)


@for_each(
    ("pattern", "url"),
    [
        *(
            (SITE, f"https://host.example/a/{each}")
            for each in ("..", "../admin", "b/c", "b/", ".")
        ),
        *((SITE, f"https://host.example/a/{each}") for each in ("%2e%2e", "..%2fadmin", "b%5Cc")),
        *((SITE, f"https://host.example/a/{each}") for each in ("%252e", "b%00", "..;v=1", "%zz")),
        *((SITE, f"https://host.example/a/{each}") for each in ("%c0%ae%c0%ae", "%2E%2E;x", ";x")),
        *((SITE, "https://host.example//a/b"), (SITE, "https://host.example/%61/b")),
        *(
            ("https://host.example/**", f"https://host.example/{each}")
            for each in ("a//b", "a/../b")
        ),
        *((SITE, "http://host.example/a/b"), (SITE, "https://host.example:8443/a/b")),
        *((SITE, "https://host.example./a/b"), (SITE, "https://xhost.example/a/b")),
        *((SITE, "https://host.example.evil.example/a/b"), (SITE, "https://evil.example/a/b")),
        *((SITE, "https://evil.example/?https://host.example/a/b"),),
        *((SITE, "https://evil.example/https://host.example/a/b"),),
        *(("https://*/a", "https://evil.example/a"), ("https://*.example/*", "https://example/a")),
        *(("https://*.example/*", "https://evil.org/.example/a"),),
        *(("https://host.example", "https://host.example/a"), ("*", "https://host.example/a")),
        *(("https://host.example*", "https://host.example.evil.org/"),),
        *(("http://127.0.0.1/*", "http://127.1/a"), ("http://h:80*/*", "http://h:443/a")),
    ],
)
def test_a_url_outside_a_pattern_is_rejected(pattern: str, url: str) -> None:
    assert not webhook(pattern, url)


@pytest.mark.parametrize("url", ["https://host.example@evil.example/a/b", "https://a:b@host/a"])
def test_a_url_with_a_user_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="may not contain a user"):
        Webhook(url)


@pytest.mark.parametrize("end", ["..", "%2e%2e_admin", "_", "../a/../admin"])
def test_a_redirect_stays_within_the_patterns(end: str) -> None:
    with hook_server() as server:
        start = f"{server.url}/to-{server.url.replace('/', '_')}_a_{end.replace('/', '_')}"
        allow = (f"webhook:{server.url}/to-*", f"webhook:{server.url}/a/*")
        only = HookSettings(allow=allow, private=("127.0.0.0/8",))
        refused("hooks_allow", start, only, follow_redirects=True)
        assert len(server.posted) == 1


@pytest.mark.parametrize(
    ("pattern", "function", "is_within"),
    [
        *(
            ("checks.rows:unique", "checks.rows:unique", True),
            ("checks.*:*", "checks.rows:a", True),
        ),
        *(("checks.**", "checks.rows.more:a", True), ("checks:*", "checks:a", True)),
        *(("checks.*", "checks.rows.more:a", False), ("checks*", "checks.os:system", False)),
        *(("checks.*", "checksx.rows:a", False), ("checks:*", "checks.rows:a", False)),
    ],
)
def test_functions_are_matched_by_modules(pattern: str, function: str, is_within: bool) -> None:
    assert python(pattern, function) is is_within


@pytest.mark.parametrize(
    ("pattern", "host", "is_within"),
    [
        *(("*.corp.example", "a.Corp.example", True), ("localh*", "localhost", True)),
        # A name that looks like the start of a network may be anybody's.
        *(("10.*", "10.evil.example", False), ("*.corp.example", "a.b.corp.example", False)),
        *(("**.corp.example", "a.b.corp.example", True), ("corp*", "corp.evil.example", False)),
    ],
)
def test_private_hosts_are_matched_by_labels(pattern: str, host: str, is_within: bool) -> None:
    assert is_host(pattern, host) is is_within
