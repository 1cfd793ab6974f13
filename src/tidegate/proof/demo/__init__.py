"""The demonstrations of `tidegate demo`: a chat or a generated session in a small window, each with its proof."""
