"""Commands for a stored session and for that of a chat, each declared once."""
