"""Every number that the paper prints, by table or section; none is this project's."""

from __future__ import annotations

from typing import NamedTuple


class Score(NamedTuple):
    """One row of table 5: fractions between 0 and 1."""

    f1: float
    precision: float
    recall: float


class LanguageModel(NamedTuple):
    """Half a row of table 2: perplexity and loss (nats) per token, seconds per step."""

    perplexity: float
    loss: float
    seconds: float


TRAINING_STEPS = 100_000  # section 4.1, "10e5"
PARAMETERS = 117_000_000  # section 4.1, GPT2-small

WORDS = {"train": 1_300_000, "test": 170_000}  # section 4.2: "over 1.3 million" and "170 thousand"
CHAINS = {"train": 35_143, "test": 4_532}  # section 4.2: "entity mentions"; CoNLL-2012's chains
NOUN_PRONOUN_SHARE = {"train": 0.90, "test": 0.90}  # section 4.2, proper nouns among the nouns
LAMBADA_NOUN_SHARE = 0.85  # section 4.2, "for the total target words", common and proper nouns

TABLE2 = {
    ("gpt2e", "train"): LanguageModel(5.52, 1.71, 0.290),
    ("gpt2", "train"): LanguageModel(4.80, 1.57, 0.298),
    ("gpt2e", "dev"): LanguageModel(1.20, 0.187, 0.290),
    ("gpt2", "dev"): LanguageModel(1.19, 0.184, 0.298),
}

TABLE3 = {"gpt2e": 196.81, "gpt2": 219.97}

# table 4: (group, measure) -> (GPT2E without entities, GPT2E with entities, GPT2)
TABLE4 = {
    ("nouns", "mention_similarity"): (0.7117, 0.7117, 0.6971),
    ("nouns", "entity_similarity"): (0.0489, 0.0513, -0.0164),
    ("pronouns", "mention_similarity"): (0.8250, 0.8250, 0.7928),
    ("pronouns", "entity_similarity"): (0.0619, 0.0566, -0.0173),
}
TABLE4_TAGS = {"nouns": ("NN", "NNS", "NNP", "NNPS"), "pronouns": ("PRP", "PRP$")}

OVERALL = "Overall"
TABLE5 = {
    ("gpt2", "PERSON"): Score(0.480, 0.955, 0.325),
    ("gpt2e", "PERSON"): Score(0.515, 0.940, 0.355),
    ("gpt2", "PRODUCT"): Score(0.080, 0.330, 0.045),
    ("gpt2e", "PRODUCT"): Score(0.235, 0.900, 0.135),
    ("gpt2", "EVENT"): Score(0.230, 0.835, 0.135),
    ("gpt2e", "EVENT"): Score(0.150, 0.750, 0.085),
    ("gpt2", "CARDINAL"): Score(0.280, 0.815, 0.175),
    ("gpt2e", "CARDINAL"): Score(0.340, 0.750, 0.230),
    ("gpt2", "NORP"): Score(0.445, 0.725, 0.360),
    ("gpt2e", "NORP"): Score(0.480, 0.790, 0.395),
    ("gpt2", OVERALL): Score(0.540, 0.870, 0.390),
    ("gpt2e", OVERALL): Score(0.570, 0.880, 0.420),
}
TABLE5_LABELS = ("PERSON", "PRODUCT", "EVENT", "CARDINAL", "NORP")
