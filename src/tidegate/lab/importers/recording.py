"""A recorded session as the lab takes it, whoever wrote it down."""

import msgspec

JsonRecord = dict[str, object]


class RecordingOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a recording comes from. Sessions of one `project` resemble each other: intervals are taken over these."""

    format: str
    agent: str = ""
    model: str = ""
    session: str = ""
    project: str = ""
    path: str = ""


class RecordedCompaction(msgspec.Struct, frozen=True):
    """The agent itself cut its context before message `at`. Its summary stands here, not among the messages."""

    message_index: int
    summary: str = ""


class Recording(msgspec.Struct):
    """Messages in OpenAI chat form: every call answered once, straight behind it, in call order, ids unique.

    `times` has a Unix time for each message (0.0 where one was not recorded), or is empty if none was. `mended` says
    in words what had to be changed or left out to make it so. `typed` has for each message whether a person typed it,
    None where the format does not tell; it is empty if that is so of all. An assistant message may have the extra key
    `reasoning_content`, its plain thinking; a content is a list of parts only where there are images.
    """

    name: str
    messages: list[JsonRecord]
    origin: RecordingOrigin
    repairs: list[str] = []
    times: list[float] = []
    typed: list[bool | None] = []
    tools: list[JsonRecord] = []
    compactions: list[RecordedCompaction] = []
