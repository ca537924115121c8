"""Headline numbers of benches, each from its report: see `bench/headlines.py`."""
