"""The lab's measures once more, from their definitions: no index, no cache, nothing kept from request to request.

It is slow and short, and shares no code with the product. Messages are weighed at four characters a token.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]
PATTERNS = [
    ("url", r"https?://[^\s\"'<>)\]`]{5,}"),
    ("email", r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b"),
    ("uuid", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
    ("path", r"(?:~|\.\.|\.|[A-Za-z]:)?[/\\]?(?:[\w.@+-]+[/\\])+[\w.@+-]+"),
    (
        "file",
        r"\b[\w-]+(?:\.[\w-]+)*\.(?:py|go|tsx?|jsx?|mjs|jsonl?|md|rs|java|c|h|cpp|cc|hpp|ya?ml|toml|sh|ps1|sql|html|css"
        r"|txt|lock|php|rb|kt|swift|xml|csv|mod|sum|ini|cfg|pdf|png|xlsx|docx|svg|pl|rst)\b",
    ),
    ("hash", r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"),
    ("dotted", r"\b[A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+\b"),
    ("id", r"(?<![\w-])(?=[\w-]*[A-Za-z])(?=[\w-]*\d)[A-Za-z0-9_][\w-]{4,}\b"),
    ("number", r"(?<![\w.])\d{4,}(?![\w.]\w)"),
    ("quoted", r"[\"'`]([^\"'`\n\\]{5,80})[\"'`]"),
    ("symbol", r"\b(?:[A-Za-z]+_\w{2,}|[a-z]+[A-Z]\w{3,}|[A-Z][a-z]+[A-Z]\w{2,})\b"),
]
EVERYWHERE = set("python3 utf-8 UTF-8 sha256 base64 ipv4 ipv6 http2 dev/null /dev/null origin/main".split())
KNOB = re.compile(
    r"(_ms|timeout|tokens|limit|offset|max|min|count|line|lines|depth|width|height|workdir|cwd|description)$", re.I
)
EDITS = ("old_string", "old_str", "oldText", "oldString")


def content(message: Json) -> str:
    said = message.get("content") or ""
    return said if isinstance(said, str) else "\n".join(p["text"] for p in said if p.get("type") == "text")


def functions(message: Json) -> list[Json]:
    return [call["function"] for call in message.get("tool_calls") or []]


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def plain(arguments: str) -> str:
    try:
        return "\n".join(leaves(json.loads(arguments)))
    except ValueError:
        return arguments


def page(message: Json) -> str:
    return "\n".join([content(message), *(f"{f['name']} {plain(f['arguments'])}" for f in functions(message))])


def size(message: Json) -> int:
    said = message.get("content") or ""
    texts = [said] if isinstance(said, str) else [part.get("text", "") for part in said]
    return sum(map(len, texts)) + sum(len(f["name"]) + len(f["arguments"]) for f in functions(message))


def values(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, str) and key not in ("workdir", "cwd", "description"):
        yield value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from values(inner, name)
    if isinstance(value, list):
        for inner in value:
            yield from values(inner, key)
    if isinstance(value, int | float) and not isinstance(value, bool) and not KNOB.search(key):
        yield str(value)


def names(arguments: str, head: int) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        texts = list(values(json.loads(arguments)))
    except ValueError:
        texts = [arguments]
    for text in texts:
        text = text[:head]
        for kind, pattern in PATTERNS:
            rest, at = "", 0
            for match in re.finditer(pattern, text):
                name = match.group(match.lastindex or 0).strip(".,;:")
                if counts(name, kind):
                    found.setdefault(shorten(name) if kind == "path" else name, kind)
                rest += text[at : match.start()] + (match[0] if kind == "quoted" else " \0 ")
                at = match.end()
            text = rest + text[at:]
    return found


def counts(name: str, kind: str) -> bool:
    if name in EVERYWHERE or "REDACTED" in name:
        return False
    if kind == "number":
        return len(name) >= 4 and not re.fullmatch("(19|20)[0-9][0-9]", name) and name[-2:] != "00"
    if kind == "quoted" and " " in name.strip() and len(name.split()) > 6:
        return False
    return len(name) >= 5 and (kind != "path" or len(shorten(name)) >= 5)


def shorten(path: str) -> str:
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    return "/".join(parts[-3:]) if len(parts) > 3 else path


def ends(path: str) -> list[str]:
    parts = path.replace("\\", "/").split("/")
    found = ["/".join(parts[first:]) for first in range(1, len(parts) - 1)]
    return [*found, parts[-1]] if len(parts[-1]) >= 5 and "." in parts[-1] else found


def word(char: str) -> bool:
    return char.isalnum() or char == "_"


def places(text: str, name: str, *, whole: bool) -> Iterator[int]:
    """From the end; those inside longer words as -1."""
    for at in range(len(text) - len(name), -1, -1):
        if text.startswith(name, at):
            before, behind = text[at - 1 : at] or " ", text[at + len(name) :][:1] or " "
            inside = (word(before) and word(name[0])) or (word(behind) and word(name[-1]))
            yield -1 if whole and inside else at


def last(pages: Sequence[str], name: str, *, whole: bool = True) -> int | None:
    """The offset in the joined pages; None if it is not there, or hides behind 200 longer words."""
    for hidden, at in enumerate(places("".join(f"{text}\1" for text in pages), name, whole=whole)):
        if at >= 0:
            return at
        if hidden >= 200:
            return None
    return None


def references(messages: Sequence[Json]) -> list[tuple[int, str, str, int]]:
    """(message, name as written, text looked for, tokens back)."""
    found = []
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        written: dict[str, str] = {}
        for function in functions(message):
            for name, kind in names(function["arguments"], 400).items():
                written.setdefault(name, kind)
        told = [content(each) for each in messages[:at] if each["role"] in ("user", "tool")]
        everything = [page(each) for each in messages[:at]]
        for name, kind in written.items():
            if kind == "symbol":
                continue
            tries = [name, *(ends(name) if kind == "path" else [])]
            text = next((each for each in tries if last(told, each) is not None), None)
            if text is not None:
                place = last(everything, text)
                total = sum(len(each) + 1 for each in everything)
                found.append((at, name, text, (total - (-1 if place is None else place)) // 4))
    return found


def anchors(messages: Sequence[Json]) -> list[tuple[int, str, int]]:
    found = []
    pages = [content(m) + "\n" + "\n".join(plain(f["arguments"]) for f in functions(m)) for m in messages]
    for at, message in enumerate(messages):
        for function in functions(message):
            try:
                given = json.loads(function["arguments"])
            except ValueError:
                continue
            old = [given[key] for key in EDITS if isinstance(given.get(key), str)]
            if function["name"] == "apply_patch" and "input" in given:
                old = ["\n".join(line[1:] for line in given["input"].splitlines() if line.startswith((" ", "-")))]
            for text in old:
                lines = [line.strip() for line in text.splitlines() if len(line.strip()) >= 25]
                for line in lines[:1]:
                    place = last(pages[:at], line, whole=False)
                    if place is not None:
                        found.append((at, line, (sum(len(each) + 1 for each in pages[:at]) - place) // 4))
    return found


def share(kept: int, of: int) -> float | None:
    return kept / of if of else None


def measures(
    messages: Sequence[Json], requests: Sequence[Json], window: int, common: Sequence[str] = ()
) -> dict[str, float | None]:
    """`requests` as they are written to files: {"at", "messages"} or {"at", "error"}, one for each answer."""
    history = [sum(map(size, messages[:at])) for at in range(len(messages) + 1)]
    beyond = [each for each in requests if history[each["at"]] > 4 * window]
    made = [each for each in requests if "messages" in each]
    made_beyond = [each for each in beyond if "messages" in each]
    found: dict[str, float | None] = {
        "held": share(sum(sum(map(size, each["messages"])) for each in made_beyond), 4 * len(made_beyond)),
        "largest": max((sum(map(size, each["messages"])) / 4 for each in made), default=0.0),
        "over": sum(sum(map(size, each["messages"])) > 4 * window for each in made),
        "failed": len(requests) - len(made),
    }
    return {**found, **_words(messages, beyond), **_sent(messages, made, history)}


def _words(messages: Sequence[Json], beyond: Sequence[Json]) -> dict[str, float | None]:
    kept = newest = 0.0
    by_user = [content(each) for each in messages if each["role"] == "user"]
    by_agent = [content(each) for each in messages if each["role"] in ("assistant", "tool")]
    for request in beyond:
        if "messages" not in request:
            continue
        texts = [content(each) for each in request["messages"]]
        texts = [text for text in texts if text in by_user or text not in by_agent]
        there = total = 0
        whole = True
        for message in messages[: request["at"]]:
            said = content(message)[:2000]
            if message["role"] != "user" or not said.strip():
                continue
            pieces = [said[at : at + 100] for at in range(0, len(said), 100)]
            held = [piece for piece in pieces if any(piece in text for text in texts)]
            there, total, whole = there + sum(map(len, held)), total + len(said), held == pieces
        kept += there / total if total else 1.0
        newest += whole
    return {"user": share(kept, len(beyond)), "newest": share(newest, len(beyond))}  # type: ignore[arg-type]


def _sent(messages: Sequence[Json], made: Sequence[Json], history: Sequence[int]) -> dict[str, float | None]:
    read = sent = later = rewritten = edited = 0
    before: Json | None = None
    for request in made:
        total = sum(map(size, request["messages"]))
        sent += total
        if before is not None:
            same = 0
            pairs = zip(before["messages"], request["messages"], strict=False)
            for old, new in pairs:
                if old != new:
                    break
                same += 1
            shared = sum(map(size, request["messages"][:same]))
            read += shared
            later += total
            edited += same < len(before["messages"])
            rewritten += max(0, total - shared - (history[request["at"]] - history[before["at"]]))
        before = request
    full = [history[at] for at, message in enumerate(messages) if message["role"] == "assistant"]
    unmanaged = sum(a * 0.1 + (b - a) * 1.25 for a, b in zip([0, *full], full, strict=False))
    return {
        "cached": share(read, later),
        "rewritten": rewritten / 4,
        "edits": share(100 * edited, len(made) - 1) if len(made) > 1 else None,
        "cost": (read * 0.1 + (sent - read) * 1.25) / unmanaged if unmanaged else None,
        "sent": share(sent, sum(full)),
    }
