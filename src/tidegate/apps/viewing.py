"""`tidegate view`: a session as one HTML file."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tidegate.agent.chosen import secret_values
from tidegate.agent.config_file import config_of, files_of, read_sources
from tidegate.agent.reach import models_of
from tidegate.agent.trust import check_trust
from tidegate.apps.choices import OK
from tidegate.apps.page.session_page import session_page
from tidegate.apps.place import opened
from tidegate.apps.sessions import known, size
from tidegate.apps.terminal import print_error
from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.secrets import Mask, keys_of
from tidegate.core.terminal_text import clean_line
from tidegate.disk.folder import key_of
from tidegate.disk.writing import write_whole
from tidegate.models.catalog import Model


class _Told(NamedTuple):
    """What the user's configuration adds: prices of their own, and values to mask."""

    prices: Mapping[str, Model] | None
    secrets: list[str]


def view_command(options: argparse.Namespace) -> int:
    path = Path(options.out or f"{key_of(options.session)}.html")
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path} cannot be written.", "Name a file in a folder that is there, with --out.")
    told = _told()
    mask = Mask([*keys_of(os.environ), *told.secrets])
    with opened(options) as data:
        log = known(data, options.session)
        page = session_page(options.session, log, mask, window=options.window, prices=told.prices)
    write_whole(path, page.html.encode(), durable=False)
    print(f"{clean_line(str(path))}: {size(path.stat().st_size)}")
    for line in page.left_out:
        print(f"  {clean_line(line)}")
    return OK


def _told() -> _Told:
    """A configuration that cannot be used is no reason not to show a session: it is said, and the catalog holds."""
    try:
        files = files_of(Path.cwd(), os.environ)
        sources = read_sources(files)
        check_trust(files, sources)
        config = config_of(sources, os.environ)
        return _Told(models_of(config), list(secret_values(config, os.environ)))
    except TidegateError as bad:
        print_error(f"the configuration is left aside: {bad.args[0]}")
        return _Told(None, [])
