"""The OpenAI chat dialect and those of its family."""
