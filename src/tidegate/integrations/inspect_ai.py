"""inspect_ai: a compaction strategy for `react` and other agents.

    react(tools=[...], compaction=TidegateCompaction(threshold=100_000))

inspect_ai calls a strategy only when the input exceeds the threshold, a number of tokens or a share of the context
window. Until then the messages are sent as they are and tidegate does not see them. At that moment all of them are
logged, and the view takes their place. inspect_ai adds the messages that follow to this view until the threshold is
reached again. So the log ends with the last compaction, and the usage of calls is not recorded. The messages of the
task state stay complete. If a provider refuses a request as too long, inspect_ai calls the strategy once, and sends the
smaller view.

A session is named after the sample (its uuid in the log of inspect_ai), or by `session` if there is only one. Further
agents of a sample have sessions of their own. `recall_tool()` is a tool for the agent.
"""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Unpack

from tidegate.core.errors import GiveUp
from tidegate.core.messages import Call, Part, Result, Role, Tool
from tidegate.integrations.block_format import BlockFormat, build_result
from tidegate.integrations.content_blocks import list_content, read_text, read_thinking
from tidegate.integrations.model_calls import CallPreparer
from tidegate.integrations.session_names import make_random_id
from tidegate.integrations.threads import (
    RECALL_DESCRIPTION,
    ConversationPlace,
    DataLocation,
    SessionAccess,
    SessionSettings,
    describe_missing_framework,
)
from tidegate.models.errors.classification import ERROR_CAUSES, ProviderError
from tidegate.session.following import FixedPart
from tidegate.wire.parsing import decode_object, encode_json_text, image_from_url
from tidegate.wire.splicing.units import make_opaque

try:
    from inspect_ai import model as models
    from inspect_ai.solver._task_state import sample_state  # there is no public name for it
    from inspect_ai.tool import ToolCall, ToolDef, ToolInfo
except ImportError as missing:
    raise describe_missing_framework("inspect-ai", missing) from missing

_TOO_LONG = ProviderError("overflow", ERROR_CAUSES["overflow"])
_OWN = "tidegate"
"""The key in the metadata of messages that the view inserted."""


class InspectFormat(BlockFormat[models.ChatMessage]):
    """How messages of inspect_ai are read and copied. Copies keep the ids of their messages. A result is a message."""

    def list_blocks(self, host: models.ChatMessage) -> tuple[Role, Sequence[Any]]:
        if isinstance(host, models.ChatMessageTool):
            return "tool", [host]
        blocks = [block for block in list_content(host.content) if block]
        if isinstance(host, models.ChatMessageAssistant):
            return "assistant", [*blocks, *(host.tool_calls or ())]
        return "user", blocks

    def copy_with(self, host: models.ChatMessage, blocks: list[Any]) -> models.ChatMessage:
        content = [block for block in blocks if not isinstance(block, ToolCall)]
        is_plain = all(isinstance(each, str | models.ContentText) for each in content)
        texts = [each if isinstance(each, str) else each.text for each in content] if is_plain else []
        update: dict[str, Any] = {"content": "\n\n".join(texts) if is_plain else content}
        if isinstance(host, models.ChatMessageAssistant):
            update["tool_calls"] = [block for block in blocks if isinstance(block, ToolCall)] or None
        return host.model_copy(update=update)

    def create(self, role: Role, blocks: list[Any]) -> models.ChatMessage:
        if isinstance(blocks[0], models.ChatMessageTool):
            return blocks[0]
        form = models.ChatMessageAssistant if role == "assistant" else models.ChatMessageUser
        return form(content=blocks[0].text, metadata={_OWN: True})

    def read_block(self, block: Any) -> Part:
        if isinstance(block, models.ChatMessageTool):
            parts = list(map(self.read_block, list_content(block.content)))
            if block.error is not None:
                parts.append(read_text(block.error.message))
            return build_result(block.tool_call_id or "", parts, block.error is not None)
        if isinstance(block, ToolCall):
            return Call(block.id, block.function, encode_json_text(block.arguments))
        if isinstance(block, str | models.ContentText):
            return read_text(block if isinstance(block, str) else block.text)
        if isinstance(block, models.ContentReasoning):
            is_signed = block.signature or block.redacted
            return read_thinking(block.reasoning, block.model_dump_json() if is_signed else "")
        if isinstance(block, models.ContentImage):
            return image_from_url(block.image)
        return make_opaque(block.model_dump(mode="json"))

    def write_text(self, text: str, old: Any) -> models.ContentText:
        return models.ContentText(text=text)

    def write_call(self, call: Call, old: Any) -> ToolCall:
        return replace(old, arguments=decode_object(call.arguments))

    def list_result_blocks(self, old: models.ChatMessageTool) -> Sequence[Any]:
        return list_content(old.content)

    def write_result(self, result: Result, text: str, media: list[Any], old: Any) -> models.ChatMessageTool:
        if old is None:
            return models.ChatMessageTool(content=text, tool_call_id=result.call_id, metadata={_OWN: True})
        content = [models.ContentText(text=text), *media] if media else text
        copied: models.ChatMessageTool = old.model_copy(update={"content": content, "error": None})
        return copied


