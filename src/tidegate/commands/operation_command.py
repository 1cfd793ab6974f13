"""The slash command of an `Operation`: it works on the session of the chat."""

import asyncio
from argparse import Namespace
from collections.abc import Callable

from tidegate.commands.actions import CommandAction
from tidegate.commands.operations.operation import REPEATED, Argument, Operation, SessionPlace
from tidegate.commands.registry import Command, CommandAnswer, CommandContext
from tidegate.core.errors import BadInput
from tidegate.datafolder.masking import MaskedLog


def make_command(
    operation: Operation,
    description: str = "",
    *,
    usage: str = "",
    then: str = "",
    make_action: Callable[[CommandContext, object], CommandAction | None] | None = None,
) -> Command:
    """Make the slash command. `make_action` makes what is left to the app of the result's value; `then` says so."""

    async def run(context: CommandContext, arguments: str) -> CommandAnswer:
        values = parse_arguments(operation, arguments)
        if operation.changes_session:
            context.require_idle()
            result = operation.run(_make_place(context), values)
        else:
            result = await asyncio.to_thread(operation.run, _make_place(context), values)
        action = make_action(context, result.value) if make_action is not None and result.is_done else None
        text = "\n".join(filter(None, (result.text, result.remark)))
        return CommandAnswer(f"{text} {then}" if then else text, not result.is_done, action)

    usage = usage or " ".join(filter(None, map(_describe_argument, operation.arguments)))
    options = (f"{each.name} {each.metavar}".rstrip() + f": {each.help}" for each in _list_options(operation))
    return Command(operation.name, description or operation.summary, run, usage, details="\n".join(options))


def _make_place(context: CommandContext) -> SessionPlace:
    session = context.session
    return SessionPlace(
        context.session_name,
        data=context.require_data,
        logs=context.require_data,
        session=lambda: session,
        log=lambda: MaskedLog(session.log, context.mask),
        recall_index=lambda: session.history.recall_index,
        search=lambda: context.require_data().open_search(),
        launch_options=context.require_launch_options,
        measure=lambda: session.tokens,
        size_name="Request",
        require_idle=context.require_idle,
        is_chat=True,
        policy=session.policy.name,
    )


def parse_arguments(operation: Operation, text: str) -> Namespace:
    """Read the arguments of a line: options anywhere, words such as `at 120` at its end, and the rest as it is."""
    values = Namespace(**{each.field: each.default for each in operation.arguments})
    options = {each.name: each for each in _list_options(operation)}
    rest: list[str] = []
    words = text.split()
    while words:
        word = words.pop(0)
        option = options.get(word) or _find_word(operation, word, words)
        if option is None:
            rest.append(word)
        elif option.parse is None:
            setattr(values, option.field, True)
        elif words:
            setattr(values, option.field, _parse_value(option, words.pop(0)))
        else:
            raise BadInput(f"{word} has no value.", f"Write {word} {option.metavar}.")
    for each in operation.arguments:
        if not each.is_option:
            if each.repeat == "+" and not rest:
                raise BadInput(f"/{operation.name} needs {each.help}.", f"Write /{operation.name} {each.metavar}.")
            if each.repeat in REPEATED:
                setattr(values, each.field, rest)
            elif rest:
                setattr(values, each.field, _parse_value(each, " ".join(rest)))
            rest = []
    if rest:
        raise BadInput(
            f"/{operation.name} does not take {' '.join(rest)[:80]!r}.", f"/help {operation.name} has its use."
        )
    return values


def _list_options(operation: Operation) -> list[Argument]:
    """The options of a line in the chat, which has no JSON."""
    return [each for each in operation.arguments if each.is_option and each.field != "json"]


def _find_word(operation: Operation, word: str, later: list[str]) -> Argument | None:
    """The option that is written as a word, if it and its value end the line."""
    option = next((each for each in operation.arguments if each.word and each.word == word), None)
    if option is None or len(later) != 1:
        return None
    try:
        _parse_value(option, later[0])
    except BadInput:
        return None
    return option


def _parse_value(option: Argument, word: str) -> object:
    try:
        return option.parse(word) if option.parse is not None else word
    except ValueError:
        raise BadInput(f"{option.name} is {word[:80]!r}.", f"Give it {option.metavar}, a whole number.") from None


def _describe_argument(argument: Argument) -> str:
    """An argument in the usage. Options without a word are in the help of the command line."""
    if argument.is_option:
        return f"[{argument.word} {argument.metavar}]" if argument.word else ""
    return argument.metavar if argument.repeat == "+" else f"[{argument.metavar}]"
