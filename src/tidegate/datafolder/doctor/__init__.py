"""Find damage in a data folder and mend it."""
