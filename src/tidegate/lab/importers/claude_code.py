"""Claude Code: one line per content block, under `~/.claude/projects`.

The blocks of one answer share `message.id`, and results can stand between them. Subagents (`isSidechain`) are sessions
of their own. When Claude Code compacts, the file goes on: its summary is kept aside, the messages before stay.
A prompt that was taken back and said anew stays in the file with all that followed; only the newest is the session.
"""

from collections.abc import Iterator

from tidegate.lab.importers.fields import a_dict, a_list, a_str, dicts, kinds_of, text_at, time_of
from tidegate.lab.importers.recording import Json, Meta, Recording
from tidegate.lab.importers.source import Source
from tidegate.lab.importers.talk import Call, Content, Talk, data_url, with_images

FORMAT = "claude-code"
_SPEAKERS = ("user", "assistant")
_ASIDE = tuple("summary file-history-snapshot permission-mode queue-operation last-prompt ai-title mode".split())


def recognises(head: Source) -> bool:
    for value in head.dicts():
        kind = value.get("type")
        if kind in _SPEAKERS and isinstance(value.get("message"), dict) and ("uuid" in value or "sessionId" in value):
            return True
        if kind == "system" and "sessionId" in value and "uuid" in value:
            return True
        if kind in _ASIDE and ({"sessionId", "leafUuid", "snapshot"} & value.keys()):
            return True
    return False


def read(source: Source) -> Iterator[Recording]:
    lines = [value for _, value in source.values() if isinstance(value, dict)]
    spoken = [line for line in lines if line.get("type") in _SPEAKERS]
    subagent = bool(spoken) and all(line.get("isSidechain") is True for line in spoken)
    session = _Session(subagent, _abandoned(lines))
    for line in lines:
        session.line(line)
    first = next((line for line in lines if "sessionId" in line), {})
    name = source.stem if subagent else a_str(first.get("sessionId")) or source.stem
    meta = Meta(FORMAT, "Claude Code", session.model, name, session.folder, str(source.path))
    found = session.talk.recording(source, name, meta)
    if found:
        yield found


class _Session:
    def __init__(self, subagent: bool, abandoned: set[str]) -> None:
        self.talk = Talk()
        self.model = self.folder = ""
        self._subagent = subagent
        self._abandoned = abandoned
        self._answers: dict[str, Json] = {}

    def line(self, line: Json) -> None:
        kind = line.get("type")
        if kind == "system" and line.get("subtype") == "compact_boundary":
            self.talk.compacted()
        elif kind == "attachment":
            self.talk.leave("attachment lines")
        if kind not in _SPEAKERS:
            return
        message = a_dict(line.get("message"))
        self.folder = self.folder or a_str(line.get("cwd"))
        if line.get("isSidechain") is True and not self._subagent:
            self.talk.leave("lines of subagents")
        elif a_str(line.get("uuid")) in self._abandoned:
            self.talk.leave("lines of an abandoned branch")
        elif line.get("isCompactSummary") is True:
            self._summary(message)
        elif kind == "user":
            self._user(message, time_of(line.get("timestamp")), typed=_is_typed(line))
        elif message.get("model") == "<synthetic>" or line.get("isApiErrorMessage") is True:
            self.talk.leave("messages of the program itself")
        else:
            self._assistant(message, time_of(line.get("timestamp")))

    def _summary(self, message: Json) -> None:
        self.talk.compacted("\n".join(_texts(message.get("content"))))

    def _user(self, message: Json, time: float, *, typed: bool) -> None:
        content = message.get("content")
        for block in dicts(content):
            if block.get("type") == "tool_result":
                self.talk.result(a_str(block.get("tool_use_id")), _shown(block.get("content")), time)
        self.talk.say("user", _shown(content), time, typed=typed)

    def _assistant(self, message: Json, time: float) -> None:
        self.model = self.model or a_str(message.get("model"))
        key = text_at(message, "id")
        answer = self._answers.get(key) if key else None
        if answer is None:
            answer = self.talk.answer(time=time)
            self._answers[key] = answer
        content = message.get("content")
        if isinstance(content, str):
            self.talk.more(answer, content)
        for block in dicts(content):
            kind = block.get("type")
            if kind == "text":
                self.talk.more(answer, a_str(block.get("text")))
            elif kind == "thinking":
                self.talk.more(answer, thinking=a_str(block.get("thinking")))
            elif kind == "tool_use":
                call = Call(a_str(block.get("id")), a_str(block.get("name")), block.get("input"))
                self.talk.more(answer, calls=[call])
            elif kind != "redacted_thinking":
                self.talk.leave("calls the provider served itself")


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    texts = []
    for block in dicts(content):
        if block.get("type") == "text":
            texts.append(a_str(block.get("text")))
        elif block.get("type") == "tool_reference":
            texts.append(f"[tool: {a_str(block.get('tool_name'))}]")
    return texts


def _shown(content: object) -> Content:
    """Texts and images of a content; its tool results are not among them."""
    images = []
    for block in dicts(content):
        if block.get("type") == "image":
            data = a_dict(block.get("source"))
            url = a_str(data.get("url")) or data_url(a_str(data.get("media_type")), a_str(data.get("data")))
            images.append(url)
    return with_images(_texts(content), images)


def _abandoned(lines: list[Json]) -> set[str]:
    """What hangs on prompts that were said anew: of prompts behind the same line only the last counts."""
    children: dict[str, list[str]] = {}
    prompts: dict[str, list[str]] = {}
    for line in lines:
        parent, ident = a_str(line.get("parentUuid")), a_str(line.get("uuid"))
        if parent and ident:
            children.setdefault(parent, []).append(ident)
            if _is_prompt(line):
                prompts.setdefault(parent, []).append(ident)
    gone: set[str] = set()
    queue = [ident for said in prompts.values() for ident in said[:-1]]
    while queue:
        ident = queue.pop()
        if ident not in gone:
            gone.add(ident)
            queue.extend(children.get(ident, []))
    return gone


def _is_prompt(line: Json) -> bool:
    if line.get("type") != "user" or line.get("isMeta") is True or line.get("isSidechain") is True:
        return False
    content = a_dict(line.get("message")).get("content")
    kinds = kinds_of(content)
    return isinstance(content, str) or (bool(a_list(content)) and "tool_result" not in kinds)


def _is_typed(line: Json) -> bool:
    """A prompt that is not a command of the program, or what one printed: these stand between tags."""
    texts = "\n".join(_texts(a_dict(line.get("message")).get("content")))
    return _is_prompt(line) and not texts.lstrip().startswith("<")
