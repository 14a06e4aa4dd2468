"""Entity decisions beside an unchanged language model: EntityNLM and SetLM."""
