"""Break the agent in one place at a time, and see whether the tests of the rows about that place fail.

    python bench/seed_mutants.py [--only WORD] [--list]

Each mutant is a copy of the package in which one text is replaced by another. The tests of its rows (`tidegate seeds`
names them) run against the copy. Those in tests/seeds test policies without an agent, and tests/seeds/test_mutations.py
changes the policies behind their backs: they run only for mutants of the core and of the presets. A row none of whose
tests fails is not proved by them: the program then ends with status 1.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tidegate.proof.seeds import link_tests, load_seeds, name_in_report, read_test_results

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """`file` is relative to the package. `old` occurs in it once. `rows` are the ids of the rows that must fail."""

    name: str
    file: str
    old: str
    new: str
    rows: str


MUTANTS = [
    Mutant(
        "no hooks",
        "agent/loop.py",
        "return await self.hooks.run_due(moment, self.session, summarizer=self.summarizer) if self.hooks else []",
        "return []",
        "DIG-01 DIG-05 DIG-11 DIG-12 DIG-13 DIG-18",
    ),
    Mutant(
        "summary_brain ignored",
        "agent/builder.py",
        "brain = config.context.summary_brain\n        if brain",
        "brain = None\n        if brain",
        "DIG-01 DIG-09",
    ),
    Mutant(
        "temperature of the summary brain ignored",
        "agent/builder.py",
        "temperature=self.brain.temperature,",
        "",
        "DIG-09",
    ),
    Mutant(
        "no retry after an overflow",
        "agent/loop.py",
        "refused, step = error, recovery.choose_step(error)",
        'refused, step = error, ""',
        "COW-09 PIC-04 DIG-10 AI-09",
    ),
    Mutant(
        "loaded window ignored",
        "agent/provider_connection.py",
        "found = await resolver.query_server()",
        "found = resolver.window",
        "JUT-14",
    ),
    Mutant(
        "prompt without skills",
        "agent/system_prompt.py",
        'skills.render_index(share, counter) if skills else ""',
        '""',
        "JUT-01 JUT-02",
    ),
    Mutant(
        "prompt without the memory index",
        "agent/system_prompt.py",
        'notes.render_index(share, counter=counter) if notes else ""',
        '""',
        "JUT-01 JUT-03 JUT-19",
    ),
    Mutant(
        "skills with their bodies",
        "agent/system_prompt.py",
        "skills.render_index(share, counter) if skills",
        'skills.render_index(share, counter) + skills.read_body("release") if skills',
        "JUT-02",
    ),
    Mutant(
        "no background summarizer",
        "agent/builder.py",
        'elif session.policy.settings.get("background"):',
        "elif False:",
        "PIC-07",
    ),
    Mutant(
        "background summaries are never started",
        "agent/runtime.py",
        "self.agent.summarizer.start_if_due()",
        "pass",
        "PIC-07",
    ),
    Mutant(
        "the end of a turn counts the next request",
        "core/plan.py",
        'later = len(view.items_since_reply()) if moment == "turn_end" else 0',
        "later = 0",
        "PIC-07",
    ),
    Mutant(
        "compact does nothing",
        "agent/loop.py",
        "return await self.session.compact_async(self.summarizer, focus=focus)",
        "return []",
        "JUT-15",
    ),
    Mutant(
        "/compact does nothing",
        "commands/window.py",
        "decisions = await session.compact_async(add_focus_async(context.summarizer, arguments))",
        "decisions = []",
        "JUT-15",
    ),
    Mutant(
        "greeting ignored",
        "agent/runtime.py",
        'return "" if self.session.view.total_turns else self.config.settings.execution.greeting',
        'return ""',
        "DIG-01",
    ),
    Mutant(
        "max_turns ignored",
        "agent/runtime.py",
        "most = self.config.settings.execution.max_turns",
        "most = 0",
        "DIG-01",
    ),
    Mutant(
        "timeout ignored",
        "agent/runtime.py",
        "until = clock() + execution.timeout if execution.timeout else None\n        async with",
        "until = None\n        async with",
        "DIG-01",
    ),
    Mutant(
        "allowed_actions ignored",
        "agent/config/tool_access.py",
        "allowed = constraints.allowed_actions is None or action in constraints.allowed_actions",
        "allowed = True",
        "DIG-01",
    ),
    Mutant(
        "default_policy ignored",
        "agent/config/tool_access.py",
        'if "default_policy" in given_keys:',
        "if False:",
        "DIG-01",
    ),
    Mutant(
        "system messages of hooks as user text",
        "wire/rendering/layout.py",
        "if self._takes_instructions:",
        "if False:",
        "DIG-18",
    ),
    Mutant(
        "arrays cut like any text",
        "agent/tools/tool.py",
        "if cut is not None:",
        "if False:",
        "DIG-07",
    ),
    Mutant(
        "lines of the notice counted as lines shown",
        "core/stages/admission.py",
        'return _Shown(kept, len(text), "characters")',
        'return _Shown(3, 1, "lines")',
        "DIG-07",
    ),
    Mutant(
        "one history file for all threads",
        "datafolder/data_folder.py",
        "policy=policy.for_thread(key)",
        "policy=policy",
        "JUT-11",
    ),
    Mutant(
        "summary calls not in the trace",
        "datafolder/trace/lines.py",
        "if paid is not None and paid.purpose in _OWN_PURPOSES:",
        "if False:",
        "JUT-16",
    ),
    Mutant(
        "calls of subagents twice in the traces",
        "datafolder/trace/lines.py",
        'frozenset({"summary", "interrupted"})',
        'frozenset({"summary", "interrupted", "subagent"})',
        "JUT-16",
    ),
    Mutant(
        "config.json refused",
        "agent/config/files.py",
        "project = adapt_foreign_file(project) if project is not None and sources.is_explicit else project",
        "pass",
        "COW-02 COW-03",
    ),
    Mutant(
        "no default window",
        "core/policy/policy.py",
        "if self.default_window and (",
        "if False and (",
        "PIC-01",
    ),
    Mutant(
        "the window that a policy sets is ignored",
        "agent/builder.py",
        "window = config.window or load_configured_policy(config).window or None",
        "window = config.window",
        "PIC-01",
    ),
    Mutant(
        "no discovery mode",
        "agent/config/tool_access.py",
        'return execution.tool_mode == "discovery"',
        "return False",
        "DIG-06 DIG-17",
    ),
    Mutant(
        "the number of tools does not matter",
        "agent/config/tool_access.py",
        "return tool_count > execution.max_direct_tools",
        "return False",
        "DIG-17",
    ),
    Mutant(
        "no approval for found tools",
        "agent/tools/toolbox.py",
        "denied = None if tool is meta else await self._check_approval(call.name, arguments)",
        "denied = None",
        "DIG-17",
    ),
    Mutant(
        "reminder without what was done",
        "core/stages/notices.py",
        "lines = [*(_done(gone)), *earlier]",
        "lines: list[str] = []",
        "DIG-06",
    ),
    Mutant(
        "reminder without tools",
        "core/stages/notices.py",
        "tools = _tools(view.tools, left - budget.counter.count_text(done), budget)",
        'tools = ""',
        "DIG-06",
    ),
    Mutant(
        "one halving and no more",
        "core/stages/turns.py",
        "while until and count",
        "while False and count",
        "COW-15",
    ),
    Mutant(
        "subagents have all tools",
        "agent/config/tool_access.py",
        "return agent.tools is None or any(",
        "return True or any(",
        "JUT-18",
    ),
    Mutant(
        "registered subagents ignored",
        "agent/subagent_kinds.py",
        "for each in (*SHIPPED_SUBAGENTS, *registered)]",
        "for each in SHIPPED_SUBAGENTS]",
        "JUT-18",
    ),
    Mutant(
        "no subagent is shipped",
        "agent/subagent_kinds.py",
        "SHIPPED_SUBAGENTS: Final = (EXPLORER,)",
        "SHIPPED_SUBAGENTS: Final = ()",
        "JUT-18",
    ),
    Mutant(
        "window of a registered subagent ignored",
        "agent/subagent_kinds.py",
        "window = own.max_tokens if own is not None else 0",
        "window = 0",
        "JUT-18",
    ),
    Mutant(
        "memory is not searched",
        "agent/tools/context_tools.py",
        "return ToolResult(await asyncio.to_thread(data.notes.read, arguments.note))",
        'return ToolResult("")',
        "JUT-03 JUT-19",
    ),
    Mutant(
        "an unknown window is not asked for",
        "agent/runtime.py",
        "if connection.window.tokens is None:",
        "if False:",
        "DIG-14",
    ),
    Mutant(
        "timeout of the summary brain ignored",
        "agent/builder.py",
        "timeout=self.brain.timeout or SUMMARY_TIMEOUT_SECONDS,",
        "timeout=SUMMARY_TIMEOUT_SECONDS,",
        "DIG-09",
    ),
    Mutant(
        "cooldown of a hook off by one",
        "agent/hooks/runner.py",
        "- last.time < hook.cooldown",
        "- last.time <= hook.cooldown",
        "DIG-11",
    ),
    Mutant(
        "message_count off by one",
        "agent/hooks/types.py",
        "return context.message_count > threshold",
        "return context.message_count >= threshold",
        "DIG-12",
    ),
    Mutant(
        "summary_max_tokens of a hook ignored",
        "agent/hooks/actions.py",
        "action.summary_max_tokens or context.summary_max_tokens",
        "context.summary_max_tokens",
        "DIG-13",
    ),
    Mutant(
        "a subagent returns all its texts",
        "agent/subagents.py",
        '"\\n\\n".join(texts) if failure else texts[-1]',
        '"\\n\\n".join(texts)',
        "JUT-17",
    ),
    Mutant(
        "streams of 300 KB",
        "agent/tools/tool.py",
        "MAX_STREAM_BYTES = 256 * 1024",
        "MAX_STREAM_BYTES = 300 * 1024",
        "JUT-04",
    ),
    Mutant(
        "results of 80 KiB",
        "agent/tools/tool.py",
        "MAX_RESULT_BYTES = 64 * 1024",
        "MAX_RESULT_BYTES = 80 * 1024",
        "JUT-04",
    ),
    Mutant(
        "no terminal emulator",
        "agent/tools/shell/terminal_output.py",
        "if first is not None:",
        "if False:",
        "JUT-04",
    ),
    Mutant(
        "half of the turns rounded up",
        "core/stages/turns.py",
        "count = int(len(complete) * share) if",
        "count = math.ceil(len(complete) * share) if",
        "COW-05",
    ),
    Mutant(
        "turns dropped without the scale of tokens",
        "core/stages/turns.py",
        "(budget.fixed + history) * budget.scale)",
        "(budget.fixed + history))",
        "COW-15",
    ),
    Mutant(
        "jutul: nothing saved on an overflow",
        "presets/jutul.yaml",
        "      keep_share: 0.15\n      max_tokens: $summary_tokens\n      save: $history_file\n",
        "      keep_share: 0.15\n      max_tokens: $summary_tokens\n",
        "JUT-11",
    ),
    Mutant(
        "jutul: nothing saved by /compact",
        "presets/jutul.yaml",
        "      keep_turns: 1\n      max_tokens: $summary_tokens\n      save: $history_file\n",
        "      keep_turns: 1\n      max_tokens: $summary_tokens\n",
        "JUT-11",
    ),
    Mutant(
        "picoclaw: a threshold of 21",
        "presets/picoclaw.yaml",
        "message_threshold: 20",
        "message_threshold: 21",
        "PIC-07",
    ),
    Mutant(
        "digitorn: truncate without a reminder",
        "presets/digitorn.yaml",
        '      messages: $keep_recent\n      note: "[Earlier messages truncated]"\n      reminder: $reminder_tokens\n',
        '      messages: $keep_recent\n      note: "[Earlier messages truncated]"\n',
        "DIG-06",
    ),
    Mutant(
        "ai: no digest after an overflow",
        "presets/ai.yaml",
        '    - stage: digest_results\n      when: {compacted: ">= 1"}\n      cutoff: $tool_call_cutoff\n  manual:',
        "  manual:",
        "AI-08",
    ),
    Mutant(
        "ai: compacted at 50 messages",
        "presets/ai.yaml",
        '        - {unlimited: ">= 1", messages: "> $max_messages"}',
        '        - {unlimited: ">= 1", messages: ">= $max_messages"}',
        "AI-02",
    ),
    Mutant(
        "gateway: an overflow is not retried",
        "gateway/refusals.py",
        "if await self.shrink(exchange, error):",
        "if False and await self.shrink(exchange, error):",
        "COW-09",
    ),
    Mutant(
        "gateway: the policy is ignored",
        "gateway/conversations.py",
        "policy = load(settings.policy_for(model, client))",
        'policy = load("default")',
        "PIC-03",
    ),
    Mutant(
        "gateway: retention is ignored",
        "gateway/conversations.py",
        "if settings.retention_days:",
        "if False:",
        "COW-12",
    ),
]


class Verdict(NamedTuple):
    row: str
    failed: int
    total: int


def make_copy(folder: Path, mutant: Mutant) -> None:
    """Copy the package and break it. LookupError if the place is not there: the list must follow the code."""
    shutil.copytree(ROOT / "src", folder / "src")  # with the compiled files: only the broken one is compiled again
    path = folder / "src" / "tidegate" / mutant.file
    text = path.read_text("utf-8")
    if text.count(mutant.old) != 1:
        raise LookupError(f"{mutant.name}: {mutant.file} has the text to replace {text.count(mutant.old)} times")
    path.write_text(text.replace(mutant.old, mutant.new), "utf-8")


def run_rows(mutant: Mutant, tests_by_row: dict[str, list[str]]) -> list[Verdict]:
    """Run the tests of the mutant's rows against its copy."""
    rows = mutant.rows.split()
    if not mutant.file.startswith(("core/", "presets/")):
        tests_by_row = {
            row: [test for test in tests_by_row[row] if not test.startswith("tests/seeds/")] for row in rows
        }
    tests = sorted({test for row in rows for test in tests_by_row[row]})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_copy(folder, mutant)
        report = folder / "report.xml"
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if not report.is_file():
            raise RuntimeError(done.stdout + done.stderr)
        passed = read_test_results(report)
    return [
        Verdict(row, sum(not passed.get(name_in_report(test), False) for test in found), len(found))
        for row in rows
        for found in [tests_by_row[row]]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only mutants with this word in their name or rows")
    parser.add_argument("--list", action="store_true", help="list the mutants and end")
    options = parser.parse_args()
    chosen = [each for each in MUTANTS if options.only.lower() in f"{each.name} {each.rows}".lower()]
    if options.list:
        print("\n".join(f"{each.name}: {each.rows}" for each in chosen))
        return 0
    rows = load_seeds()
    link_tests(rows, ROOT)
    tests_by_row = {row.id: list(row.tests) for row in rows}
    green = 0
    for mutant in chosen:
        began = time.monotonic()
        verdicts = run_rows(mutant, tests_by_row)
        green += sum(not each.failed for each in verdicts)
        shown = ", ".join(
            f"{each.row} {each.failed}/{each.total}" + ("" if each.failed else " GREEN") for each in verdicts
        )
        print(f"{mutant.name}: {shown} ({time.monotonic() - began:.0f} s)", flush=True)
    pairs = sum(len(each.rows.split()) for each in chosen)
    print(f"{len(chosen)} mutants, {pairs} rows to fail, {green} stayed green")
    return 1 if green else 0


if __name__ == "__main__":
    sys.exit(main())
