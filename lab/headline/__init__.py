"""Headline numbers of benches, each from its report: see `lab/headlines.py`."""
