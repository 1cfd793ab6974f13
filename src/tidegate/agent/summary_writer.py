"""The model that writes state notes and summaries for an agent: its own, or the one that `summary_model` names."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidegate.agent.config.settings import AgentModel, ExecutionSettings
from tidegate.agent.provider_connection import ProviderConnection
from tidegate.agent.spending import MeteredProvider, SessionSpending, SpendMeter
from tidegate.agent.subagents import SUMMARY_TIMEOUT_SECONDS
from tidegate.core.outcome import SummaryRequest
from tidegate.core.text.secrets import SecretMask
from tidegate.session.note_writer import (
    NOTE_PURPOSE,
    NOTE_TIMEOUT_SECONDS,
    NoteRefused,
    NoteWriter,
    WriteSummary,
    ask_provider,
)
from tidegate.session.session import Session
from tidegate.session.state_notes import NoteModel
from tidegate.session.summaries.drivers import AsyncSummarizer
from tidegate.session.summarizer import create_summarizer
from tidegate.wire.registry import get_dialect


class SummaryWriter(NamedTuple):
    """The connection of the model that writes, and how it is asked. `talker` is the connection of the conversation.

    `mask` hides secrets from a model at another provider.
    """

    connection: ProviderConnection
    model: AgentModel
    talker: ProviderConnection
    mask: Callable[[str], str] | None = None
    max_output: int = 0

    def make_summarizer(
        self,
        session: Session,
        meters: Sequence[SpendMeter],
        on_rejection: Callable[[str], None] | None = None,
        *,
        is_beside: bool = False,
    ) -> AsyncSummarizer:
        return create_summarizer(
            MeteredProvider(self.connection.provider, meters, is_beside=is_beside),
            window=self.connection.window.tokens,
            counter=self.connection.counter,
            timeout=self.model.timeout or SUMMARY_TIMEOUT_SECONDS,
            conversation=session,
            mask=self.mask,
            on_rejection=on_rejection,
            temperature=self.model.temperature,
            top_p=self.model.top_p,
            max_output=self.max_output,
        )

    def write_ahead(
        self,
        execution: ExecutionSettings,
        session: Session,
        spending: SessionSpending,
        others: Sequence[SpendMeter] = (),
    ) -> NoteWriter | None:
        """Have state notes, or the summaries of the policy, written beside the calls of this session.

        `spending` is that of the session; its costs are written to the log when the session collects the notes.
        """
        notes = session.state_notes
        is_set = execution.background or bool(session.policy.settings.get("background"))
        if not notes.is_wanted or not (execution.state_notes or (is_set and not notes.is_offered)):
            return None
        model = self._describe_other_model(session)
        connection = self.connection if model is not None else self.talker
        if connection.is_embedded and notes.is_offered:
            return None
        meters = [*others, spending]
        provider = MeteredProvider(connection.provider, meters, purpose=NOTE_PURPOSE, is_beside=True)
        notes.compacts = connection.compacts and model is None
        return NoteWriter(
            session,
            notes,
            ask_provider(provider),
            timeout=self.model.timeout or NOTE_TIMEOUT_SECONDS,
            model=model,
            write_summary=self._write_summaries(session, meters),
            costs=spending.costs,
        )

    def _describe_other_model(self, session: Session) -> NoteModel | None:
        """The other model, if its window holds the conversation. Else the conversation's own model writes the notes."""
        connection, window = self.connection, self.connection.window.tokens
        if connection is self.talker or window is None or window < (session.window or window + 1):
            return None
        provider = connection.provider
        mask = self.mask or SecretMask()
        return NoteModel(provider.model, get_dialect(provider.wire), window, mask, self.max_output)

    def _write_summaries(self, session: Session, meters: Sequence[SpendMeter]) -> WriteSummary:
        reasons: list[str] = []
        summarize = self.make_summarizer(session, meters, reasons.append, is_beside=True)

        async def write(request: SummaryRequest) -> str:
            text = await summarize(request)
            if text is None:
                raise NoteRefused(reasons.pop() if reasons else "there was no summary")
            return text

        return write
