"""Made-up secrets of many kinds, and a search for them in every byte of a folder."""

import base64
import gzip
import json
import random
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

DIE = random.Random(23)
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
HEX = "0123456789abcdef"
SHORTEST = 16
"""Fewer characters in a row of a longer secret do not give it away."""


class Planted(NamedTuple):
    """`text` is what someone says or a tool prints; no `SHORTEST` characters of a `hidden` string may be written."""

    text: str
    hidden: tuple[str, ...]


def noise(length: int, letters: str = ALNUM) -> str:
    """Characters as random as those of a key. Made here, so that no file of the repository holds a key."""
    while True:
        made = "".join(DIE.choices(letters, k=length))
        if any(map(str.isdigit, made)) and any(map(str.isupper, made + "A")) and any(map(str.isalpha, made)):
            return made


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def jwt() -> str:
    head = {"alg": "HS256", "typ": "JWT"}
    body = {"sub": "1234567890", "name": noise(12), "iat": 1516239022}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, body)]
    return f"{parts[0]}.{parts[1]}.{noise(43)}"


CONFIGURED = f'hush {noise(10)}/{noise(10)}+"{noise(10)}'
"""A key of the session: it has no known shape, and characters that JSON and URLs write in another way."""
PLAIN_CONFIGURED = f"quiet-{noise(30)}"


def wrapped(value: str, width: int = 24) -> str:
    return "\n".join(value[at : at + width] for at in range(0, len(value), width))


