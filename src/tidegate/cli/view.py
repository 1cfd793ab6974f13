"""`tidegate view`: a session as one HTML file."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tidegate.agent.config.files import locate_config_files, read_config_sources, resolve_config
from tidegate.agent.config.resolved_config import collect_secret_values
from tidegate.agent.config.trust import check_trust
from tidegate.agent.provider_connection import build_model_overrides
from tidegate.cli.data_location import open_data_folder
from tidegate.cli.sessions import format_byte_size, open_existing_log
from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.text.secrets import SecretMask, keys_of
from tidegate.core.text.terminal_text import clean_line
from tidegate.disk.atomic_files import write_atomically
from tidegate.disk.folder import session_file_key
from tidegate.models.catalog import ModelInfo
from tidegate.terminal.exit_codes import EXIT_OK
from tidegate.terminal.output import print_error
from tidegate.web.session_page import render_session_page


class _ViewConfig(NamedTuple):
    """What the user's configuration adds: prices of their own, and values to mask."""

    prices: Mapping[str, ModelInfo] | None
    secrets: list[str]


def view_command(options: argparse.Namespace) -> int:
    path = Path(options.out or f"{session_file_key(options.session)}.html")
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path} cannot be written.", "Name a file in a folder that is there, with --out.")
    told = _read_view_config()
    mask = SecretMask([*keys_of(os.environ), *told.secrets])
    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        page = render_session_page(options.session, log, mask, window=options.window, model_overrides=told.prices)
    write_atomically(path, page.html.encode(), durable=False)
    print(f"{clean_line(str(path))}: {format_byte_size(path.stat().st_size)}")
    for line in page.omissions:
        print(f"  {clean_line(line)}")
    return EXIT_OK


def _read_view_config() -> _ViewConfig:
    """A configuration that cannot be used is no reason not to show a session: it is said, and the catalog holds."""
    try:
        files = locate_config_files(Path.cwd(), os.environ)
        sources = read_config_sources(files)
        check_trust(files, sources)
        config = resolve_config(sources, os.environ)
        return _ViewConfig(build_model_overrides(config), list(collect_secret_values(config, os.environ)))
    except TidegateError as bad:
        print_error(f"the configuration is left aside: {bad.args[0]}")
        return _ViewConfig(None, [])
