"""Speed of LAMBADA scoring and of embedding extraction, as tokens per second relative to a bare
forward pass.

The bare pass reads the same number of tokens at the same batch size and mean length as full
rectangles, without padding: with logits for LAMBADA, to hidden states for embeddings. A ratio above
1 is faster than the bare pass.

    python benchmarks/scoring.py --threads 1
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from common import Column, Report, interleave, make_parser, ratios
from transformers import GPT2Config, GPT2LMHeadModel

from entity_transformers.corpus.alignment import align_split, learn_tokenizer
from entity_transformers.corpus.document import Document
from entity_transformers.encode import embed_words, embed_words_in_context
from entity_transformers.models.gpt2 import GPT2
from entity_transformers.tasks.lambada import Passage, score_passages
from entity_transformers.tasks.similarity import measure_similarity

VOCABULARY, WINDOW, BATCH = 8000, 256, 64
COLUMNS = {
    "speed": Column("ours", "tokens/s"),
    "bare": Column("bare pass", "tokens/s"),
    "ratio": Column("speed", "ratio", "bare pass"),
    "seconds": Column("time", "s"),
}


def write_documents(generator: np.random.Generator, count: int) -> list[Document]:
    """Documents of 600 random words of 2 to 12 letters, drawn from 3,000 by Zipf's law, in
    sentences of 5 to 40 words.
    """
    letters = np.array(list("etaoinshrdlucmfw"))
    lexicon = ["".join(generator.choice(letters, n)) for n in generator.integers(2, 13, 3000)]
    weight = 1 / np.arange(1, 3001)
    words = [
        tuple(generator.choice(lexicon, 600, p=weight / weight.sum()).tolist())
        for _ in range(count)
    ]
    starts = [
        tuple(t for t in np.cumsum([0, *generator.integers(5, 41, 140)]).tolist() if t < 600)
        for _ in range(count)
    ]
    return [
        Document(f"d{i}", 0, "train", "", w, s)
        for i, (w, s) in enumerate(zip(words, starts, strict=True))
    ]


def draw_passages(generator: np.random.Generator, count: int) -> list[Passage]:
    """Passages as long as LAMBADA's (60 to 200 tokens, 85 on average), with targets of 1 to 3
    tokens.
    """
    lengths = np.clip(generator.normal(85, 18, count), 60, 200).astype(int)
    return [
        Passage(
            generator.integers(0, VOCABULARY, n, np.int32),
            np.arange(n, dtype=np.int32),
            int(n - generator.integers(1, 4)),
        )
        for n in lengths
    ]


def compare(
    report: Report,
    rounds: int,
    what: str,
    ours: Callable[[], object],
    bare: Callable[..., object],
    tokens: int,
    sequences: int,
) -> None:
    """Tokens per second of both sides, and their ratio: ``bare`` reads about as many tokens in full
    batches of sequences of mean length.
    """
    ids = torch.randint(0, VOCABULARY, (BATCH, max(1, round(tokens / sequences))))
    passes = max(1, round(tokens / ids.numel()))

    @torch.inference_mode()
    def read() -> None:
        for _ in range(passes):
            bare(ids, use_cache=False)

    times = interleave({"ours": ours, "bare": read}, rounds)
    speed = [tokens / seconds for seconds in times["ours"].wall]
    peer = [passes * ids.numel() / seconds for seconds in times["bare"].wall]
    report.row(what, speed=speed, bare=peer, ratio=ratios(speed, peer))


def main() -> None:
    """Compare LAMBADA scoring, words alone and words in sentences with bare passes; time similarity
    on 200,000 mentions.
    """
    options = make_parser(__doc__, __file__, rounds=3).parse_args()
    report = Report(__doc__, COLUMNS, options)
    generator = np.random.default_rng(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=WINDOW,
        n_embd=256,
        n_layer=4,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2(GPT2LMHeadModel(config).eval())

    try_out = partial(compare, report, options.rounds)
    transformer = model.module.transformer

    passages = draw_passages(generator, 512)
    score = partial(score_passages, model, passages, window=WINDOW, batch=BATCH)
    read = sum(len(p.tokens) - 1 for p in passages)
    try_out("LAMBADA", score, model.module, read, len(passages))

    documents = write_documents(generator, 20)
    tokenizer = learn_tokenizer(documents, VOCABULARY, "natural")
    words = sorted({word for document in documents for word in document.words})
    read = sum(len(tokenizer.encode(" " + word).ids) for word in words)
    how = {"window": WINDOW, "pooling": "last", "batch": BATCH}
    embed = partial(embed_words, model, words, tokenizer, **how)
    try_out("words without context", embed, transformer, read, len(words))

    corpus = align_split(
        documents, tokenizer, split="train", policy="outermost", spacing="every_word"
    )
    read = len(corpus.tokens) - len(corpus)
    sentences = sum(len(document.sentence_starts) for document in documents)
    embed = partial(embed_words_in_context, model, documents, corpus, context="sentence", **how)
    try_out("words in sentences", embed, transformer, read, sentences)

    vectors = generator.standard_normal((200_000, 768), np.float32).astype(np.float16)
    entity = generator.integers(0, 40_000, 200_000)
    started = time.perf_counter()
    measure_similarity(vectors, entity, vectors[:40_000])
    seconds = time.perf_counter() - started
    report.row("similarity of 200,000 mentions of width 768", seconds=seconds)
    report.write()


if __name__ == "__main__":
    main()
