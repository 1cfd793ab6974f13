"""The tools of an agent: their arguments, their approval, and the paths they may use."""
