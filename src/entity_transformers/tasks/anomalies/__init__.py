"""Anomalies of the paper: short trainings that try what could have given its printed numbers."""
