"""Which attention heads point from a mention to an earlier mention of its chain (section 6's
outlook, after Clark et al. 2019).
"""
