"""A process with forked children: each runs one verb with a fault before one step.

It reads orders from its standard input, each a line of JSON, and answers each of them. A step is a
call of an object store, a request to S3 or Azure, a statement of the ref store (including BEGIN and
COMMIT), a call of the file system, or the answer. Children are forked, because imports take
longer than a verb.
"""

from __future__ import annotations

import json
import mmap
import os
import pkgutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg

import sparklake
from sparklake import Lake, SparklakeError
from sparklake._lightness import keep_pandas_out
from sparklake.stores.objects.local.store import LocalStore
from sparklake.testing.lakes import postgres_lake

ROOT = Path(__file__).parents[2]

FILE_SYSTEM = ("link", "fsync", "open")
OBJECT_STORE = (
    "get",
    "get_many",
    "get_to_file",
    "put_if_absent",
    "put_many_if_absent",
    "put_files_if_absent",
    "replace",
    "find",
    "checksum",
    "list",
    "delete",
)
REQUESTS = ("get", "head", "put", "delete", "list", "list_with_delimiter")
STATEMENTS = ("execute", "commit", "rollback")

_COUNT = struct.Struct("<q")
_TEXT_BYTES = 16 * 1024

Order = dict[str, Any]
CarryOut = Callable[[Lake, Order], object]
Fault = Callable[[Order], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a verb: its step count, whether it was killed, and its error.

    `kind` is "" for an error that is not one of sparklake's.
    """

    steps: int
    died: bool
    error: str | None = None
    kind: str = ""


class Forks:
    """The process, seen by the sender of orders."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, dsn: str, step: int, fault: str = "kill", **order: Any) -> Answer:
        """Run a verb in a child, with a fault before one of its steps; 0 means no fault."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"dsn": dsn, "step": step, "fault": fault, **order}) + "\n")
        stdin.flush()
        return Answer(**json.loads(stdout.readline()))


@contextmanager
def forks(module: str, environment: Mapping[str, str] | None = None) -> Iterator[Forks]:
    """Run a module with a call of `serve` within the block."""
    with subprocess.Popen(
        [sys.executable, "-m", module],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Forks(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


# --- in that process ------------------------------------------------------------------------------


def kill(_: Order) -> None:
    """Kill this process before the next step."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def serve(carry_out: CarryOut, faults: Mapping[str, Fault] | None = None) -> None:
    """Answer orders until the standard input ends."""
    keep_pandas_out()
    import_verbs()
    for line in sys.stdin:
        answer = _answer(json.loads(line), carry_out, {"kill": kill, **(faults or {})})
        print(json.dumps(asdict(answer)), flush=True)


def import_verbs() -> None:
    """Import the lazy imports of verbs, and create the S3 client."""
    for package in ("verbs", "udfs", "stores", "graveler", "engine"):
        root = import_module(f"sparklake.{package}")
        for each in pkgutil.walk_packages(root.__path__, f"{sparklake.__name__}.{package}."):
            import_module(each.name)
    _share_s3_client()


def _share_s3_client() -> None:
    """Let forked children use the S3 client of this process. It sends no request itself."""
    from sparklake.stores.objects.s3 import client as s3_client

    original = s3_client._client.__wrapped__

    @lru_cache
    def shared(environment: Any, patience: Any) -> Any:
        return original(0, environment, patience)

    s3_client._client = lambda pid, environment, patience: shared(environment, patience)  # type: ignore[assignment]
    if "AWS_ENDPOINT_URL" in os.environ:
        s3_client.s3_client()


def _answer(order: Order, carry_out: CarryOut, faults: Mapping[str, Fault]) -> Answer:
    # Memory that outlives the child: the number of its steps, then its error.
    shared = mmap.mmap(-1, _COUNT.size + _TEXT_BYTES)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _run(order, carry_out, faults[order["fault"]], shared)
            status = 0
        except BaseException as error:  # noqa: BLE001  (the other side judges it)
            kind = error.kind if isinstance(error, SparklakeError) else ""
            text = json.dumps([kind, f"{type(error).__name__}: {error}"[:2000]]).encode()
            shared[_COUNT.size : _COUNT.size + len(text)] = text
        os._exit(status)
    _, status = os.waitpid(pid, 0)
    (steps,) = _COUNT.unpack(shared[: _COUNT.size])
    text = bytes(shared[_COUNT.size :]).rstrip(b"\0")
    shared.close()
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return Answer(steps, died=True)
    kind, words = json.loads(text) if text else ("", None)
    return Answer(steps, died=False, error=words, kind=kind)


def _run(order: Order, carry_out: CarryOut, fault: Fault, shared: mmap.mmap) -> None:
    os.environ.update(order.get("environment", {}))
    # With a home, the lake starts its server again.
    home = order.get("home")
    opened = (
        postgres_lake(order["dsn"]) if home is None else sparklake.connect(home, engine="local")
    )
    with opened as lake:
        step = _count_steps(order, fault, shared)
        carry_out(lake, order)
        # The last step is the answer, which is lost if the process dies before it.
        step()


def _count_steps(order: Order, fault: Fault, shared: mmap.mmap) -> Callable[[], None]:
    """Count the steps of this process, and inject a fault before one."""
    # Threads must not report out of turn, nor take a step in the moment of death.
    one_at_a_time = threading.RLock()
    number = 0

    def step() -> None:
        nonlocal number
        with one_at_a_time:
            number += 1
            shared[: _COUNT.size] = _COUNT.pack(number)
            if number == order["step"]:
                fault(order)

    owners: list[tuple[Any, tuple[str, ...]]] = [
        (LocalStore, (*OBJECT_STORE, "paths")),
        (os, FILE_SYSTEM),
        (psycopg.Connection, STATEMENTS),
    ]
    if "AWS_ENDPOINT_URL" in os.environ:
        from botocore.httpsession import URLLib3Session

        from sparklake.stores.objects.s3.store import S3Store

        owners += [(S3Store, OBJECT_STORE), (URLLib3Session, ("send",))]
    if "AZURE_STORAGE_ENDPOINT" in os.environ:
        import obstore

        from sparklake.stores.objects.remote import RemoteStore

        owners += [(RemoteStore, OBJECT_STORE), (obstore, REQUESTS)]
    for owner, names in owners:
        for name in names:
            setattr(owner, name, _stepping(getattr(owner, name), step))
    return step


def _stepping(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    def calling(*arguments: Any, **options: Any) -> Any:
        step()
        return call(*arguments, **options)

    return calling
