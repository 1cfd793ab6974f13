"""What the commands share: how they end, and what may be chosen."""

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
COUNTS = ("exact", "chars/4", "estimate")
WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini")
