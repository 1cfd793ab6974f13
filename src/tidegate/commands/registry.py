"""The registry of slash commands: it finds, completes and runs them, and `/help` is generated from it.

    registry = create_command_registry()
    answer = await registry.answer("/recall port 8443", make_command_context(agent, data, options))
    show(answer.text)
    if answer.action is not None: ...          # left to the app, see `actions`

The answer to any input is a text: bounded, without secrets and without terminal control characters.
"""

import difflib
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tidegate.agent.config.launch import LaunchOptions
from tidegate.agent.runtime import OpenAgent
from tidegate.commands.actions import CommandAction
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
    """The text to show, and the action that is left to the app, if any."""

    text: str
    error: bool = False
    action: CommandAction | None = None


class CommandContext(NamedTuple):
    """What a command works with.

    `prompt_parts` are the tokens of the parts of the system prompt by name, `rules` those of the configuration,
    `model_overrides` what the configuration says about models. While `is_busy`, no command may change the session.
    `agent` and `launch_options` are None where a session is shown without an agent.
    """

    session: Session
    session_name: str = ""
    data: DataFolder | None = None
    summarizer: AsyncSummarizer | None = None
    prompt_parts: Mapping[str, int] = MappingProxyType({})
    model_overrides: Mapping[str, ModelInfo] = MappingProxyType({})
    is_busy: bool = False
    agent: OpenAgent | None = None
    launch_options: LaunchOptions | None = None
    rules: tuple[str, ...] = ()

    def require_data(self) -> DataFolder:
        if self.data is None:
            raise BadInput("This session is not stored.", "Start one with a data folder.")
        return self.data

    def require_agent(self) -> OpenAgent:
        if self.agent is None:
            raise BadInput("There is no agent here.", "Start with `tidegate chat`.")
        return self.agent

    def require_launch_options(self) -> LaunchOptions:
        if self.launch_options is None:
            raise BadInput("No configuration is known here.", "Start with `tidegate chat`.")
        return self.launch_options

    def require_idle(self) -> None:
        """Raise BadInput while a turn is running: the session must not change during it."""
        if self.is_busy:
            raise BadInput("The agent is at work.", "Wait until the turn is over, or interrupt it.")

    @property
    def mask(self) -> SecretMask:
        return self.data.mask if self.data is not None else SecretMask(keys_of(os.environ))


def make_command_context(
    agent: OpenAgent, data: DataFolder | None, options: LaunchOptions | None = None, *, busy: bool | None = None
) -> CommandContext:
    """Return the context of a command in a chat with this agent. Make a new one for each command."""
    return CommandContext(
        agent.session,
        agent.session_name,
        data,
        summarizer=agent.agent.summarizer,
        prompt_parts={each.name: each.tokens for each in agent.prompt.measure_parts(agent.session.counter)},
        model_overrides=agent.connection.model_overrides,
        is_busy=agent.is_busy if busy is None else busy,
        agent=agent,
        launch_options=options,
        rules=agent.config.settings.rules,
    )


RunCommand = Callable[[CommandContext, str], Awaitable[CommandAnswer]]
CompletionSource = Callable[[CommandContext | None], Iterable[str]]


class Command(NamedTuple):
    """`usage` shows the arguments, `details` explain options; `completions` lists what may be typed for arguments."""

    name: str
    description: str
    run: RunCommand
    usage: str = ""
    aliases: tuple[str, ...] = ()
    completions: CompletionSource | None = None
    details: str = ""


class CommandMatch(NamedTuple):
    """The command of a line and its arguments; if there is no such command, the nearest name, or ""."""

    command: Command | None
    arguments: str = ""
    nearest: str = ""


class CommandRegistry:
    """The commands in the order of `/help`, which is one of them."""

    def __init__(self, commands: Iterable[Command]) -> None:
        own = Command("help", "the commands, or details about one of them", self._help, "[COMMAND]", ("?", "h"))
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
        """Find the command of a line. The slash is optional, and upper and lower case are the same."""
        name, _, arguments = line.strip().removeprefix("/").partition(" ")
        name, _, next_line = name.partition("\n")
        command = self._by_name.get(name.casefold())
        if command is not None:
            return CommandMatch(command, f"{next_line} {arguments}".strip())
        names = difflib.get_close_matches(name.casefold()[:80], self._by_name, n=1, cutoff=0.5)
        return CommandMatch(None, arguments, self._by_name[names[0]].name if names else "")

    def complete(self, prefix: str, context: CommandContext | None = None) -> list[str]:
        """Return the lines that start with `prefix`. An alias is completed only if no name fits."""
        name, space, arguments = prefix.lstrip().removeprefix("/").partition(" ")
        if not space:
            beginning = name.casefold()
            names = [each.name for each in self if each.name.startswith(beginning)]
            return [f"/{each}" for each in names or sorted(key for key in self._by_name if key.startswith(beginning))]
        command = self._by_name.get(name.casefold())
        if command is None or command.completions is None:
            return []
        return [f"/{command.name} {word}" for word in command.completions(context) if word.startswith(arguments)]

    async def answer(self, line: str, context: CommandContext) -> CommandAnswer:
        """Run a line. Nothing is raised except a cancellation."""
        match = self.find(line)
        try:
            if match.command is None:
                hint = f"Did you mean /{match.nearest}?" if match.nearest else "/help lists the commands."
                answer = CommandAnswer(f"There is no command {line.strip().split(' ')[0][:80]}. {hint}", True)
            else:
                answer = await match.command.run(context, match.arguments)
        except TidegateError as error:
            answer = CommandAnswer(str(error), True)
        except Exception as failure:  # noqa: BLE001 - a command that fails must not end the app
            name = match.command.name if match.command else ""
            answer = CommandAnswer(
                f"/{name} failed: {type(failure).__name__}. Try it again; /help {name} shows how it is used.", True
            )
        return answer._replace(text=_make_safe(answer.text, context))

    def help(self, name: str = "") -> str:
        if name:
            match = self.find(name)
            if match.command is None:
                remedy = f"Did you mean /{match.nearest}?" if match.nearest else "/help lists the commands."
                raise BadInput(f"There is no command {name[:80]}.", remedy)
            command = match.command
            also = f"\nalso: {', '.join(f'/{each}' for each in command.aliases)}" if command.aliases else ""
            details = f"\n{command.details}" if command.details else ""
            return f"{_format_usage(command)}\n{command.description}{details}{also}"
        wide = max(len(_format_usage(each)) for each in self)
        return "\n".join(f"{_format_usage(each):{wide}}  {each.description}" for each in self)

    async def _help(self, context: CommandContext, arguments: str) -> CommandAnswer:
        return CommandAnswer(self.help(arguments))


def _format_usage(command: Command) -> str:
    return f"/{command.name} {command.usage}".rstrip()


def _make_safe(text: str, context: CommandContext) -> str:
    """Clean the text first, since hidden characters can hide a secret from the mask, then mask it, and clip it last."""
    return clip_chars(context.mask(clean_text(text)), MAX_ANSWER_CHARS).text
