"""A recorded session in the one form that the lab uses."""

import msgspec

JsonRecord = dict[str, object]


class RecordingOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a recording comes from. Sessions of one `project` are alike, so intervals are drawn over projects."""

    format: str
    agent: str = ""
    model: str = ""
    session: str = ""
    project: str = ""
    path: str = ""


class RecordedCompaction(msgspec.Struct, frozen=True):
    """The agent compacted its context before message `message_index`. The summary is not among the messages."""

    message_index: int
    summary: str = ""


class Recording(msgspec.Struct):
    """Messages in OpenAI chat form: every call answered once, directly after it, in call order, with unique ids.

    `times` has a Unix time for each message (0.0 where none was recorded), or is empty if there is none at all.
    `repairs` says in words what was changed or left out. `typed` says for each message whether a person typed it, None
    where the format does not tell; it is empty if that is so for all. An assistant message may have the extra key
    `reasoning_content`. A content is a list of parts only where there are images.
    """

    name: str
    messages: list[JsonRecord]
    origin: RecordingOrigin
    repairs: list[str] = []
    times: list[float] = []
    typed: list[bool | None] = []
    tools: list[JsonRecord] = []
    compactions: list[RecordedCompaction] = []
