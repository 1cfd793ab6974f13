"""`tidegate doctor`: check everything in the data folder, and repair it if asked; or check a provider with a key."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.core.errors import BadInput
from tidegate.core.text.terminal_text import clean_line
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

_LIVE_HELP = "check anthropic, openai or gemini with your key, for less than half a dollar"

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.datafolder.doctor.finding import Finding

_ABOUT = """\
Check everything in the data folder, down to the hash of each record. It changes nothing without --repair. With the
address of the owner of PostgreSQL's tables, it migrates them and checks the sessions of all tenants.

--live PROVIDER checks a provider instead, with your key from its environment variable: edits inside a tool loop with
thinking, what the provider reads from its cache after a sweep, the fields of its usage reports, its refusal of a
request that is too long, and recall behind the gateway. It says before it starts what this can cost, never more than
half a dollar. The report has neither your key nor content of your sessions, so that you can paste it into an issue.
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("doctor", "", "--repair", "--live anthropic", "--live openai --model gpt-5-nano")
    parser = add_command(
        subparsers, "doctor", run, summary="check and repair the data folder", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("--repair", action="store_true", help="repair what can be repaired")
    parser.add_argument("--json", action="store_true", help="a list of findings instead of lines")
    live = parser.add_argument_group("checking a provider")
    live.add_argument("--live", choices=("anthropic", "openai", "gemini"), metavar="PROVIDER", help=_LIVE_HELP)
    live.add_argument("--model", default="", metavar="NAME", help="another model than a cheap one (with --live)")
    live.add_argument("--yes", action="store_true", help="do not ask before money is spent (with --live)")


def run(options: argparse.Namespace) -> int:
    import msgspec

    if options.live:
        return _check_provider(options)
    from tidegate.terminal.output import print_json

    findings: list[Finding] = []
    for finding in _examine(options):
        if not options.json:
            print(finding)
            sys.stdout.flush()
        findings.append(finding)
    if options.json:
        print_json(msgspec.json.encode(findings))
    return EXIT_FAILED if any(finding.severity in ("broken", "lost") for finding in findings) else EXIT_OK


def _check_provider(options: argparse.Namespace) -> int:
    import asyncio
    import os

    from tidegate.agent.config.provider_target import resolve_target
    from tidegate.agent.config.settings import AgentModel
    from tidegate.cli.extras import require_packages
    from tidegate.terminal.output import ask_line
    from tidegate.terminal.signals import run_until_signal

    require_packages("httpx", "uvicorn")
    from tidegate.proof.live_check import DEFAULT_MODELS, plan_live_check, run_live_check

    model = AgentModel(provider=options.live, model=options.model or DEFAULT_MODELS[options.live])
    plan = plan_live_check(resolve_target(model, {}, os.environ))
    print(plan.describe())
    if not options.yes:
        if not sys.stdin.isatty():
            raise BadInput("The check costs money.", "Add --yes to allow it.")
        if ask_line("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
            print("Nothing was sent.")
            return EXIT_OK

    async def check() -> int:
        return EXIT_OK if await run_live_check(plan, _print_line) else EXIT_FAILED

    return asyncio.run(run_until_signal(check()))


def _print_line(line: str) -> None:
    print(clean_line(line), flush=True)


def _examine(options: argparse.Namespace) -> "Iterator[Finding]":
    """Yield the findings. A database that SQLite can no longer read is rescued before the folder is opened."""
    import msgspec

    from tidegate.cli.data_location import locate_data_folder, open_data_folder, open_tenant
    from tidegate.datafolder.doctor.database_rescue import needs_rescue, rescue_database
    from tidegate.datafolder.doctor.examination import examine_folder
    from tidegate.store.store import TenantStore

    folder = locate_data_folder(options)
    if options.repair and needs_rescue(folder):
        yield from rescue_database(folder)
    with open_data_folder(options) as data:
        yield from examine_folder(data, repair=options.repair)
        store = data.store
        for tenant in store.list_other_tenants() if isinstance(store, TenantStore) else []:
            with open_tenant(data, tenant) as other:
                for finding in examine_folder(other, repair=options.repair):
                    yield msgspec.structs.replace(finding, tenant=tenant)
