"""`tidegate wrap`: a client started behind a gateway of its own, in one command."""

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from tidegate.cli.extras import require_packages
from tidegate.cli.options import Subparsers, add_command, add_data_options
from tidegate.cli.serve import add_gateway_options
from tidegate.cli.wrapped_clients import (
    CLIENTS,
    WrappedClient,
    find_user_upstreams,
    make_client_setup,
    make_resume_arguments,
)
from tidegate.core.text.plural import format_count
from tidegate.core.text.terminal_text import clean_line
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from asyncio.subprocess import Process

    from tidegate.agent.config.resolved_config import ResolvedConfig
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.gateway.app import Gateway
    from tidegate.gateway.metrics import ForwardedRequest, Metrics
    from tidegate.gateway.settings import GatewaySettings

_ABOUT = """\
Start a client behind a gateway: the whole conversation is kept in a log, and the provider gets a view of it that fits
the window. The client keeps its own login or key. Only its environment, its arguments and temporary files change; your
own files are not edited. At the end, a summary says what was kept, what left the view, and what was saved.
"""
_EPILOG = f"""\
clients: {", ".join(CLIENTS)}

Everything after -- is passed to the client. Requests go where the client would send them without tidegate: to the
address in its environment (such as ANTHROPIC_BASE_URL), else to the provider; --upstream sets another one.

With --session or --last, another client continues the session: its first request gets the work so far in front of your
message. --dry-run says how much that is, and what it costs. A client with sessions of its own (claude, codex, opencode)
continues the one that it had, if you give it no arguments; else name it to the client yourself, as in -- --resume ID.

status: the client's own; 128 + N if signal N ended it; 2 wrong usage, or the client is not installed

examples:
  tidegate wrap claude
  tidegate wrap claude --window 64000 -- -p "fix the failing test"
  tidegate wrap codex --last
  tidegate wrap codex --session pump --dry-run
  tidegate wrap aider --upstream openai=http://127.0.0.1:8080/v1 -- --model openai/qwen3
"""
_SHUTDOWN_TIMEOUT: Final = 2.0
_EXCEPTIONS: Final = (
    ("unlogged_requests", "not logged", "request", "see `tidegate doctor`"),
    ("unmanaged_requests", "sent whole", "request", "not managed, because no view of them fits"),
    ("guarded_requests", "shortened", "request", "by the emergency guard"),
    ("requests_with_thinking_left_out", "thinking", "request", "left out thinking that an edit had made invalid"),
    ("refused_thinking", "refused", "request", "for the thinking in it, and sent again without"),
    ("dropped_thinking", "dropped", "block", "of thinking, by the provider"),
)
"""Counters of the gateway, and how the summary names them; what did not happen is not listed."""
_FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT)
"""A terminal sends these to the client as well; without a terminal they are forwarded."""


def add_parser(subparsers: Subparsers) -> None:
    def run_parsed(options: argparse.Namespace) -> int:
        return run(_read_later_options(parser, options))

    parser = add_command(
        subparsers,
        "wrap",
        run_parsed,
        summary="start a client such as Claude Code or Codex behind a gateway",
        description=_ABOUT,
        epilog=_EPILOG,
    )
    parser.usage = "tidegate wrap CLIENT [options] [-- ARGS]"
    parser.add_argument(
        "command",
        nargs=argparse.PARSER,  # the client and everything after it, also options
        choices=tuple(CLIENTS),
        metavar="CLIENT",
        help="one of: " + ", ".join(CLIENTS),
    )
    _add_options(parser)
    parser.set_defaults(host="127.0.0.1", port=0, token_env=[], on_store_failure=None)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session", default="", metavar="NAME", help="use this session (default: one per conversation)"
    )
    parser.add_argument("--last", action="store_true", help="use the session that was last used in this folder")
    parser.add_argument(
        "--from", dest="origin", default="", metavar="FOLDER", help="continue a session of the project in FOLDER here"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with a session: say what would be sent of it, and send nothing"
    )
    parser.add_argument("--log", default="", metavar="FILE", help="append the gateway's lines to this file")
    parser.add_argument("--quiet", action="store_true", help="no address of the page and no summary at the end")
    add_gateway_options(parser)
    add_data_options(parser)


