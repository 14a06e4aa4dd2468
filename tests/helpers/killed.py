"""Run as a program: trains in FOLDER/untouched, and in FOLDER/killed, where it is killed -9 at
random moments, at least KILLS times and at least KILLS / 20 times while a checkpoint is being
written (its temporary file lies there), then once to the end.

Each life is a fork of this process, so that fifty cost seconds. Prints how many lives were killed,
and how many while writing.
"""

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

STEPS_OF_A_RUN = 160
ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT


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
    lm = {"steps": STEPS_OF_A_RUN, "validate_every": 16, "final_weights": "best"}
    return tiny_params({"checkpoint_every": 1}, **lm)


def live(folder: Path, steps: int | None, seconds: float = 0.0) -> bool:
    """One life, killed ``seconds`` after it has got on by ``steps``; True if it ended by itself."""
    begun = count_steps(folder)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        execute(Run(make_params(), STEPS["lm"], "gpt2e", 1))
        os._exit(0)
    if steps is not None:
        while count_steps(folder) < begun + steps and not os.waitid(os.P_PID, child, ENDED):
            time.sleep(0.002)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.WIFEXITED(os.waitpid(child, 0)[1])


def count_steps(folder: Path) -> int:
    """The step of the newest checkpoint."""
    found = folder.glob("work/lm/*/checkpoints/step-*")
    return max((int(path.name.split("-")[1]) for path in found), default=0)


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    KINDS["gpt2e"].module()  # import it and digest its code here, not in every fork anew
    plan.Plan(make_params()).digest(STEPS["lm"], "gpt2e")
    for name in ("untouched", "killed"):
        make_inputs(folder / name, make_params())
    start = time.monotonic()
    assert live(folder / "untouched", None)
    step = (time.monotonic() - start) / STEPS_OF_A_RUN
    folder = folder / "killed"
    generator, killed, writing = random.Random(1), 0, 0
    while killed < kills or writing < kills // 20:
        if live(folder, generator.randint(0, 3), generator.uniform(0, 2 * step)):
            raise SystemExit(f"ended by itself after {killed} kills: too short for this test")
        killed += 1
        writing += any(folder.glob("work/lm/*/checkpoints/.*"))
    assert live(folder, None)
    print(json.dumps({"killed": killed, "while_writing": writing}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
