"""This package's models in lm-evaluation-harness, with the memory of entities and without."""
