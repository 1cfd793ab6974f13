"""Summaries: how they are asked for, checked and used."""
