"""Build a `Recording` from what an importer finds, in the order of the file.

What does not fit together is repaired at the end, in one place for all formats. An importer counts what it leaves out.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidegate.core.text.plural import format_count
from tidegate.core.text.rule_text import UNMARKED_CHARS
from tidegate.core.text.terminal_text import clean_line
from tidegate.lab.importers.call_repair import repair_messages
from tidegate.lab.importers.json_fields import encode_recorded_json
from tidegate.lab.importers.recording import JsonRecord, RecordedCompaction, Recording, RecordingOrigin
from tidegate.lab.importers.source_file import RecordingLocation, SourceFile
from tidegate.wire.parsing import repair_unicode

ChatContent = str | list[JsonRecord]


class RecordedCall(NamedTuple):
    """A tool call. `arguments` is the text the model wrote, or the JSON value it was parsed into."""

    id: str
    name: str
    arguments: object


class ConversationBuilder:
    def __init__(self) -> None:
        self.messages: list[JsonRecord] = []
        self.times: list[float] = []
        self.typed: list[bool | None] = []
        self.tools: list[JsonRecord] = []
        self.omitted_counts: Counter[str] = Counter()
        self._compactions: list[RecordedCompaction] = []
        self._call_ids: set[str] = set()
        self._early_result_ids: list[str] = []

    def add_message(self, role: str, content: ChatContent, time: float = 0.0, *, typed: bool | None = None) -> None:
        """Add a system or user message; an empty one is not added. For `typed` see `mark_typed`."""
        if content:
            self._append({"role": role, "content": _repair_content(content)}, time)
            self.mark_typed(-1, typed)

    def mark_typed(self, place: int, typed: bool | None) -> None:
        """Set whether a person typed the message at this index. A long text is not marked: parts of it may be
        pasted.
        """
        texts = (part.get("text") for part in list_content_parts(self.messages[place]["content"]))
        size = sum(len(text) for text in texts if isinstance(text, str))
        self.typed[place] = None if typed and size > UNMARKED_CHARS else typed

    def add_answer(
        self, text: ChatContent = "", calls: Sequence[RecordedCall] = (), thinking: str = "", time: float = 0.0
    ) -> JsonRecord:
        """Add an answer of the model. `extend_answer` can add more to the returned message."""
        message = self._append({"role": "assistant", "content": None}, time)
        self.extend_answer(message, text, calls, thinking)
        return message

    def extend_answer(
        self, message: JsonRecord, text: ChatContent = "", calls: Sequence[RecordedCall] = (), thinking: str = ""
    ) -> None:
        """Add another block to the same answer."""
        if text:
            message["content"] = _join_contents(message["content"], _repair_content(text))
        if thinking.strip():
            message["reasoning_content"] = _join_contents(
                message.get("reasoning_content"), repair_unicode(thinking.strip())
            )
        new_calls = [
            {
                "id": repair_unicode(call.id),
                "type": "function",
                "function": {
                    "name": repair_unicode(call.name) or "unknown",
                    "arguments": _encode_arguments(call.arguments),
                },
            }
            for call in calls
        ]
        if new_calls:
            all_calls = message.setdefault("tool_calls", [])
            assert isinstance(all_calls, list)
            all_calls.extend(new_calls)
            self._call_ids.update(repair_unicode(call.id) for call in calls)

    def add_result(self, call: str, content: ChatContent, time: float = 0.0) -> None:
        """Add a result. Without the id of its call it belongs to the next unanswered call."""
        self._append({"role": "tool", "tool_call_id": repair_unicode(call), "content": _repair_content(content)}, time)
        if call and repair_unicode(call) not in self._call_ids:
            self._early_result_ids.append(repair_unicode(call))

    def add_compaction(self, summary: str = "") -> None:
        """Record that the agent compacted its context here. The messages before stay; the summary is stored apart."""
        self._compactions.append(RecordedCompaction(len(self.messages), repair_unicode(summary)))

    def count_omitted(self, what: str, count: int = 1) -> None:
        """Count something of the file that has no place among the messages."""
        self.omitted_counts[what] += count

    def _append(self, message: JsonRecord, time: float) -> JsonRecord:
        self.messages.append(message)
        self.times.append(time)
        self.typed.append(None)
        return message

    def build_recording(
        self, source: SourceFile | RecordingLocation, name: str, meta: RecordingOrigin
    ) -> Recording | None:
        """Repair the messages and return the recording, or None if there is no message."""
        result = repair_messages(self.messages)
        if not result.messages:
            return None
        left = [f"left out: {what} ({count})" for what, count in self.omitted_counts.items()]
        early = sum(ident in self._call_ids for ident in self._early_result_ids)
        early_repairs = [f"{format_count(early, 'result')} before its call: moved after it"] if early else []
        times = [self.times[at] for at in result.original_indices]
        marks = [self.typed[at] if self.messages[at]["role"] == "user" else None for at in result.original_indices]
        places = sorted(result.original_indices)
        return Recording(
            name=clean_line(name) or clean_line(source.stem) or "recording",
            messages=result.messages,
            origin=meta,
            repairs=([source.damage] if source.damage else []) + early_repairs + result.repairs + left,
            times=times if any(times) else [],
            typed=marks if any(mark is not None for mark in marks) else [],
            tools=self.tools,
            compactions=[
                RecordedCompaction(bisect_left(places, cut.message_index), cut.summary) for cut in self._compactions
            ],
        )


def _repair_content(content: ChatContent) -> ChatContent:
    if isinstance(content, str):
        return repair_unicode(content)
    return [
        {key: repair_unicode(value) if isinstance(value, str) else value for key, value in part.items()}
        for part in content
    ]


def _join_contents(before: object, more: ChatContent) -> ChatContent:
    """Join texts by a line end; with images on either side, join as parts."""
    if not before:
        return more
    if isinstance(before, str) and isinstance(more, str):
        return f"{before}\n{more}"
    return list_content_parts(before) + list_content_parts(more)


def list_content_parts(content: object) -> list[JsonRecord]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, list) else []


def make_content(texts: Iterable[str], images: Iterable[str]) -> ChatContent:
    """Return a text, or parts if there are images. Each image is given by its URL."""
    text = "\n".join(texts)
    records: list[JsonRecord] = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    return list_content_parts(text) + records if records else text


def make_data_url(media: str, data: str) -> str:
    return f"data:{media or 'image/png'};base64,{data}"


def _encode_arguments(value: object) -> str:
    """Return the arguments as the model wrote them, even if they are broken JSON."""
    if isinstance(value, str):
        return repair_unicode(value)
    return "{}" if value is None else encode_recorded_json(value)
