"""The names that sessions get from the ids of a framework.

    name_session("7")                                      7
    name_session("7", user="alice", application="shop")    shop/alice@7
    name_session("7", agent="reader")                      7.reader
    name_session("a b")                                    a-b~6ccb2c5e16fc52aa4c8f

Different ids never have the same name: an id with other characters than letters, digits, `_` and `-`, or a long one, is
followed by its hash.
"""

import hashlib
import os
import re
import secrets
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

from tidegate.core.text.lazy_pattern import LazyPattern

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_OTHER = LazyPattern(r"[^A-Za-z0-9_-]+")
_MAX_LETTERS = 40


class SessionName(NamedTuple):
    """The name of a session, as far as the framework's ids give one.

    `name` is empty if they do not; the session is then found by its messages. So it is if the name `is_shared`: others
    may have the same ids. `beginning` is how the name of a session begins that is found by its messages. `thread` is
    the framework's id, and `old_name` the name that version 0.1.0 gave the session.
    """

    name: str
    is_shared: bool = False
    beginning: str = ""
    thread: str = ""
    old_name: str = ""


def name_session(thread: str, *, user: str | None = None, application: str = "", agent: str = "") -> str:
    """The name for these ids. `application` is a part as `encode_part` or `name_program` return it, or several."""
    name = encode_part(thread)
    if user is not None:
        name = f"{encode_part(user)}@{name}"
    if application:
        name = f"{application}/{name}"
    return f"{name}.{encode_part(agent)}" if agent else name


def encode_part(text: str) -> str:
    """An id as a part of a name. Different ids are different parts."""
    if _PLAIN(text):
        return text
    letters = _OTHER.sub("-", text[:_MAX_LETTERS]).strip("-")
    return f"{letters}~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def make_random_id() -> str:
    return secrets.token_hex(8)


def name_program() -> str:
    """The running program as a part of a name: the name of its file, and a hash of where it is.

    A program that is installed, such as a web server or a notebook, runs the code of others. So the folder in which it
    was started counts as well.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    place = Path(os.path.realpath(main)) if main else Path.cwd()
    where = str(place)
    if main and any(place.is_relative_to(folder) for folder in _list_installation_folders()):
        where += f"\n{Path.cwd()}"
        place = Path.cwd()
    letters = _OTHER.sub("-", place.stem[:_MAX_LETTERS]).strip("-") or "program"
    return f"{letters}~{hashlib.sha256(where.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _list_installation_folders() -> set[str]:
    paths = sysconfig.get_paths()
    return {os.path.realpath(paths[kind]) for kind in ("scripts", "purelib", "platlib", "stdlib") if kind in paths}
