"""The stages, by name: what a policy may ask for. Each family has its file."""

from tidegate.core.policy.policy import Stage
from tidegate.core.stages.admission import cap_result, spill_result
from tidegate.core.stages.guard import shrink_to
from tidegate.core.stages.notices import hint
from tidegate.core.stages.results import archive_results, cap_results, cap_texts, clear_results, digest_results
from tidegate.core.stages.summary import summarise
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
    stage.__name__: stage
    for stage in (
        cap_result,
        spill_result,
        cap_results,
        clear_results,
        cap_texts,
        archive_results,
        digest_results,
        summarise,
        drop_turns,
        text_only_turns,
        keep_recent,
        drop_oldest,
        clear_context,
        flush_memory,
        shrink_to,
        sweep,
        hint,
    )
}
