"""The programs that tests of one family speak of; tests of all programs are in ``test_catalogue.py``."""

ATTENTION = ("attention", "causal_attention")
"""Q, K, V, mask, bias, O and L: what every test of the attention contract takes for granted."""
