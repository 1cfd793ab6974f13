"""Slash commands: one registry for every face, and everything that `/help` says comes from it.

    registry = commands.registry()
    answer = await registry.answer("/recall port 8443", Place(session, "build-fix", data))
    show(answer.text)
    if answer.act: ...          # what only the face can do, in words: see `Answer`

Whatever is typed, the answer is a text: bounded, without secrets and without a character that a terminal obeys.
"""

import difflib
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.secrets import SecretMask, keys_of
from tidegate.core.text.terminal_text import clean_text
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.catalog import ModelInfo
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer

MAX_ANSWER_CHARS: Final = 16_000
"""Characters of an answer."""


class CommandAnswer(NamedTuple):
    """`act` is what the face must do itself:

    - `quit`
    - `pick-session`, `pick-model`: let the user choose, if it can; the text lists them
    - `resume NAME`: go on in the session of this name
    - `model NAME`, `policy NAME`, `reopen`: close the session and open it again, as `agent.commands_opening` says
    """

    text: str
    error: bool = False
    action: str = ""


class CommandContext(NamedTuple):
    """Where a command is given.

    `summarise` writes summaries, `parts` are the tokens of the parts of the system prompt by name, `rules` are those of
    the configuration, `prices` are what the user says of models. While the agent is `busy`, nothing may change what it
    reads. `agent` is the open agent and `opening` how it was opened, where there is one: the commands of the agent know
    their types.
    """

    session: Session
    session_name: str = ""
    data: DataFolder | None = None
    summarizer: AsyncSummarizer | None = None
    prompt_parts: Mapping[str, int] = MappingProxyType({})
    model_overrides: Mapping[str, ModelInfo] = MappingProxyType({})
    is_busy: bool = False
    agent: object = None
    launch_options: object = None
    rules: tuple[str, ...] = ()

    @property
    def require_data(self) -> DataFolder:
        """The data folder, for commands that are about what is kept."""
        if self.data is None:
            raise BadInput("Nothing of this session is kept.", "Begin one with a data folder.")
        return self.data

    @property
    def mask(self) -> SecretMask:
        return self.data.mask if self.data is not None else SecretMask(keys_of(os.environ))

    def require_idle(self) -> None:
        """BadInput while the agent works: what it reads must not change under it."""
        if self.is_busy:
            raise BadInput("The agent is at work.", "Wait until the turn is over, or interrupt it.")


RunCommand = Callable[[CommandContext, str], Awaitable[CommandAnswer]]
CompletionSource = Callable[[CommandContext | None], Iterable[str]]


class Command(NamedTuple):
    """`usage` is what stands behind the name, `words` what may be typed there: for completion."""

    name: str
    description: str
    run: RunCommand
    usage: str = ""
    aliases: tuple[str, ...] = ()
    completions: CompletionSource | None = None


class CommandMatch(NamedTuple):
    """The command of a line and what stands behind it; without one, the name that was probably meant, or nothing."""

    command: Command | None
    arguments: str = ""
    nearest: str = ""


class CommandRegistry:
    """The commands in the order they are shown. `/help` is one of them."""

    def __init__(self, commands: Iterable[Command]) -> None:
        own = Command("help", "what you can say here, or all about one command", self._help, "[COMMAND]", ("?", "h"))
        self._commands = (own._replace(completions=lambda _: [each.name for each in self]), *commands)
        self._by_name: dict[str, Command] = {}
        for command in self._commands:
            for name in (command.name, *command.aliases):
                if name in self._by_name:
                    raise BadInput(f"There are two commands /{name}.", "Give one of them another name.")
                self._by_name[name] = command

    def __iter__(self) -> Iterator[Command]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)

    def find(self, line: str) -> CommandMatch:
        """The name is read without its slash and in any case."""
        name, _, rest = line.strip().removeprefix("/").partition(" ")
        name, _, below = name.partition("\n")
        command = self._by_name.get(name.casefold())
        if command is not None:
            return CommandMatch(command, f"{below} {rest}".strip())
        near = difflib.get_close_matches(name.casefold()[:80], self._by_name, n=1, cutoff=0.5)
        return CommandMatch(None, rest, self._by_name[near[0]].name if near else "")

    def complete(self, prefix: str, place: CommandContext | None = None) -> list[str]:
        """Lines that begin with what was typed. An alias is completed only where no name fits."""
        name, space, rest = prefix.lstrip().removeprefix("/").partition(" ")
        if not space:
            begun = name.casefold()
            names = [each.name for each in self if each.name.startswith(begun)]
            return [f"/{each}" for each in names or sorted(key for key in self._by_name if key.startswith(begun))]
        command = self._by_name.get(name.casefold())
        if command is None or command.completions is None:
            return []
        return [f"/{command.name} {word}" for word in command.completions(place) if word.startswith(rest)]

    async def answer(self, line: str, place: CommandContext) -> CommandAnswer:
        """Run a line. Only a cancellation is raised."""
        found = self.find(line)
        try:
            if found.command is None:
                hint = f"Did you mean /{found.nearest}?" if found.nearest else "/help lists what there is."
                answer = CommandAnswer(f"There is no command {line.strip().split(' ')[0][:80]}. {hint}", True)
            else:
                answer = await found.command.run(place, found.arguments)
        except TidegateError as bad:
            answer = CommandAnswer(str(bad), True)
        except Exception as failure:  # noqa: BLE001 - a command that fails must not end the face
            answer = CommandAnswer(
                f"/{found.command.name if found.command else ''} failed: {type(failure).__name__}.", True
            )
        return answer._replace(text=_make_safe(answer.text, place))

    def help(self, name: str = "") -> str:
        if name:
            found = self.find(name)
            if found.command is None:
                raise BadInput(
                    f"There is no command {name[:80]}.", f"Did you mean /{found.nearest}?" * bool(found.nearest)
                )
            command = found.command
            also = f"\nalso: {', '.join(f'/{each}' for each in command.aliases)}" if command.aliases else ""
            return f"{_format_usage(command)}\n{command.description}{also}"
        wide = max(len(_format_usage(each)) for each in self)
        return "\n".join(f"{_format_usage(each):{wide}}  {each.description}" for each in self)

    async def _help(self, place: CommandContext, rest: str) -> CommandAnswer:
        return CommandAnswer(self.help(rest))


def _format_usage(command: Command) -> str:
    return f"/{command.name} {command.usage}".rstrip()


def _make_safe(text: str, place: CommandContext) -> str:
    """As it may be shown: cleaned, since hidden characters hide a secret, then masked, and cut last."""
    return clip_chars(place.mask(clean_text(text)), MAX_ANSWER_CHARS).text
