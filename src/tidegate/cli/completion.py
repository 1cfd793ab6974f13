"""`tidegate completion`: the tab key completes commands, options, sessions and policies in a shell."""

import argparse
import re
from collections.abc import Mapping
from typing import Protocol

from tidegate.cli.options import Subparsers, add_command
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = "Print the lines that let your shell complete commands, options, sessions and policies with the tab key."
_EPILOG = """\
To have it in every new shell:
  bash: echo 'eval "$(tidegate completion bash)"' >> ~/.bashrc
  zsh:  echo 'eval "$(tidegate completion zsh)"' >> ~/.zshrc        (after compinit)
  fish: tidegate completion fish > ~/.config/fish/completions/tidegate.fish

examples:
  tidegate completion bash
  eval "$(tidegate completion bash)"
"""
_SCRIPTS = {
    "bash": """\
_tidegate() {
  local IFS=$'\\n'
  COMPREPLY=($(tidegate completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _tidegate tidegate
""",
    "zsh": """\
_tidegate() {
  local -a found
  found=("${(@f)$(tidegate completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n "$found" ]] && compadd -a found || _files
}
compdef _tidegate tidegate
""",
    "fish": """\
function __tidegate_complete
  set -l found (tidegate completion words -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
  if test -n "$found"
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c tidegate -f -a '(__tidegate_complete)'
""",
}


class CompletedCommand(Protocol):
    """The parser of a command."""

    def list_option_names(self) -> list[str]: ...

    def format_usage(self) -> str: ...


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "completion",
        run,
        summary="complete commands and names with the tab key",
        description=_ABOUT,
        epilog=_EPILOG,
    )
    parser.add_argument("shell", choices=(*_SCRIPTS, "words"), help="the shell; words is for the script itself")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    if options.shell in _SCRIPTS:
        print(_SCRIPTS[options.shell], end="")
    else:
        words = options.words[1:] if options.words[:1] == ["--"] else options.words  # the last one may be "--", too
        from tidegate.cli.parser import make_parser

        for word in list_completions(make_parser().commands, words or [""]):
            print(word)
    return EXIT_OK


def list_completions(commands: Mapping[str, CompletedCommand], words: list[str]) -> list[str]:
    """The words that can complete or replace the last one. None where a file or any text is expected."""
    *before, word_start = words
    command = commands.get(before[0]) if before else None
    if not before:
        words_to_offer = [name for name in commands if name != "seeds"]
    elif command is None:
        words_to_offer = []
    elif word_start.startswith("-"):
        words_to_offer = command.list_option_names()
    elif before[-1] in ("--policy", "policies"):
        from tidegate.presets import preset_names

        words_to_offer = list(preset_names())
    elif before[-1] == "--session" or (len(before) == 1 and " SESSION" in command.format_usage()):
        words_to_offer = _list_session_names(before)
    else:
        choices = re.search(r"\{([\w,-]+)\}", command.format_usage())
        words_to_offer = choices[1].split(",") if choices and len(before) == 1 else []
    return [word for word in words_to_offer if word.startswith(word_start)]


def _list_session_names(words: list[str]) -> list[str]:
    import os

    from tidegate.cli.data_location import locate_data_folder
    from tidegate.core.errors import TidegateError
    from tidegate.datafolder.location import STORE_VARIABLE
    from tidegate.datafolder.session_logs import SessionLogs

    data = words[words.index("--data") + 1] if "--data" in words[:-1] else ""
    folder = locate_data_folder(argparse.Namespace(data=data))
    if not folder.is_dir():
        return []
    try:
        with SessionLogs(folder, store=os.environ.get(STORE_VARIABLE, "")) as logs:
            return [info.name for info in logs.store.sessions() if info.name.isprintable()]
    except (OSError, TidegateError):
        return []
