"""Which attention heads point from a mention to an earlier mention of its chain (section 7's outlook, after Clark et al. 2019)."""
