"""Reading speed of SmolLM2, the pretrained model of two studies, compared with a plain loop over
transformers' model and with lm-evaluation-harness.

Every side scores the same tokens with the same weights, and what it finds has to be the same to
1e-3 nats (1e-5 of a long sum) before anything is timed. The loop reads a document's windows one by
one and computes the loss of their logits, as transformers' own recipe for perplexity does. The
harness scores last words of passages, and the two candidates for a pronoun, by its `hf` model, in
batches of as many; without it (pip install lm-eval) its rows are left out with a sentence. Speeds
are those of all tokens of the texts, whether one is read once or for each candidate. A long
document is read with and without a continuous cache of 4,096 entries beside the window. Last, LoRA
in the top six blocks is trained on cached states of those below, and reading through all blocks;
and LoRA as large per block in all of them.

    python benchmarks/reading.py
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from common import SPEEDS, Report, Sides, interleave, make_parser
from torch.nn import functional
from training import draw_lengths, make_corpus

from entity_transformers.corpus.alignment import AlignedCorpus
from entity_transformers.corpus.labels import give
from entity_transformers.encode.reader import read_document, read_windows
from entity_transformers.encode.states import index_states, read_states, split_blocks
from entity_transformers.harness.scoring import Pair, score_pairs
from entity_transformers.models.pretrained import PretrainedLM
from entity_transformers.models.pretrained_entities import PretrainedE, sum_window
from entity_transformers.models.weights import SMOLLM2, find_tokenizer, find_weights
from entity_transformers.tasks.cache import recall_targets
from entity_transformers.tasks.choices import encode
from entity_transformers.tasks.lambada import Passage, encode_passages, score_passages
from entity_transformers.tasks.perplexity import score_corpus

WINDOW, BATCH = 256, 8
SAME = 1e-3
WORDS = "the old man and a young girl went down to that long river where they had seen him".split()


def read_plainly(module: Any, corpus: AlignedCorpus) -> np.ndarray:
    """Nats [N] of each token given those before it in its window, by one call for each window."""
    nats = np.zeros(len(corpus.tokens), np.float32)
    for d in range(len(corpus)):
        own = corpus.document(d)
        for start in range(own.start, own.stop - 1, WINDOW):
            piece = slice(start, min(start + WINDOW, own.stop - 1) + 1)
            tokens = torch.from_numpy(corpus.tokens[piece].astype(np.int64))
            with torch.no_grad():
                logits = module(tokens[None, :-1]).logits[0].float()
            nats[piece][1:] = functional.cross_entropy(logits, tokens[1:], reduction="none")
    return nats


def compare_windows(report: Report, model: PretrainedLM, rounds: int, documents: int) -> None:
    """Documents in windows."""
    corpus = give(make_corpus(draw_lengths(documents), model.output_weight.shape[0]), "none")

    def ours() -> np.ndarray:
        return score_corpus(model, corpus, window=WINDOW, stride=WINDOW, batch=BATCH)

    def plain() -> np.ndarray:
        return read_plainly(model.module, corpus)

    if model.output_weight.dtype is torch.float32:
        np.testing.assert_allclose(ours(), plain(), rtol=0, atol=SAME)
    name = f"windows, {str(model.output_weight.dtype)[6:]}"
    sides: Sides = {f"{name}: ours": ours, f"{name}: plain loop": plain}
    times = interleave(sides, rounds, warm_up=False)
    one, other = sides
    report.speeds(times, dict.fromkeys(sides, len(corpus.tokens)), [(one, other, 1.3)])


def make_passages(count: int) -> list[dict[str, Any]]:
    """Rows like LAMBADA's, of 50 to 120 words."""
    draw = np.random.default_rng(1)
    texts = [" ".join(draw.choice(WORDS, draw.integers(50, 120))) for _ in range(count)]
    return [{"text": text, "target_start": text.rfind(" ") + 1} for text in texts]


def make_questions(count: int, at_end: bool) -> list[tuple[str, str]]:
    """As the pronoun tasks have them: each of two candidates is scored behind a text of 50 to 120
    words, or takes the place of one of its words, and what follows is scored.
    """
    draw, found = np.random.default_rng(2), list[tuple[str, str]]()
    for _ in range(count):
        words = draw.choice(WORDS, draw.integers(50, 120)).tolist()
        at = int(draw.integers(20, len(words) - 10))
        for name in ("the young girl", "that old man"):
            given = [*words, "refers to"] if at_end else [*words[:at], name]
            found.append(
                (" ".join(given), f" {name}" if at_end else " ".join(["", *words[at + 1 :]]))
            )
    return found


def ask_harness(model: Any, texts: Sequence[tuple[str, str]]) -> np.ndarray:
    """Nats [N] of what is scored after what is given."""
    requests = [SimpleNamespace(args=text) for text in texts]
    return np.array([-nats for nats, _ in model.loglikelihood(requests, disable_tqdm=True)])


