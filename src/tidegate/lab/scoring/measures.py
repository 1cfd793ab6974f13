"""The measures: how each is defined and what it does not show. Reports and docs take their texts from here."""

from typing import Final, Literal, NamedTuple

MeasureUnit = Literal["share", "tokens", "usd", "count", "seconds", "ratio"]


class Measure(NamedTuple):
    """`better` is the better direction, if any. `paired`: differences between policies are reported."""

    key: str
    name: str
    unit: MeasureUnit
    better: Literal["more", "less", ""]
    definition: str
    not_shown: str
    paired: bool = False


_IN_LONG = "at requests whose whole history is longer than the window"
MEASURES: Final = (
    Measure(
        "near_block",
        "recent text to edit",
        "share",
        "more",
        "Of the old texts of edit calls (3 lines and 80 characters or more) that occurred earlier in one piece, last"
        " within"
        f" half a window, {_IN_LONG}: the share that is in the request whole and in one piece.",
        "An agent that reads the file again before it edits loses only that reading.",
        paired=True,
    ),
    Measure(
        "far_block",
        "older text to edit",
        "share",
        "more",
        "The same for old texts last seen more than half a window before.",
        "As recent text to edit. Few sessions edit text that is so old.",
        paired=True,
    ),
    Measure(
        "reread_avoidable",
        "re-reads avoidable",
        "share",
        "more",
        "Of the files read again and the calls repeated whose earlier result is more than half a window back, if both"
        " results share 3 lines of 15 characters or more and half of the new ones: the share for which 90% of these"
        " lines are"
        " in the request, so that reading again was needless.",
        "Whether the agent would have noticed that it need not read again.",
        paired=True,
    ),
    Measure(
        "reread_lines",
        "re-read lines kept",
        "share",
        "more",
        "The mean share of these lines that is in the request.",
        "Which of the lines the agent wanted.",
        paired=True,
    ),
    Measure(
        "far_lines",
        "older lines",
        "share",
        "more",
        "Of the lines of 25 characters or more that the agent writes again, in text or arguments, and that were last"
        " seen more"
        " than half a window before: the share that is in the request.",
        "A line that the agent could write without having seen it counts as lost all the same.",
        paired=True,
    ),
    Measure(
        "refs_in_context",
        "older names",
        "share",
        "more",
        "Of the far references, which are names in call arguments (paths, ids, hashes, numbers, quoted names; first 400"
        " characters of each argument) that occurred earlier in a user message or tool result, last seen more than"
        f" half a window before, {_IN_LONG}: the share that is in the request together with 12 characters that were"
        " beside it in an earlier user message or tool result.",
        "Whether these characters are the ones that matter.",
        paired=True,
    ),
    Measure(
        "typed_rules",
        "rules the user typed",
        "share",
        "more",
        "Of the sentences with a rule (never, must, only and the like) in user messages that a person typed (up to"
        " 2,000"
        " characters, not beginning with <) more than half a window before: the share that is in the request word"
        " for word."
        " Every tenth request is asked.",
        "A rule in other words counts as lost. Whether the model follows it.",
        paired=True,
    ),
    Measure(
        "deep_rules",
        "rules in long messages",
        "share",
        "more",
        "The same for rules after the first 2,000 characters of any user message.",
        "Long messages are mostly pasted; many of these sentences are not orders of the user.",
        paired=True,
    ),
    Measure(
        "user",
        "words of the user",
        "share",
        "more",
        "Mean share of the user's earlier words that are in the request word for word (the first 2,000 characters"
        " of each user message, in pieces of 100; words that are only in results or answers do not count).",
        "Whether a faithful paraphrase is there instead, and which words matter.",
        paired=True,
    ),
    Measure(
        "newest",
        "newest user message whole",
        "share",
        "more",
        "Share of those requests that hold the newest user message whole (its first 2,000 characters).",
        "Anything about older messages.",
    ),
    Measure(
        "recoverable",
        "recoverable of what is missing",
        "share",
        "more",
        "Of the references and edit anchors that are missing, near and far: the share for which the request prints a"
        " recall call (an id or a range) and that call, made in this very session, returns the missing text.",
        "Whether a model would make the call. Ways back that are not recall calls, such as files, are not followed;"
        " peers are not measured.",
    ),
    Measure(
        "held",
        "tokens held",
        "tokens",
        "",
        "Mean tokens of the requests whose whole history is longer than the window.",
        "Whether what is held is worth holding. Compare fidelity between policies that hold about as much.",
        paired=True,
    ),
    Measure(
        "cost",
        "cost, warm cache",
        "ratio",
        "less",
        "Tokens shared with the previous request at 0.1, all others at 1.25 (Anthropic, nothing expires), summed"
        " over the"
        " session, over the same sum for the whole history in every request.",
        "Summaries, output, minimum sizes and expiry of caches. The whole history may not fit any model's window.",
        paired=True,
    ),
    Measure(
        "cost_cold",
        "cost, cold cache",
        "ratio",
        "less",
        "The same if the cache has expired whenever the user spoke: everything in the next request is written at 1.25.",
        "As cost, warm cache.",
        paired=True,
    ),
    Measure(
        "cost_automatic",
        "cost, automatic cache",
        "ratio",
        "less",
        "The same with OpenAI's way to charge: from 1,024 shared tokens on, whole steps of 128 at 0.1, all others at"
        " 1.",
        "As cost, warm cache. Older models charge 0.25 or 0.5 for cached tokens.",
        paired=True,
    ),
    Measure(
        "sent", "cost without a cache", "ratio", "less",
        "Tokens of all requests over those of the whole history in every request.",
        "What a cache makes of it.",
    ),
    Measure(
        "over", "requests over the window", "count", "less",
        "Requests larger than the window, per session.", "By how much.",
    ),
    Measure(
        "failed", "requests not made", "count", "less",
        "Calls for which the policy gave no request, per session. The text they needed counts as lost.",
        "Why; see the list of failures.",
    ),
    Measure(
        "mended",
        "requests mended",
        "count",
        "less",
        "Requests of another tool that were over the window or unpaired, per session. The lab cut them, so that all are"
        " compared at the same window. It does not do so for our own policies.",
        "What the provider's refusal would have led to.",
    ),
    Measure(
        "invalid",
        "invalid requests",
        "count",
        "less",
        "Requests that break a rule of the OpenAI chat dialect, judged on the rendered JSON, per session; for our own"
        " policies the Anthropic rendering is judged, too. A rule the recording itself breaks there does not count.",
        "Rules that providers do not document.",
    ),
    Measure(
        "broken", "pairing broken", "count", "less",
        "Requests that break the rules of pairing that all providers share, in chat form and in turns, per session.",
        "Everything else that a provider checks.",
    ),
    Measure(
        "cached",
        "served from cache",
        "share",
        "more",
        "Share of the tokens sent that are in the longest run of whole leading messages that the request before also"
        " had, without the first request of a session.",
        "What a provider really keeps: it may forget earlier, and it may find a prefix of an older request.",
        paired=True,
    ),
    Measure(
        "rewritten",
        "tokens re-written",
        "tokens",
        "less",
        "Tokens per session that were sent again outside the shared beginning, without anything new: what edits cost.",
        "Whether the edits were worth it.",
        paired=True,
    ),
    Measure(
        "edits", "edited requests in 100", "count", "",
        "Of 100 requests, how many do not begin with the whole request before.", "How much changed.",
    ),
    Measure(
        "billed",
        "billed",
        "usd",
        "less",
        "Dollars per session for input and for summaries by the prices named above: read from cache, written to it,"
        " plain; a prefix is cached from 1,024 tokens on and expires by recorded times.",
        "The answers (the same for all), retries, batch discounts, special prices.",
        paired=True,
    ),
    Measure(
        "billed_ratio",
        "billed, against unmanaged",
        "ratio",
        "less",
        "The same over what the whole history in every request would have cost.",
        "As billed. Where the whole history does not fit the model, there is nothing to compare with.",
        paired=True,
    ),
    Measure(
        "summaries",
        "summary calls",
        "count",
        "less",
        "Calls to a model that the policy asks for, per session. Here the deterministic summarizer answers them.",
        "What a model would write; its summaries may keep more or less.",
        paired=True,
    ),
    Measure(
        "pause", "longest pause", "seconds", "less",
        "The most CPU time that preparing one request took, on the machine and at the time it was measured.",
        "The wait for a summary's model; another machine.",
    ),
    Measure("largest", "largest request", "tokens", "", "The largest request of the session.", "How often."),
)  # fmt: skip
MEASURES_BY_KEY: Final = {measure.key: measure for measure in MEASURES}
FIDELITY_KEYS: Final = ("near_block", "far_block", "far_lines", "refs_in_context", "user")
_COST_KEYS: Final = ("cost", "billed_ratio")
JUDGED_KEYS: Final = (*FIDELITY_KEYS, *_COST_KEYS)
"""A verdict on a pair of policies is made of these."""
