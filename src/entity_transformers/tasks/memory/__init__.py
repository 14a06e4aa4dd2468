"""Memories beside a language model that is left as it is: which earlier tokens they keep, and what
a pointer that may copy them is worth.
"""
