"""Weights from the hub: the real library against a local server, and what goes wrong there."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path

import pytest
import torch
from tiny import tiny_entry, tiny_model

from entity_transformers.corpus.sources import DownloadError
from entity_transformers.models.base import build_model
from entity_transformers.models.folders import list_weights
from entity_transformers.models.weights import find_weights

COMMIT = "c" * 40


def test_offline_it_is_one_line_that_says_what_to_do() -> None:
    with pytest.raises(DownloadError, match=r"^initial_weights hub:no/such: .*or name a folder$"):
        find_weights(f"hub:no/such@{COMMIT}")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    """The address of a hub that has one model, a GPT-2 in safetensors, and a file too many."""
    folder = tmp_path / "served"
    folder.mkdir()
    tiny_model("gpt2").save(folder)
    digests = {path.name: sha1(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    digests["pytorch_model.bin"] = "0" * 40  # which is not served: nobody should ask for it
    siblings = [{"rfilename": name} for name in digests]
    info = {"_id": "1", "id": "some/gpt2", "sha": COMMIT, "siblings": siblings, "tags": []}
    tree = [{"type": "file", "path": name, "size": 9, "oid": oid} for name, oid in digests.items()]
    (tmp_path / "info").write_text(json.dumps(info))
    (tmp_path / "tree").write_text(json.dumps(tree))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            self.name = path.split("?")[0].rpartition("/")[2]
            about = tmp_path / ("tree" if "/tree/" in path else "info")
            return str(about if "/api/" in path else folder / self.name)

        def end_headers(self) -> None:
            self.send_header("ETag", f'"{digests.get(self.name)}"')
            self.send_header("X-Repo-Commit", COMMIT)
            super().end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def test_a_model_is_fetched_and_started_from(hub: str, tmp_path: Path) -> None:
    """By a process that is not offline: its weights are those that are served, bit for bit."""
    script = "from entity_transformers.models.weights import find_weights\n"
    script += 'print(find_weights("hub:some/gpt2"))'
    env = os.environ | {
        "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    python = [sys.executable, "-c", script]
    done = subprocess.run(python, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert f"hub:some/gpt2@{COMMIT} pins these weights" in done.stderr
    folder = Path(done.stdout.strip())
    assert folder.name == COMMIT
    assert [path.name for path in list_weights(folder)] == ["config.json", "model.safetensors"]
    served = tiny_model("gpt2").module.transformer.wte.weight
    for kind in ("gpt2", "gpt2e"):
        model = build_model(tiny_entry(kind, initial_weights=str(folder)), 40, 0, seed=7)
        assert torch.equal(model.module.transformer.wte.weight, served)
