"""The shell commands that the user types after `!`. They run without approval, one at a time.

Neither a command nor its output is added to the conversation. `/add` puts the last output into the input.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future

from tidegate.agent.tools.tool import ToolResult
from tidegate.tui.agent_thread import AgentThread
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.turn_state import RunningTask, TurnState

ADD_HINT = "/add puts this output into your next message."
NO_OUTPUT_HINT = "No output yet. Run a command first, for example !git status."


class UserShell:
    """`last_command` and `last_output` are those of the last command that ended by itself."""

    def __init__(self, agent_thread: AgentThread, turn_state: TurnState, environment: Mapping[str, str]) -> None:
        self._agent_thread = agent_thread
        self._turn_state = turn_state
        self._environment = environment
        self._running: Future[ToolResult] | None = None
        self._was_stopped = False
        self.last_command = self.last_output = ""

    def find_refusal(self, draft: MessageDraft) -> str:
        """Return why this line is not run, or "". Pasted text is never run by itself."""
        if self._running is not None:
            return "A command is still running; esc stops it."
        if any(start == 0 for start, _ in draft.pasted):
            return "Pasted text is not run. To run it, type the ! yourself."
        return ""

    async def run(self, command: str) -> str:
        """Run a command and return the text to show."""
        self._turn_state.running_command = RunningTask(f"!{command}", "", self._turn_state.clock())
        self._running, self._was_stopped = self._agent_thread.run_shell(command, self._environment), False
        try:
            output = (await asyncio.wrap_future(self._running)).text
        except OSError as bad:
            return f"It was not run: {bad.strerror or bad}."
        except asyncio.CancelledError:
            if not self._was_stopped:  # the app ends
                raise
            return "Stopped."
        finally:
            self._running = self._turn_state.running_command = None
        self.last_command, self.last_output = command, output
        return f"{output}\n{ADD_HINT}"

    def stop(self) -> bool:
        """Stop the command. Return whether one was running."""
        if self._running is None:
            return False
        self._was_stopped = True
        self._running.cancel()
        return True

    @property
    def attachment(self) -> str:
        """The last command with its output, as it is put into a message; "" if there is none."""
        return f"$ {self.last_command}\n{self.last_output}\n" if self.last_command else ""
