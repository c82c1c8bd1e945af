"""A real Azure Blob endpoint: Azurite in its own process, on a free loopback port."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from azure.storage.blob import BlobServiceClient

ACCOUNT = "devstoreaccount1"
# Not a secret: Microsoft documents it for all emulators.
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_PROGRAM = "azurite/node_modules/azurite/dist/src/blob/main.js"
# Node ends with its parent, even a killed one: its standard input ends then.
_RUN = "process.stdin.on('end', () => process.exit()).resume(); require(process.argv[1])"
_PLACE = ("--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence")
_QUIET = ("--disableTelemetry", "--silent", "--skipApiVersionCheck")


@contextmanager
def azurite_server() -> Iterator[str]:
    """Yield the endpoint of a running server, including the account."""
    # Environments of single runtimes use that of the checkout.
    prefixes = (Path(sys.prefix), Path(__file__).parents[2] / ".venv")
    place = next((each for each in prefixes if (each / _PROGRAM).is_file()), None)
    if place is None:
        raise FileNotFoundError("Azurite is missing: run `make setup-tests`, which installs it")
    command = [str(place / "bin/node"), "-e", _RUN, str(place / _PROGRAM), *_PLACE, *_QUIET]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:  # noqa: S603
        try:
            yield f"{_endpoint(server)}/{ACCOUNT}"
        finally:
            server.kill()


def _endpoint(server: subprocess.Popen[str]) -> str:
    output = []
    for line in server.stdout or ():
        if match := re.search(r"listens on (http://\S+)", line):
            return match[1]
        output.append(line)
    raise ChildProcessError(f"Azurite did not start: {''.join(output)}")


def azure_environment(endpoint: str) -> dict[str, str]:
    """Return the environment for a client of this endpoint."""
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
        "AZURE_STORAGE_ENDPOINT": endpoint,
    }


def container_client(environment: Mapping[str, str], name: str) -> Any:
    """Return Microsoft's client of a container, for test setup."""
    return _service(environment["AZURE_STORAGE_ENDPOINT"]).get_container_client(name)


@cache
def _service(endpoint: str) -> Any:
    return BlobServiceClient(endpoint, credential=_KEY)


def fresh_container(environment: Mapping[str, str]) -> str:
    """Create a container for one test; return its canonical URI."""
    name = f"container-{uuid4().hex}"
    container_client(environment, name).create_container()
    return f"https://{ACCOUNT}.blob.core.windows.net/{name}"
