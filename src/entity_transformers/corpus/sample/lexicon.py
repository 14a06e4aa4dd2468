"""Penn Treebank tags of the words that the templates of the sample corpus use."""

from __future__ import annotations

from entity_transformers.corpus.sample import names

PENN_TAGS = frozenset(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB "
    "$ # `` '' -LRB- -RRB- , . :".split()
)
