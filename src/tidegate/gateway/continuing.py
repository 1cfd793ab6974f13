"""The one session of `tidegate wrap --session`, which another client may have begun (`session/continuation.py`)."""

from collections.abc import Callable

from tidegate.gateway.conversations import Conversation
from tidegate.gateway.settings import ContinuedSession
from tidegate.session.continuation import Continuation, ContinuedRun
from tidegate.session.shared_timeline import ClientNote


class SessionContinuation:
    """`mask` takes out secrets; `report` gets what the user should know."""

    def __init__(
        self, continued: ContinuedSession | None, mask: Callable[[str], str], report: Callable[[str], None]
    ) -> None:
        self._session = continued.session if continued is not None else ""
        self._continuation: Continuation | None = None
        if continued is not None:
            client = ClientNote(continued.client, continued.title)
            run = ContinuedRun(
                client, continued.session, continued.source, mask, continued.lines, continued.needs_tools
            )
            self._continuation = Continuation(run, report)

    def attach(self, conversation: Conversation) -> None:
        """Let the conversation begin with the work so far, if it is the one. Sub-agents have sessions of their own."""
        if self._continuation is not None and conversation.name == self._session:
            conversation.following.continuation = self._continuation
            conversation.is_continued = True
