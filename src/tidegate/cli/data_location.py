"""The data folder that a command works on, and the logs in it."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.errors import BadInput
from tidegate.datafolder.location import DATA_VARIABLE, STORE_VARIABLE, locate_user_data
from tidegate.store.errors import SessionNotFound
from tidegate.store.memory import session_not_found
from tidegate.store.session_log import KeptLog

if TYPE_CHECKING:  # loaded when it is opened
    from tidegate.datafolder.data_folder import DataFolder


def locate_data_folder(options: argparse.Namespace) -> Path:
    """Return `--data`, else the environment's folder, else the one where programs of this user keep their data."""
    return Path(options.data) if options.data else locate_user_data()


def check_data_folder(folder: Path) -> None:
    """BadInput if there is no such folder: it is more likely a mistyped name than an empty one."""
    if not folder.is_dir():
        raise BadInput(
            f"There is no data folder {folder}.",
            f"Name the one that holds your sessions with --data or ${DATA_VARIABLE}.",
        )


@contextmanager
def open_data_folder(
    options: argparse.Namespace, *, create: bool = False, secrets: list[str] | None = None
) -> "Iterator[DataFolder]":
    """Open the data folder. Unless `create` is given it must exist: a missing one is more likely a mistyped name."""
    from tidegate.datafolder.data_folder import DataFolder

    folder = locate_data_folder(options)
    if not create:
        check_data_folder(folder)
    data = DataFolder(folder, store=options.store or os.environ.get(STORE_VARIABLE, ""), secrets=secrets)
    try:
        yield data
    finally:
        data.close()


@contextmanager
def open_tenant(data: "DataFolder", tenant: str) -> "Iterator[DataFolder]":
    """Open the sessions of a tenant as the owner of the tables, with an empty folder for what is cached of them."""
    import tempfile

    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.store.store import TenantStore

    if not isinstance(data.store, TenantStore):
        raise BadInput("Only a PostgreSQL database has tenants.", "Name it with --store.")
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-tenant-") as folder,
        DataFolder(folder, store=data.store.open_tenant(tenant)) as other,
    ):
        yield other


def open_existing_log(data: "DataFolder", name: str) -> KeptLog:
    """Open the log of a session, which must have a record."""
    log = data.open_log(name)
    if not log.head:
        raise _make_not_found(data, name)
    return log


def _make_not_found(data: "DataFolder", name: str) -> SessionNotFound:
    """The error for an unknown session, with the most similar name if there is one."""
    import difflib

    error = session_not_found(name)
    similar = difflib.get_close_matches(name[:80], [info.name for info in data.store.sessions()], n=1)
    if similar:
        return SessionNotFound(error.args[0], f"Did you mean {similar[0]!r}? {error.remedy}")
    return error