def _read_later_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """Options may also come after the client: everything before `--` is ours."""
    client, *words = options.command
    place = words.index("--") if "--" in words else len(words)
    if place:
        later = argparse.ArgumentParser(parser.prog, add_help=False)
        _add_options(later)
        options, unknown = later.parse_known_args(words[:place], options)
        if {"-h", "--help"} & {*unknown}:
            parser.print_help()
            parser.exit()
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)} (put -- before the arguments of the client)")
    options.client, options.arguments = client, words[place + 1 :]
    return options


def run(options: argparse.Namespace) -> int:
    require_packages("uvicorn", "httptools", "zstandard")

    import shutil

    from tidegate.cli.client_bypasses import (
        ClientSituation,
        find_bypasses,
        read_own_addresses,
        read_settings_variables,
    )
    from tidegate.cli.serve import load_gateway_config

    client = CLIENTS[options.client]
    program = shutil.which(client.program) or _refuse_missing(client)
    config = load_gateway_config(options)
    situation = ClientSituation(os.environ, Path.cwd(), options.arguments)
    own_variables = read_settings_variables(client.program, situation)
    upstreams = find_user_upstreams(client, {**os.environ, **own_variables})
    settings = _make_settings(options, config, {**read_own_addresses(client.program, situation), **upstreams})
    bypasses = find_bypasses(client.program, situation)
    for warning in [*bypasses, *filter(None, [settings.state_notes_notice])]:
        sys.stderr.write(f"tidegate: warning: {warning}\n")
    return _run_with_gateway(options, config, client, program, settings, own_variables)


def _make_settings(
    options: argparse.Namespace, config: "ResolvedConfig", upstreams: Mapping[str, str]
) -> "GatewaySettings":
    import secrets

    import msgspec

    from tidegate.cli.serve import check_before_start, make_gateway_settings

    settings = make_gateway_settings(options, config.settings.gateway, upstreams)
    # The tokens of a shared gateway are not for this one: it has one client, with a token made for this run. Nobody
    # waits for a page that is still open.
    settings = msgspec.structs.replace(
        settings, tokens=(), client_token=secrets.token_urlsafe(32), shutdown_timeout=_SHUTDOWN_TIMEOUT
    )
    check_before_start(settings)
    return settings


def _run_with_gateway(
    options: argparse.Namespace,
    config: "ResolvedConfig",
    client: WrappedClient,
    program: str,
    settings: "GatewaySettings",
    own_variables: Mapping[str, str],
) -> int:
    import asyncio

    import msgspec

    from tidegate.agent.provider_connection import build_model_overrides
    from tidegate.cli.continued_session import (
        describe_dry_run,
        find_continued_session,
        find_own_session,
        note_repository,
    )
    from tidegate.cli.data_location import open_data_folder
    from tidegate.core.errors import BadInput
    from tidegate.core.text.secrets import keys_of
    from tidegate.datafolder.workspaces import find_last_session
    from tidegate.gateway.app import Gateway
    from tidegate.web.live.pages import GatewayPage

    keys = [*keys_of(os.environ), settings.client_token, *(each.key for each in settings.upstreams if each.key)]
    with open_data_folder(options, create=True, secrets=keys) as data:
        session = options.session or (find_last_session(data, Path.cwd()) if options.last else "")
        if options.dry_run and not session:
            raise BadInput(
                "There is no session to continue.", "Name it with --session; `tidegate sessions` lists them."
            )
        resumed: list[str] = []
        if session:
            continued = find_continued_session(data, client, session, Path.cwd(), options.origin)
            settings = msgspec.structs.replace(settings, continued=continued)
            resumed = make_resume_arguments(client, session, find_own_session(data, client, session))
        if options.dry_run and settings.continued is not None:
            returns = bool(resumed and not options.arguments)
            sys.stderr.write(describe_dry_run(data, client, settings.continued, settings.window, returns=returns))
            return EXIT_OK
        arguments = options.arguments or resumed
        watch = _RunWatch(data, Path.cwd(), client.title)
        with _LogFile(options.log) as log_file:
            gateway = Gateway(settings, data, log_file.write_line, watch.add)
            gateway.page = GatewayPage(settings, data, gateway.activity, prices=build_model_overrides(config))
            run_client = _run_client(
                gateway, settings, client, [program, *arguments], session, data.root, options.quiet, own_variables
            )
            status = asyncio.run(run_client)
        note_repository(data, watch.list_sessions(), Path.cwd())
        if not options.quiet:
            sys.stderr.write(watch.describe(client, gateway.metrics, gateway.notices))
    return status


