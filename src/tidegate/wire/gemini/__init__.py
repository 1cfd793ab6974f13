"""The Gemini dialect."""
