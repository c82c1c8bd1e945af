"""Shell completion scripts: one candidate per line, with a description in zsh and fish."""

from __future__ import annotations

from sparklake.errors import InvalidInputError

INSTRUCTION = "_SPARKLAKE_COMPLETE"
"""The variable that makes the program print candidates for the shell that it names."""

BASH_WORD = "_SPARKLAKE_COMPLETE_WORD"
"""The variable with the text that bash replaces, which starts after the last ':' or '='."""


_BASH = r"""
_sparklake() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <(
        _SPARKLAKE_COMPLETE=bash _TYPER_COMPLETE_ARGS="${COMP_LINE:0:COMP_POINT}" \
            _SPARKLAKE_COMPLETE_WORD="$2" "${1/#\~\//$HOME/}" 2>/dev/null
    )
    # A folder is no whole word. Without compopt (bash 3), a space follows it.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _sparklake sparklake
"""

_ZSH = r"""
#compdef sparklake
_sparklake() {
    local -a found folders folder_texts others other_texts
    local each value text
    found=("${(@f)$(_SPARKLAKE_COMPLETE=zsh _TYPER_COMPLETE_ARGS="${words[1,CURRENT]}" \
        sparklake 2>/dev/null)}")
    for each in $found; do
        value=${each%%$'\t'*}
        text=$value
        [[ $each == *$'\t'* ]] && text="$value  -- ${each#*$'\t'}"
        if [[ $value == */ ]]; then
            folders+=("$value")
            folder_texts+=("$text")
        else
            others+=("$value")
            other_texts+=("$text")
        fi
    done
    if (( $#folders + $#others == 0 )); then
        _files
        return
    fi
    # No space follows a folder.
    (( $#folders )) && compadd -U -S '' -l -d folder_texts -a folders
    (( $#others )) && compadd -U -l -d other_texts -a others
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _sparklake "$@"
else
    compdef _sparklake sparklake
fi
"""

_FISH = r"""
function __sparklake_complete
    set -l found (env _SPARKLAKE_COMPLETE=fish _TYPER_COMPLETE_ARGS=(commandline -cp) \
        sparklake 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command sparklake --no-files --arguments '(__sparklake_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def script_of(shell: str) -> str:
    if shell not in SCRIPTS:
        names = ", ".join(SCRIPTS)
        raise InvalidInputError(
            f"there is no completion for the shell {shell!r}: choose one of {names}"
        )
    return SCRIPTS[shell].strip()