def _refuse_missing(client: WrappedClient) -> NoReturn:
    from tidegate.core.errors import BadInput

    raise BadInput(
        f"{client.title} is not installed: there is no command {client.program!r} in your PATH.",
        f"Install it with: {client.install}",
    )


class _LogFile:
    """The file for the gateway's lines; nothing is written if it has no name. The terminal belongs to the client."""

    def __init__(self, name: str) -> None:
        self._file = open(name, "a", encoding="utf-8", opener=_open_private) if name else None  # noqa: SIM115 - closed by the with block

    def __enter__(self) -> "_LogFile":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def write_line(self, line: str) -> None:
        if self._file:
            self._file.write(clean_line(line) + "\n")
            self._file.flush()


def _open_private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


async def _run_client(
    gateway: "Gateway",
    settings: "GatewaySettings",
    client: WrappedClient,
    command: Sequence[str],
    session: str,
    root: Path,
    quiet: bool,
    own_variables: Mapping[str, str],
) -> int:
    """Run the client until it ends, with the gateway beside it. Return its exit status."""
    import asyncio
    import tempfile
    import time

    from tidegate.gateway.running import RunningGateway, announce_gateway
    from tidegate.gateway.server import serve_in_background
    from tidegate.web.live.login import make_page_link

    signals = _ClientSignals()
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        async with serve_in_background(gateway, settings) as url:
            if not quiet:
                link = make_page_link(url, settings.page_token, time.time())
                sys.stderr.write(f"tidegate: watch this run at {link} (`tidegate ui` opens it, too)\n")
            running = RunningGateway(url, settings.page_token, time.time(), client.program, str(Path.cwd()))
            setup = make_client_setup(
                client,
                url,
                {**os.environ, **own_variables},
                Path(folder),
                token=settings.client_token,
                session=session,
                overrides_settings=bool(own_variables),
            )
            for path, text in setup.files.items():
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            for path, target in setup.links.items():
                path.symlink_to(target)
            with announce_gateway(root, running):
                if signals.early is not None:
                    return 128 + signals.early
                process = await asyncio.create_subprocess_exec(
                    command[0], *setup.arguments, *command[1:], env=_make_environment(setup.environment)
                )
                signals.pass_on_to(process)
                status = await process.wait()
    return 128 - status if status < 0 else status


