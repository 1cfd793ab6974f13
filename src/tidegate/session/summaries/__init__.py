"""Summaries: how they are requested, checked and used."""
