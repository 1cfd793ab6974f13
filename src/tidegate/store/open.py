"""One word picks the store: a folder, or a URL."""

import os
import re
import time
from collections.abc import Callable
from importlib import import_module
from urllib.parse import unquote, urlsplit

from tidegate.core.errors import BadInput, TidegateError
from tidegate.store.memory import MemoryStore
from tidegate.store.store import Store

_STORE_URLS_REMEDY = "Give a folder, sqlite:///FOLDER, postgresql://USER@HOST/DATABASE, or memory: for none."
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>//.*|)\Z", re.DOTALL)
_MISTYPED_URL = re.compile(r"(sqlite|postgres|postgresql|memory):", re.IGNORECASE)
_LIBPQ_SETTINGS = re.compile(r"\s*[A-Za-z_]+\s*=")


def open_store(url: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> Store:
    """A path or `sqlite:///PATH` (one more slash if it is absolute) is a data folder, made if it is not there.

    No error of this function repeats the URL: there may be a password in it.
    """
    text = os.fspath(url)
    if text[:1] in ("/", "."):  # no URL begins so, and no list of settings
        return _sqlite(text, clock)
    match = _SCHEME.match(text)
    scheme = match["scheme"].lower() if match else ""
    if not text or (not match and _MISTYPED_URL.match(text)):
        raise BadInput("This is neither a folder nor the URL of a store.", _STORE_URLS_REMEDY)
    if isinstance(url, str) and _LIBPQ_SETTINGS.match(text):
        raise BadInput(
            "This reads like host=... password=..., not like a folder or a URL.",
            f"{_STORE_URLS_REMEDY} A folder of such a name is written with ./ before it.",
        )
    if not match:
        return _sqlite(text, clock)
    if scheme == "memory" and match["rest"] in ("", "//"):
        return MemoryStore(clock)
    if scheme == "sqlite" and len(text) > len("sqlite:///") and text[len("sqlite:") :].startswith("///"):
        return _sqlite(text[len("sqlite:///") :], clock)
    if scheme in ("postgresql", "postgres"):
        return _postgres(text)
    raise BadInput(f"A URL that begins with {scheme}: is not one of a store.", _STORE_URLS_REMEDY)


def _sqlite(folder: str, clock: Callable[[], float]) -> Store:
    from tidegate.store.sqlite import SqliteStore  # noqa: PLC0415 - sqlite3 is loaded by those who use it

    return SqliteStore(folder, clock=clock)


def _postgres(url: str) -> Store:
    try:
        module = import_module("tidegate.store.postgres")
    except ImportError as absent:
        raise BadInput(
            f"A PostgreSQL store needs a package that is not installed: {absent.name}.",
            "Run: pip install 'tidegate[postgres]'",
        ) from None
    secrets = _secrets(url)
    try:
        store: Store = module.PostgresStore(url)
    except Exception as failure:
        if not any(secret in str(failure) for secret in secrets):
            raise
        # From None: the chain would print the text that is being hidden here.
        cause = _masked(str(failure.args[0]) if failure.args else "", secrets)
        remedy = failure.remedy if isinstance(failure, TidegateError) else "Check the URL and that the server runs."
        raise BadInput(f"The PostgreSQL store did not open: {cause}", _masked(remedy, secrets)) from None
    return store


def _secrets(url: str) -> list[str]:
    """The URL, and its passwords as they are written and as they are meant."""
    try:
        parts = urlsplit(url)
        pairs = [pair.partition("=") for pair in parts.query.split("&")]
        written = [parts.password or "", *(value for key, _, value in pairs if key in ("password", "sslpassword"))]
    except ValueError:
        return [url]
    return [url, *(form for word in written if word for form in (word, unquote(word)))]


def _masked(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
