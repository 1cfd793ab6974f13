"""Where the user writes: the input, its completions and mentions."""