def compare_harness(report: Report, model: PretrainedLM, folder: Path, rounds: int) -> None:
    """Last words of passages, and two candidates in the place of a pronoun."""
    if find_spec("lm_eval") is None:
        print("lm-evaluation-harness is left out: it is not installed (pip install lm-eval)")
        return
    from lm_eval.models.huggingface import HFLM

    theirs = HFLM(pretrained=str(folder), dtype="float32", batch_size=BATCH, device="cpu")
    rows, tokenizer = make_passages(8 * BATCH), find_tokenizer(SMOLLM2)
    passages: list[Passage] = encode_passages(rows, tokenizer)

    cuts = [(row["text"], row["target_start"] - 1) for row in rows]
    words = [(text[:cut], text[cut:]) for text, cut in cuts]
    answers, blanks = (make_questions(4 * BATCH, at_end) for at_end in (True, False))

    def score_words() -> np.ndarray:
        scores = score_passages(model, passages, window=8192, batch=BATCH)
        return scores.target_nll.to_numpy()

    def score(asked: Sequence[Pair]) -> np.ndarray:
        return np.array([-n for n, _ in score_pairs(model, asked, window=8192, batch=BATCH)])

    asked = [encode(texts, tokenizer) for texts in (answers, blanks)]
    counts = [sum(len(pair.inputs) + 1 for pair in pairs) for pairs in asked]
    for name, ours, texts, tokens in (
        ("passages", score_words, words, sum(len(passage.tokens) for passage in passages)),
        ("candidates at the end", partial(score, asked[0]), answers, counts[0]),
        ("candidates within", partial(score, asked[1]), blanks, counts[1]),
    ):
        sides: Sides = {
            f"{name}: ours": ours,
            f"{name}: lm-evaluation-harness": partial(ask_harness, theirs, texts),
        }
        first, second = (side() for side in sides.values())
        np.testing.assert_allclose(
            first, second, rtol=1e-5, atol=SAME
        )  # of up to 250 nats in one sum
        times = interleave(sides, rounds, warm_up=False)
        one, other = sides
        report.speeds(times, dict.fromkeys(sides, tokens), [(one, other, 1.5)])


def compare_cache(report: Report, model: PretrainedLM, rounds: int) -> None:
    """A document of 9,000 tokens, beside 4,096 entries for more than half of it."""
    corpus = give(make_corpus([9000], model.output_weight.shape[0]), "none")

    @torch.inference_mode()
    def read(entries: int) -> np.ndarray:
        states, nats, _ = read_document(model, corpus, window=WINDOW, stride=WINDOW)
        nats = nats[1:]
        if not entries:
            return nats
        cached = recall_targets(states[:-1], corpus.tokens[1:], (entries,), (15.0,))[0, 0]
        return -np.log(0.9 * np.exp(-nats) + 0.1 * cached)

    name = f"a long document, {str(model.output_weight.dtype)[6:]}"
    sides: Sides = {f"{name}: 4,096 entries": lambda: read(4096), f"{name}: alone": lambda: read(0)}
    times = interleave(sides, rounds, warm_up=False)
    cached, alone = sides
    report.speeds(times, dict.fromkeys(sides, len(corpus.tokens)), [(cached, alone, 0.85)])


def compare_training(report: Report, folder: Path, rounds: int) -> None:
    """One window each of four documents, forward and backward and a step of AdamW, in bfloat16."""
    model, other = (PretrainedLM.load(folder, torch.bfloat16) for _ in range(2))
    corpus = give(make_corpus([WINDOW] * 4, model.output_weight.shape[0]), "none")
    cut = model.module.config.num_hidden_layers - 6
    states = np.zeros((len(corpus.tokens), model.width), np.float16)
    for where, found in read_states(
        split_blocks(model, 0, cut, normed=False), corpus, WINDOW, WINDOW
    ):
        states[where] = found
    adapted, whole = (
        PretrainedE(one.eval().module, {"adapter": "lora", "blocks": blocks, "memory_write": "last",
                                        "numbers": blocks * 1_600_000})
        for one, blocks in ((model, 6), (other, cut + 6))
    )  # fmt: skip
    learning = [*adapted.module.parameters(), *whole.module.parameters()]
    optimizer = torch.optim.AdamW([one for one in learning if one.requires_grad], lr=0.0)
    upper, places = adapted.above(states), index_states(corpus)

    def step(reader: PretrainedE, text: AlignedCorpus) -> float:
        [reading] = read_windows(reader, text, window=WINDOW, stride=WINDOW, batch=4)
        loss, count = sum_window(reader, reading, corpus)
        (loss / count).backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach()) / count

    sides: Sides = {
        "training: cached states": lambda: step(upper, places),
        "training: read through all blocks": lambda: step(adapted, corpus),
        "training: LoRA in all blocks": lambda: step(whole, corpus),
    }
    losses = [side() for side in sides.values()]
    np.testing.assert_allclose(losses, losses[:1] * 3, rtol=SAME)
    times = interleave(sides, rounds, warm_up=False)
    cached, through, everywhere = sides
    pairs = [(cached, through, 2.5), (cached, everywhere, None)]
    report.speeds(times, dict.fromkeys(sides, 4 * WINDOW), pairs)


def main() -> None:
    """Measure and print."""
    options = make_parser(__doc__, __file__, rounds=3, documents=12).parse_args()
    folder = find_weights(SMOLLM2)
    assert folder is not None
    packages = ("torch", "transformers", *["lm-eval"] * (find_spec("lm_eval") is not None))
    report = Report(__doc__, SPEEDS, options, packages)
    for dtype in (torch.float32, torch.bfloat16):
        model = PretrainedLM.load(folder, dtype)
        model.eval()
        compare_windows(report, model, options.rounds, options.documents)
        if dtype is torch.float32:
            compare_harness(report, model, folder, options.rounds)
        compare_cache(report, model, options.rounds)
    compare_training(report, folder, 3 * options.rounds)
    report.write()


if __name__ == "__main__":
    main()
