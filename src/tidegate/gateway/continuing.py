"""The one session of `tidegate wrap --session`, which another client may have begun (`session/continuation.py`)."""

from collections.abc import Callable

from tidegate.core.notes import ClientNote
from tidegate.datafolder.masking import MaskedLog
from tidegate.gateway.conversations import Conversation
from tidegate.gateway.settings import ContinuedSession
from tidegate.session.continuation import Continuation, ContinuedRun
from tidegate.store.log import LogReader


class SessionContinuation:
    """`mask` takes out secrets; `report` gets what the user should know."""

    def __init__(self, continued: ContinuedSession, mask: Callable[[str], str], report: Callable[[str], None]) -> None:
        self._session = continued.session
        self._mask = mask
        client = ClientNote(continued.client, continued.title)
        run = ContinuedRun(client, continued.session, continued.source, mask, continued.lines, continued.needs_tools)
        self._continuation = Continuation(run, report)

    def attach(self, conversation: Conversation, own_id: str) -> None:
        """Let the conversation begin with the work so far, if it is the one. Sub-agents have sessions of their own.

        `own_id` is how the client itself names the conversation of the request.
        """
        if conversation.name == self._session:
            self._continuation.name_conversation(own_id)
            conversation.following.continuation = self._continuation
            conversation.mask_unseen = self._mask_unseen

    def _mask_unseen(self, log: LogReader) -> LogReader:
        return MaskedLog(log, self._mask, lambda seq: self._continuation.is_own(log, seq))
