"""Run as a program: trains in FOLDER, killed -9 at random moments, at least KILLS times and at
least KILLS / 20 times while a checkpoint is being written (its temporary file lies there),
then once to the end.

Each life is a fork of this process, so that fifty cost seconds. Prints how many lives were killed,
and how many while writing.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._inductor  # deterministic mode wants it; once, before the forks
from tiny import tiny_corpus, tiny_params
from tokenizers import Tokenizer, models

from entity_transformers.artifacts import write_arrays, write_record
from entity_transformers.kinds import KINDS
from entity_transformers.step import Run, execute
from entity_transformers.study import plan
from entity_transformers.study.params import STEPS, Params


def make_inputs(top: Path, params: Params) -> None:
    """Two splits and a tokenizer of 40 tokens, where the study has its corpus below ``top``."""
    folder = top / plan.folder(params.name, "corpus")
    for split, seed in (("train", 0), ("dev", 9)):
        write_arrays(folder / f"{split}.safetensors", *tiny_corpus(seed=seed, split=split).arrays())
    vocabulary = {"<|endoftext|>": 0} | {f"p{i}": i for i in range(1, 40)}
    Tokenizer(models.WordLevel(vocabulary, unk_token="p1")).save(str(folder / "tokenizer.json"))
    write_record(folder, [path.name for path in folder.iterdir()])


def make_params() -> Params:
    """A run long enough to be killed often, with a checkpoint after each step."""
    return tiny_params({"checkpoint_every": 1}, steps=600, validate_every=24, final_weights="best")


def train(top: Path, params: Params) -> None:
    with contextlib.chdir(top):
        execute(Run(params, STEPS["lm"], "gpt2e", 1))


def live(folder: Path, seconds: float | None) -> bool:
    """One life of at most ``seconds``; True if it ended by itself."""
    child = os.fork()
    if child == 0:
        train(folder, make_params())
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.WIFEXITED(os.waitpid(child, 0)[1])


def import_models() -> None:
    """Import what builds a model here, not in every fork anew."""
    for kind in KINDS.values():
        kind.module()


def count_steps(folder: Path) -> int:
    """The step of the newest checkpoint."""
    found = folder.glob("work/lm/*/checkpoints/step-*")
    return max((int(path.name.split("-")[1]) for path in found), default=0)


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    import_models()
    make_inputs(folder, make_params())
    generator, killed, writing, longest = random.Random(1), 0, 0, 0.12
    while killed < kills or writing < kills // 20:
        before = count_steps(folder)
        if live(folder, generator.uniform(0.02, longest)):
            raise SystemExit(f"ended by itself after {killed} kills: too short for this test")
        killed += 1
        writing += any(folder.glob("work/lm/*/checkpoints/.*"))
        # a life gets somewhere, also where other programs want the processor
        longest *= 1.1 if count_steps(folder) == before else 0.95
    assert live(folder, None)
    print(json.dumps({"killed": killed, "while_writing": writing}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