def _kinds() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """A name, the text with the secret in it, and what of that text is secret."""
    tokens = {
        "openai": ("sk-", noise(48)),
        "openai project": ("sk-proj-", noise(96)),
        "anthropic": ("sk-ant-", f"api03-{noise(90)}"),
        "aws id": ("AKIA", noise(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
        "github": ("ghp_", noise(36)),
        "google": ("AIza", noise(35)),
        "slack": ("xoxb-", f"1234567890-{noise(24)}"),
    }
    for name, (prefix, rest) in tokens.items():
        yield name, f"key {prefix}{rest} end", (rest.removeprefix("api03-").removeprefix("1234567890-"),)
    secret = noise(40, ALNUM + "/+")
    yield "aws secret", f"aws_secret_access_key = {secret}", (secret,)
    token = jwt()
    yield "jwt", f"token: {token}", (token.split(".")[1], token.split(".")[2])
    lines = [noise(64, ALNUM + "+/") for _ in range(6)]
    pem = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(lines) + "\n-----END RSA PRIVATE KEY-----"
    yield "pem", pem, tuple(lines)
    bearer = noise(40)
    yield "bearer header", f"Authorization: Bearer {bearer}", (bearer,)
    word = noise(14)
    yield "basic header", f"Authorization: Basic {encoded('user:' + word)}", (encoded("user:" + word), word)
    in_url = noise(14)
    yield "basic-auth url", f"https://deploy:{in_url}@git.example.org/x.git", (in_url,)
    env = noise(24)
    yield ".env line", f"STRIPE_WEBHOOK_SECRET={env}", (env,)
    password = noise(16)
    yield ".env export", f'export DB_PASSWORD="{password}"', (password,)
    for kind, value in (("configured", CONFIGURED), ("configured plain", PLAIN_CONFIGURED)):
        yield kind, f"it is {value} here", (value,)
        yield f"{kind} json", f"it is {json.dumps(value)} here", (json.dumps(value)[1:-1],)
        yield f"{kind} url", f"https://x.example/?k={quote(value, safe='')}&y=1", (quote(value, safe=""),)
        yield f"{kind} base64", f"data: {encoded(value)}", (encoded(value),)
        yield f"{kind} inside base64", f"data: {encoded('user:' + value + '@host')}", (encoded("user:" + value),)
        yield f"{kind} wrapped", f"it is\n{wrapped(value, 20)}\nhere", tuple(wrapped(value, 20).split("\n"))
    anthropic = f"sk-ant-api03-{noise(90)}"
    yield "anthropic wrapped", f"key\n{wrapped(anthropic, 40)}\nend", (anthropic[13:40], anthropic[40:80])
    yield "anthropic json", json.dumps({"a": json.dumps({"key": f"x\n{anthropic}\ny"})}), (anthropic[13:],)
    yield "anthropic base64", f"data:\n  key: {encoded(anthropic)}", (encoded(anthropic)[10:],)
    yield "pem json", json.dumps(json.dumps({"pem": pem})), tuple(lines)
    yield "pem url", f"?pem={quote(pem, safe='')}&y=1", tuple(quote(line, safe="") for line in lines)
    yield "pem base64", f"tls.key: {encoded(pem)}", (encoded(pem)[50:],)
    coded = noise(14)
    yield "url in url", f"?next={quote(f'https://deploy:{coded}@host/', safe='')}&y=1", (coded,)

    for name, split in SPLITS.items():
        first, second = noise(20), noise(20)
        yield f"github {name}", f'key = "ghp_{first}{split}{second}"\nend', (first, second)
        if name in ("continued line", "strings", "strings of json"):
            yield f"named {name}", f'password = "{first[::-1]}{split}{second[::-1]}"\nend', (first[::-1], second[::-1])


SPLITS = {
    "indented": "\n        ",
    "continued line": "\\\n  ",
    "quoted lines": "\n> ",
    "numbered lines": "\n    12\t",
    "lines of json": "\\n  ",
    "strings": '"\n    + "',
    "strings of json": '\\" +\\n  \\"',
}
"""What a terminal, a tool or source code writes between two parts of a key."""
PLANTED = {name: Planted(text, hidden) for name, text, hidden in _kinds()}


def _windows(planted: Planted) -> Iterator[bytes]:
    for hidden in planted.hidden:
        yield from (hidden[at : at + SHORTEST].encode() for at in range(max(1, len(hidden) - SHORTEST + 1)))


@cache
def _pieces(kind: str) -> tuple[list[bytes], list[bytes]]:
    """Of a kind: halves of pieces, one of which is in each of its pieces, and all pieces. In small letters."""
    half = SHORTEST // 2
    hidden = [each.lower().encode() for each in PLANTED[kind].hidden]
    halves = [each[at : at + half] for each in hidden for at in range(0, max(1, len(each) - half + 1), half)]
    return halves, [piece.lower() for piece in _windows(PLANTED[kind])]


def seen_in(data: bytes) -> set[str]:
    """The kinds of planted secrets of which a piece is in these bytes, in any case of letters."""
    lower = data.lower()
    found: set[str] = set()
    for kind in PLANTED:
        halves, pieces = _pieces(kind)
        if any(half in lower for half in halves) and any(piece in lower for piece in pieces):
            found.add(kind)
    return found


def _unpacked(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and of everything that is stored in it in another form."""
    data = path.read_bytes()
    yield data
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    if "blobs" in path.parts:
        yield _text(data).encode("utf-8", "replace")
    if data[:15] == b"SQLite format 3":
        yield "\n".join(_cells(path)).encode("utf-8", "replace")


def _cells(path: Path) -> Iterator[str]:
    """Every value of every table. SQLite may store a long one in pieces, so the bytes of the file do not show it."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in db.execute(f'SELECT * FROM "{name}"'):
                yield " ".join(_text(cell) for cell in row)


def _text(cell: object) -> str:
    if not isinstance(cell, bytes):
        return str(cell)
    for unpack in (zlib.decompress, lambda raw: zlib.decompress(raw, -15)):
        try:
            return unpack(cell).decode("utf-8", "replace")
        except zlib.error:
            continue
    return cell.decode("utf-8", "replace")


def leaks(folder: Path, is_log: Callable[[Path], bool] = lambda path: False) -> dict[str, set[str]]:
    """For each file below the folder, which is not part of the log, the kinds of secrets in its content or its name."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        kinds = seen_in(name.encode())
        if path.is_file() and not is_log(path.relative_to(folder)):
            kinds |= set().union(*map(seen_in, _unpacked(path)))
        if kinds:
            found[name] = kinds
    return found


def in_log(path: Path) -> bool:
    """The log itself: the database with what SQLite keeps beside it."""
    return path.name.startswith("tidegate.db")
