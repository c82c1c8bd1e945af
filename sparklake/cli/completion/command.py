"""`sparklake completion`."""

from __future__ import annotations

from typing import Annotated

from sparklake.cli.completion.scripts import script_of
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import argument, one_of


@command
def completion(
    invocation: Invocation,
    shell: Annotated[str, argument("bash|zsh|fish", autocompletion=one_of("bash", "zsh", "fish"))],
) -> None:
    """Print the completion script of a shell.

    Source it in the shell's start-up file: `eval "$(sparklake completion bash)"` or
    `eval "$(sparklake completion zsh)"`, and in fish `sparklake completion fish | source`.
    """
    script = script_of(shell)
    invocation.out.one({"shell": shell, "script": script}, script)
