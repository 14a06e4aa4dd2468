"""Entity decisions beside an unchanged language model: by EntityNLM (Ji et al., 2017), is the next
token in a mention, of which entity, for how long, and which token is it? And by SetLM (Kunz and
Hardmeier, 2019), which decides token by token.
"""
