"""The pure engine: values, the fold from log to view, stages and the plan. No I/O, no clock, no randomness."""
