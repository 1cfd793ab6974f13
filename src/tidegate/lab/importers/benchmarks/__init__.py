"""Readers for the recordings of agent benchmarks."""
