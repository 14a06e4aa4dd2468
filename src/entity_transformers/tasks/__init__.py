"""Perplexity (tables 2 and 3): reading documents window by window, scoring a corpus split and
scoring LAMBADA.
"""
