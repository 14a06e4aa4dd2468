"""Fine-tuning of a language model on a task, as in GPT-1 (Radford et al., 2018, section 3)."""
