"""Opening a store: a folder, or the URL of a database. Other packages may add schemes (`tidegate.plugins`)."""

import os
import re
import time
from collections.abc import Callable
from importlib import import_module
from typing import cast
from urllib.parse import unquote, urlsplit

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.plugins import Plugin, describe_failure, find_plugin
from tidegate.store.memory import MemoryStore
from tidegate.store.store import Store

_STORE_URLS_REMEDY = "Give a folder, sqlite:///FOLDER, postgresql://USER@HOST/DATABASE, or memory: for none."
BUILTIN_SCHEMES = ("memory", "postgres", "postgresql", "sqlite")
_SCHEME = LazyPattern(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>//.*|)\Z", re.DOTALL)
_MISTYPED_URL = LazyPattern(r"(sqlite|postgres|postgresql|memory):", re.IGNORECASE)
_LIBPQ_SETTINGS = LazyPattern(r"\s*[A-Za-z_]+\s*=")


def open_store(url: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> Store:
    """Open the store at a path or URL. `sqlite:///PATH` is the same as the path; the folder is made if it is missing.

    The scheme may be one that an installed package offers. No error of this function repeats the URL, because it may
    contain a password.
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
            "This looks like host=... password=..., not like a folder or a URL.",
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
    plugin = find_plugin("store", scheme)
    if plugin is None:
        raise BadInput(f"A URL that begins with {scheme}: is not one of a store.", _STORE_URLS_REMEDY)
    return _open_plugin_store(plugin, text, clock)


def _sqlite(folder: str, clock: Callable[[], float]) -> Store:
    from tidegate.store.sqlite import SqliteStore  # noqa: PLC0415 - sqlite3 is loaded by those who use it

    return SqliteStore(folder, clock=clock)


def load_store_plugin(plugin: Plugin) -> Callable[[str, Callable[[], float]], object]:
    """Import a store's function `(url, clock) -> Store`. Raise BadInput if it is not one."""
    make = plugin.load()
    if not callable(make):
        raise plugin.make_error(f"is a {type(make).__name__}: a store plugin is a function (url, clock) -> Store")
    return make


def _open_plugin_store(plugin: Plugin, url: str, clock: Callable[[], float]) -> Store:
    make, secrets = load_store_plugin(plugin), [url, *list_url_passwords(url)]
    try:
        store = make(url, clock)
    except Exception as failure:  # noqa: BLE001 - from None: the chain could print the URL
        raise plugin.make_error(f"did not open: {_mask_secrets(describe_failure(failure), secrets)}") from None
    methods = [name for name in vars(Store) if not name.startswith("_")]
    missing = [name for name in methods if not callable(getattr(store, name, None))]
    if missing:
        raise plugin.make_error(f"made a {type(store).__name__}, which has no {', '.join(missing)}")
    return cast(Store, store)


def _postgres(url: str) -> Store:
    try:
        module = import_module("tidegate.store.postgres")
    except ImportError as absent:
        raise BadInput(
            f"A PostgreSQL store needs a package that is not installed: {absent.name}.",
            "Run: pip install 'tidegate[postgres]'",
        ) from None
    secrets = [url, *list_url_passwords(url)]
    try:
        store: Store = module.PostgresStore(url)
    except Exception as failure:
        if not any(secret in str(failure) for secret in secrets):
            raise
        # From None: the chain would print the text that is being hidden here.
        cause = _mask_secrets(str(failure.args[0]) if failure.args else "", secrets)
        remedy = failure.remedy if isinstance(failure, TidegateError) else "Check the URL and that the server runs."
        raise BadInput(f"The PostgreSQL store did not open: {cause}", _mask_secrets(remedy, secrets)) from None
    return store


def list_url_passwords(url: str) -> list[str]:
    """The passwords in a URL, as they are written and as they are meant. One that cannot be read is all password."""
    try:
        parts = urlsplit(url)
        pairs = [pair.partition("=") for pair in parts.query.split("&")]
        passwords = [parts.password or "", *(value for key, _, value in pairs if key in ("password", "sslpassword"))]
    except ValueError:
        return [url]
    return [form for word in passwords if word for form in (word, unquote(word))]


def _mask_secrets(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
