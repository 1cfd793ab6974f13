"""What the commands share: how they end, and what may be chosen."""

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
COUNTER_CHOICES = ("exact", "chars/4", "estimate")
DIALECT_CHOICES = ("openai_chat", "openai_responses", "anthropic", "gemini")

COMMAND_FUNCTIONS = {
    "replay": ("cli.replay", "replay_command"),
    "demo": ("cli.demo.chat_demo", "demo_command"),
    "policies": ("cli.policies", "policies_command"),
    "seeds": ("proof.seeds", "seeds_command"),
    "sessions": ("cli.sessions", "sessions_command"),
    "show": ("cli.sessions", "show_command"),
    "trace": ("cli.sessions", "trace_command"),
    "recall": ("cli.recall", "recall_command"),
    "memory": ("cli.recall", "memory_command"),
    "undo": ("cli.forget", "undo_command"),
    "redo": ("cli.forget", "redo_command"),
    "clear": ("cli.forget", "clear_command"),
    "fork": ("cli.forget", "fork_command"),
    "forget": ("cli.forget", "forget_command"),
    "export": ("cli.doctor", "export_command"),
    "import": ("cli.import_", "import_command"),
    "doctor": ("cli.doctor", "doctor_command"),
    "run": ("cli.run", "run_command"),
    "config": ("cli.config", "config_command"),
    "fetch": ("cli.fetch", "fetch_command"),
    "chat": ("cli.chat", "chat_command"),
    "view": ("cli.view", "view_command"),
    "lab": ("cli.lab", "lab_command"),
    "tune": ("cli.tune", "tune_command"),
}
"""Which function of which file is a command: it is loaded when it is called."""

AGENT_COMMANDS = frozenset({"run", "chat", "demo"})
"""The commands that run an agent, and so the commands that a model asks for."""
