"""The embedded sample corpus: generated stories with gold annotations in CoNLL-2012's form, and
LAMBADA-like passages.

Short connected stories about recurring people, places, firms and things, drawn anew for each
document from long lists of names. Facts about a person (town, trade, pet, tastes) are told once and
come back later, so knowing who is mentioned helps to predict the next words. Everything is a pure
function of a size and a seed.

names, rules  proper names and small change          frames, episodes  templates of sentences
lexicon       tags of the templates' words            stories           which templates make a story
grammar       the template language and its writer    conll, corpus     rows, documents and splits
world         the people and things of one story      passages          LAMBADA-like passages
"""

from entity_transformers.corpus.sample.corpus import generate_corpus
from entity_transformers.corpus.sample.passages import generate_passages

__all__ = ["generate_corpus", "generate_passages"]
