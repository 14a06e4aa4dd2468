"""Tasks that a language model is tried on without training, by the heuristics of GPT-1 (section 5)
and of Trinh and Le (2018).
"""
