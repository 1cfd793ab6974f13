"""What the commands share: how they end, and what may be chosen."""

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
COUNTER_CHOICES = ("exact", "chars/4", "estimate")
DIALECT_CHOICES = ("openai_chat", "openai_responses", "anthropic", "gemini")

COMMAND_FUNCTIONS = {
    "replay": ("replay", "replay_command"),
    "demo": ("demo", "demo_command"),
    "policies": ("policies", "policies_command"),
    "seeds": ("seeds", "seeds_command"),
    "sessions": ("sessions", "sessions_command"),
    "show": ("sessions", "show_command"),
    "trace": ("sessions", "trace_command"),
    "recall": ("recalling", "recall_command"),
    "memory": ("recalling", "memory_command"),
    "undo": ("changing", "undo_command"),
    "redo": ("changing", "redo_command"),
    "clear": ("changing", "clear_command"),
    "fork": ("changing", "fork_command"),
    "forget": ("changing", "forget_command"),
    "export": ("moving", "export_command"),
    "import": ("importing", "import_command"),
    "doctor": ("moving", "doctor_command"),
    "run": ("answering", "run_command"),
    "config": ("configuring", "config_command"),
    "fetch": ("fetching", "fetch_command"),
    "chat": ("chatting", "chat_command"),
    "view": ("viewing", "view_command"),
    "lab": ("comparing", "lab_command"),
    "tune": ("tuning", "tune_command"),
}
"""Which function of which file is a command: it is loaded when it is called."""

AGENT_COMMANDS = frozenset({"run", "chat", "demo"})
"""The commands that run an agent, and so the commands that a model asks for."""
