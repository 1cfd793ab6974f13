"""The wire dialects: parse requests, render them, and validate them independently of the renderer."""