def _make_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The user's environment with the client's settings. The client must reach the gateway without a proxy."""
    direct = {
        name: ",".join(filter(None, [os.environ.get(name, ""), "127.0.0.1", "localhost"]))
        for name in ("NO_PROXY", "no_proxy")
    }
    return {**os.environ, **direct, **changes}


class _ClientSignals:
    """Passes signals on to the client. One that arrives before the client runs ends the run without it."""

    def __init__(self) -> None:
        import asyncio

        self._process: Process | None = None
        self.early: int | None = None
        loop = asyncio.get_running_loop()
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        for number in (*_FORWARDED_SIGNALS, *_TERMINAL_SIGNALS):
            loop.add_signal_handler(number, self._forward, number, number in _TERMINAL_SIGNALS and has_terminal)

    def pass_on_to(self, process: "Process") -> None:
        """From now on to this process, which also gets the signal that arrived while it was started."""
        self._process = process
        if self.early is not None:
            process.send_signal(self.early)

    def _forward(self, number: int, reaches_client: bool) -> None:
        if self._process is None:
            self.early = number
        elif self._process.returncode is None and not reaches_client:
            self._process.send_signal(number)


class _SessionSum:
    """What was sent for one session in this run."""

    def __init__(self, parent: str) -> None:
        self.parent = parent
        self.requests = self.tokens = 0
        self.whole_tokens = 0
        """Of the same requests, had the client sent them itself."""
        self.fitting_tokens = 0
        """The same, each cut to its window."""


class _RunWatch:
    """What the client did in this run, for the summary at its end."""

    def __init__(self, data: "DataFolder", workspace: Path, title: str) -> None:
        self._data = data
        self._workspace = workspace
        self._title = title
        self._sums: dict[str, _SessionSum] = {}

    def add(self, request: "ForwardedRequest") -> None:
        from tidegate.datafolder.workspaces import note_workspace

        if request.session not in self._sums and not request.parent:
            note_workspace(self._data, request.session, self._workspace, client=self._title)
        totals = self._sums.setdefault(request.session, _SessionSum(request.parent))
        totals.requests += 1
        totals.tokens += request.tokens
        whole = request.tokens + request.saved_tokens
        totals.whole_tokens += whole
        totals.fitting_tokens += max(request.tokens, min(whole, request.window or whole))

    def list_sessions(self) -> list[str]:
        """The sessions of the run, without those of sub-agents."""
        return [name for name, totals in self._sums.items() if not totals.parent]

    def describe(self, client: WrappedClient, metrics: "Metrics", notices: Sequence[str]) -> str:
        lines = [line for name, totals in self._sums.items() for line in self._describe_session(name, totals)]
        if not lines and metrics.read("unmanaged_requests"):
            lines.append(f"tidegate: no request of {client.title} was managed.")
        elif not lines:
            lines.append(f"tidegate: {client.title} sent no conversation through the gateway.")
        else:
            lines.append(f"  to go on       tidegate wrap {client.program} --last")
        for counter, label, noun, what in _EXCEPTIONS:
            if number := metrics.read(counter):
                lines.append(f"  {label:<14} {format_count(number, noun)}; {what}")
        lines += _describe_state_notes(metrics)
        lines += [f"  note           {notice}" for notice in notices]
        return "\n".join(lines) + "\n"

    def _describe_session(self, name: str, totals: _SessionSum) -> list[str]:
        in_view, left = self._count_messages(name)
        omission = f"{format_count(left[0], 'message')}, about {left[1]:,} tokens"
        requests = format_count(totals.requests, "request") + (" of a sub-agent" if totals.parent else "")
        lines = [
            f"tidegate: session {name}, {requests}",
            f"  kept           {format_count(in_view[0], 'message')}, about {in_view[1]:,} tokens",
            f"  left the view  {omission if left[0] else 'nothing: every message is still in it'}",
            *_describe_savings(totals),
        ]
        if left[0]:
            lines.append(f"  to read them   tidegate recall {name} WORDS")
        return lines

    def _count_messages(self, name: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Count the messages in the log and those that left the view, each with its tokens."""
        from tidegate.core.events import MessageAdded
        from tidegate.core.log_fold import iterate_current_branch

        log = self._data.open_log(name)
        whole = {item.message.id for item in self._data.open_conversation(name).view.items if not item.edited}
        sizes = [event.payload.tokens for event in log.read() if isinstance(event.payload, MessageAdded)]
        left = [
            event.payload.tokens
            for event in iterate_current_branch(log.read)
            if isinstance(event.payload, MessageAdded)
            and event.payload.message.agent_visible
            and event.payload.message.id not in whole
        ]
        return (len(sizes), sum(sizes)), (len(left), sum(left))


def _describe_state_notes(metrics: "Metrics") -> list[str]:
    """How many state notes were written in this run, and what they took."""
    names = ("state_note_input_tokens", "state_note_cached_tokens", "state_note_output_tokens")
    read, cached, output = map(metrics.read, names)
    successes, failed = (metrics.read("state_notes", outcome=outcome) for outcome in ("written", "failed"))
    if not (successes or failed or read):
        return []
    line = f"  {'state notes':<14} {successes:,} written"
    line += f", {failed:,} failed (their sweeps went without one)" if failed else ""
    share = f" ({cached / read:.0%} from the provider's cache)" if read else ""
    return [line, f"  {'':<14} for {read:,} input tokens{share} and {output:,} output tokens"]


def _describe_savings(totals: _SessionSum) -> list[str]:
    """What was saved, against what the client alone would have sent, and against as much of it as fits the window."""
    if totals.whole_tokens == totals.tokens:
        return ["  saved          nothing: every request was forwarded whole"]
    baselines = [("the client's own requests", totals.whole_tokens)]
    if totals.fitting_tokens < totals.whole_tokens:
        baselines.append(("the same requests cut to the window", totals.fitting_tokens))
    lines = [
        f"about {total - totals.tokens:,} input tokens ({(total - totals.tokens) / total:.0%}) less than {what}"
        for what, total in baselines
    ]
    return [f"  {name:<14} {line}" for name, line in zip(("saved", ""), lines, strict=False)]
