"""The conversation as widgets: messages, tool calls and diffs."""