class TidegateCompaction(models.CompactionStrategy, SessionAccess):
    """Keeps the messages of a sample in a log and replaces them by a view when the threshold is reached.

    `threshold` and `memory` are those of inspect_ai. The other settings are those of `ThreadSessions`; the window is
    the threshold, unless it is given.
    """

    def __init__(
        self,
        data: DataLocation = None,
        *,
        threshold: int | float = 0.9,
        memory: bool = True,
        **settings: Unpack[SessionSettings],
    ) -> None:
        super().__init__(type="edit", threshold=threshold, memory=memory)
        if threshold > 1 and not settings.get("window"):
            settings["window"] = int(threshold)
        self._preparer = CallPreparer(InspectFormat(), data, **settings)
        self.threads = self._preparer.threads
        self._originals: dict[tuple[str, str], dict[str, models.ChatMessage]] = {}
        self._thread: ContextVar[str] = ContextVar("tidegate_thread", default="")
        self._place: ContextVar[ConversationPlace | None] = ContextVar("tidegate_place", default=None)

    @property
    def preserve_prefix(self) -> bool:
        """inspect_ai must not add the sample's input again: the view has it, perhaps joined with another message."""
        return False

    def recall_tool(self) -> ToolDef:
        """The tool with which the model reads what left the view."""

        async def recall(what: str, offset: int = 0) -> str:
            return await self.threads.recall_at_async(self._place.get(), what, offset)

        described = {"what": "m12, m12..m40, or words", "offset": "where to go on"}
        return ToolDef(recall, name="recall", description=RECALL_DESCRIPTION, parameters=described)

    async def compact(
        self, model: models.Model, messages: list[models.ChatMessage], tools: list[ToolInfo]
    ) -> tuple[list[models.ChatMessage], models.ChatMessageUser | None]:
        fixed = [message for message in messages if isinstance(message, models.ChatMessageSystem)]
        conversation = [message for message in messages if not isinstance(message, models.ChatMessageSystem)]
        # Message ids are not enough: samples and epochs may have those of the dataset.
        sample = sample_state()
        thread = sample.uuid if sample else self._thread.get() or make_random_id()
        self._thread.set(thread)
        run = thread, (conversation[0].id or "") if conversation else ""
        originals = self._originals.setdefault(run, {})
        before = len(originals)
        for message in conversation:
            if not (message.metadata or {}).get(_OWN):
                originals.setdefault(message.id or str(len(originals)), message)
        declared = [Tool(tool.name, tool.description, tool.parameters.model_dump_json()) for tool in tools]
        fixed_part = FixedPart("\n\n".join(message.text for message in fixed), tuple(declared))

        name = self.threads.name("inspect-ai", thread, is_shared=True)
        call = await self._preparer.prepare_async(
            name,
            list(originals.values()),
            model=model.name,
            fixed_part=fixed_part,
            run=run,
            max_output=model.config.max_tokens or 0,
        )
        if call.request.is_unchanged or len(originals) == before:
            # The framework counts more tokens than we do, or the provider refused the view.
            shorter = await asyncio.to_thread(call.change, _TOO_LONG)
            if shorter is None:
                raise GiveUp(_TOO_LONG.args[0], "Set the model's true window, or a lower threshold.")
            call = shorter
        self._place.set(call.place)
        return [*fixed, *call.messages], None
