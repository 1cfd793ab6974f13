"""The list of all slash commands."""

from tidegate.commands.actions import Quit
from tidegate.commands.agent_commands import CHAT_COMMANDS
from tidegate.commands.project_commands import PROJECT_COMMANDS
from tidegate.commands.registry import Command, CommandAnswer, CommandContext, CommandRegistry
from tidegate.commands.sessions import SESSION_COMMANDS
from tidegate.commands.window import WINDOW_COMMANDS


def create_command_registry() -> CommandRegistry:
    """Create the registry of all commands, in the order of `/help`."""
    quit_command = Command("quit", "leave; the session is kept", run_quit, aliases=("exit", "q"))
    return CommandRegistry([*WINDOW_COMMANDS, *SESSION_COMMANDS, *CHAT_COMMANDS, *PROJECT_COMMANDS, quit_command])


async def run_quit(context: CommandContext, arguments: str) -> CommandAnswer:
    return CommandAnswer("", action=Quit())
