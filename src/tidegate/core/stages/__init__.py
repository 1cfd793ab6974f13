"""The stages, by the names that policies use."""

from tidegate.core.policy.policy import Stage
from tidegate.core.stages.admission import cap_result, spill_result
from tidegate.core.stages.guard import shrink_to
from tidegate.core.stages.note_sweep import note_sweep
from tidegate.core.stages.notices import hint
from tidegate.core.stages.results import archive_results, cap_results, cap_texts, clear_results, digest_results
from tidegate.core.stages.summary import summarize
from tidegate.core.stages.sweep import sweep
from tidegate.core.stages.turns import (
    clear_context,
    drop_oldest,
    drop_turns,
    flush_memory,
    keep_recent,
    text_only_turns,
)

STAGES: dict[str, Stage] = {
    "cap_result": cap_result,
    "spill_result": spill_result,
    "cap_results": cap_results,
    "clear_results": clear_results,
    "cap_texts": cap_texts,
    "archive_results": archive_results,
    "digest_results": digest_results,
    "summarize": summarize,
    "drop_turns": drop_turns,
    "text_only_turns": text_only_turns,
    "keep_recent": keep_recent,
    "drop_oldest": drop_oldest,
    "clear_context": clear_context,
    "flush_memory": flush_memory,
    "shrink_to": shrink_to,
    "note_sweep": note_sweep,
    "sweep": sweep,
    "hint": hint,
}
