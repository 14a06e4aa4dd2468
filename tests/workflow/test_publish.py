"""workflow/publish.py: results are recorded without running anything, and a clone that has pulled
them runs nothing again. The study's files are stand-ins: what is tested reads none of them.
"""

from __future__ import annotations

import configparser
import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from http_remote import serve
from tiny_study import (
    ROOT,
    TINY,
    copy_checkout,
    expand_stages,
    follow,
    planned,
    python_path,
    run,
    snakemake,
    stages_of_jobs,
    stale,
)

from entity_transformers.artifacts import DIGESTS
from entity_transformers.cli.study import write_study
from entity_transformers.study.params import load
from entity_transformers.study.plan import Plan
from entity_transformers.study.resolve import resolve_study

slow = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("forked_commands"),
]
STEPS = "study: {steps: [corpus, lm, embeddings, ner, report]}\n"
NAME = "studies/tiny"
WORDS = "results/embeddings/gpt2e/1/words.safetensors"
SECRET = "me:word"


def load_script(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("publish", root / "workflow/publish.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["publish"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script(ROOT)


def publish(root: Path, *arguments: str, check: bool = True, **environment: str) -> str:
    """The script of a checkout, run there."""
    paths = python_path(root / "src")
    command = [sys.executable, "workflow/publish.py", *arguments]
    return run(*command, folder=root, check=check, PYTHONPATH=paths, **environment)


def commit(root: Path) -> None:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    run("git", "add", "--all", folder=root)
    run("git", *who, "commit", "--quiet", "--allow-empty", "--message", "more", folder=root)


def write_stand_ins(home: Path, script: ModuleType) -> None:
    """Every file that the study's steps write, with its name as contents."""
    for stage in script.list_stages(Plan(load(home / "params.yaml"), home)):
        for name in (*stage.files, str(Path(stage.target).with_name(DIGESTS))):
            path = home / name if "." in Path(name).name else home / name / "part.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name}\n" * (100 if name == WORDS else 1))


@pytest.fixture(scope="module")
def finished(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a study that Snakemake takes as finished, recorded and committed."""
    root = copy_checkout(tmp_path_factory.mktemp("checkout"))
    for name in (".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, root)
    home = root / NAME
    home.mkdir(parents=True)
    (home / "study.yaml").write_text(TINY.format(sample=ROOT / "studies/sample/study.yaml") + STEPS)
    values = yaml.safe_load(resolve_study(home)) | {"root": "../.."}
    (home / "study.yaml").unlink()
    (home / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    write_study(home)
    run("git", "init", "--quiet", folder=root)
    run("dvc", "init", "--quiet", folder=root)
    write_stand_ins(home, script)
    snakemake(home, "--touch", "--quiet", "rules", root=root)
    publish(root, "lock", NAME)
    commit(root)
    return root


def large(root: Path) -> dict[str, bytes]:
    """What git does not hold of the study's results."""
    listed = run("git", "ls-files", "--others", "results", folder=root / NAME).splitlines()
    return {name: (root / NAME / name).read_bytes() for name in sorted(listed)}


@pytest.mark.parametrize(
    "study", [ROOT, *sorted(p.parent for p in ROOT.glob("studies/*/study.yaml"))], ids=str
)
def test_the_stages_are_those_of_dvc_yaml(script: ModuleType, study: Path) -> None:
    params = load(study / "params.yaml")
    stages = expand_stages(params)
    for stage in script.list_stages(Plan(params, study)):
        outs = stages[stage.name]["outs"]
        kept = {out: False for out in outs if isinstance(out, str)}
        kept |= {next(iter(out)): True for out in outs if not isinstance(out, str)}
        assert {name for name, in_git in kept.items() if not in_git} == set(stage.large)
        assert set(stage.files) <= set(kept)


def test_the_study_that_another_starts_from_comes_first(script: ModuleType) -> None:
    """With the stages that made what is taken, once."""
    first, own = script.find_parts(ROOT / "studies/ontogum")
    assert first.home == ROOT / "studies/books"
    assert {stage.name.partition("@")[0] for stage in first.stages} == {"corpus", "lm"}
    written = {f"studies/books/{file}" for stage in first.stages for file in stage.files}
    plan = Plan(load(own.home / "params.yaml"), own.home)
    assert {file for origin in plan.origins.values() for file in origin.files} <= written
    assert len(own.stages) == len(list(script.list_stages(plan)))


@pytest.mark.parametrize(("text", "size"), [("7", 7), ("3K", 3072), ("2G", 2**31)])
def test_a_size_is_read_as_it_is_written(script: ModuleType, text: str, size: int) -> None:
    assert script.read_size(text) == size
    assert script.write_size(size) == {"7": "7 bytes", "3K": "3.0 KiB", "2G": "2.0 GiB"}[text]


def test_a_size_that_is_none_is_an_error(script: ModuleType) -> None:
    with pytest.raises(script.PublishError, match="--limit 2 GB: expected a size as 500M or 2G"):
        script.read_size("2 GB")


def test_a_lock_is_cut_into_its_stages_and_put_together_again(script: ModuleType) -> None:
    text = (ROOT / "studies/controls/dvc.lock").read_text("utf-8")
    head, stages = script.cut_lock(text)
    assert head + "".join(stages.values()) == text
    assert stages.keys() == yaml.safe_load(text)["stages"].keys()
    assert script.cut_lock("")[1] == {}
    with pytest.raises(script.PublishError, match=r"dvc\.lock is not as DVC writes it"):
        script.cut_lock(text.replace("    cmd:", "   cmd:", 1))


def test_a_commit_that_fails_leaves_the_lock_as_it_was(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "dvc.lock"
    written = "schema: '2.0'\nstages:\n  a:\n    cmd: old\n  kept:\n    cmd: kept\n"
    lock.write_text(written)
    given: list[tuple[str, ...]] = []

    def call(_: object, *words: str) -> str:
        """As DVC: of the stages that it is given, and those that dvc.lock has."""
        names = words[words.index("--quiet") + 1 :]
        given.append(names)
        if "bad" in names:
            raise script.PublishError("dvc commit failed")
        assert not lock.exists()
        stages = "".join(f"  {name}:\n    cmd: new\n" for name in names)
        lock.write_text(f"schema: '2.0'\nstages:\n{stages}")
        return ""

    monkeypatch.setattr(script, "call", call)
    monkeypatch.setattr(script, "AT_ONCE", 2)
    part = script.Part(tmp_path, ())
    with pytest.raises(script.PublishError):
        script.commit(part, ["a", "b", "bad"])
    assert lock.read_text() == written
    script.commit(part, ["a", "b", "c"])
    assert given[-2:] == [("a", "b"), ("c",)]
    commands = {
        name: one["cmd"] for name, one in yaml.safe_load(lock.read_text())["stages"].items()
    }
    assert commands == {"a": "new", "kept": "kept", "b": "new", "c": "new"}


def test_readme_says_whether_tensors_are_published() -> None:
    """In agreement with .dvc/config, where the maintainer names the public remote."""
    config = configparser.ConfigParser()
    config.read_string(re.sub(r"(?m)^\s+", "", (ROOT / ".dvc/config").read_text()))
    named = config.has_option("core", "remote")
    said = " ".join((ROOT / "README.md").read_text().split())
    assert ("No public remote is named yet" in said) == (not named)


class TestRemotes:
    pytestmark = slow

    def test_what_snakemake_made_is_recorded(self, finished: Path) -> None:
        """Every stage, the same again; no file is touched, since Snakemake goes by times; git holds
        no large file.
        """
        files = [path for path in (finished / NAME / "results").rglob("*") if path.is_file()]
        before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
        shutil.rmtree(finished / ".dvc/cache")
        (finished / NAME / "dvc.lock").unlink()
        told = publish(finished, "lock", NAME)
        lock = yaml.safe_load((finished / NAME / "dvc.lock").read_text())
        assert set(lock["stages"]) == set(expand_stages(load(finished / NAME / "params.yaml")))
        assert f"{len(lock['stages'])} stages of {len(lock['stages'])} recorded" in told
        assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files} == before
        assert run("git", "status", "--short", folder=finished) == ""
        assert WORDS in large(finished)

    def test_what_is_not_as_its_values_say_is_not_recorded(self, finished: Path) -> None:
        params = finished / NAME / "params.yaml"
        before = params.read_text(), (finished / NAME / "dvc.lock").read_text()
        values = yaml.safe_load(before[0])
        values["ner"]["hidden"] = 9
        params.write_text(yaml.safe_dump(values, sort_keys=False))
        try:
            told = publish(finished, "lock", NAME, check=False)
        finally:
            params.write_text(before[0])
        assert "build_report, collect_measures, score_ner, train_ner would run again" in told
        assert (finished / NAME / "dvc.lock").read_text() == before[1]

    def test_without_a_remote_a_line_says_what_needs_none(self, finished: Path) -> None:
        for what in ("push", "pull"):
            told = publish(finished, what, NAME, check=False)
            assert told.startswith("publish.py: no remote is named in .dvc/config, so tensors")
            assert "make report" in told
            assert len(told.splitlines()) == 1

    @pytest.fixture
    def clone(self, finished: Path, tmp_path: Path) -> Iterator[Path]:
        """Another clone; afterwards the first has no remote again."""
        config = (finished / ".dvc/config").read_text()
        yield tmp_path / "clone"
        (finished / ".dvc/config").write_text(config)
        (finished / ".dvc/config.local").unlink(missing_ok=True)

    def name_remote(self, root: Path, url: str, clone: Path, **local: str) -> None:
        """As the maintainer does: the address in git, how it is written to beside it."""
        run("dvc", "remote", "add", "--default", "public", url, folder=root)
        for option, value in local.items():
            run("dvc", "remote", "modify", "--local", "public", option, value, folder=root)
        commit(root)
        run("git", "clone", "--quiet", str(root), str(clone), folder=root.parent)
        for option, value in local.items():
            run("dvc", "remote", "modify", "--local", "public", option, value, folder=clone)

    def test_a_pulled_clone_runs_nothing_again(
        self, finished: Path, clone: Path, tmp_path: Path
    ) -> None:
        """Under both tools; a changed value of NER runs NER and the report. What was too large for
        the remote is listed with its command, and needed by nothing.
        """
        self.name_remote(finished, str(tmp_path / "remote"), clone)
        told = publish(finished, "push", NAME, "--limit", "1K")
        line = f"larger than 1K, so not pushed: {NAME}/{WORDS} ("
        command = f": snakemake --directory {NAME} --cores 2 -- {WORDS}"
        assert [x for x in told.splitlines() if x.startswith(line) and x.endswith(command)]
        told = publish(clone, "pull", NAME)
        assert f"not on the remote: {NAME}/{WORDS} (" in told
        assert told.count("not on the remote") == 1
        expected = large(finished)
        del expected[WORDS]
        assert {k: v for k, v in large(clone).items() if k in expected} == expected
        home = clone / NAME
        assert planned(home, clone) == set()
        repro = run("dvc", "repro", "--dry", "--allow-missing", "dvc.yaml", folder=home)
        assert "Running stage" not in repro
        values = yaml.safe_load((home / "params.yaml").read_text())
        values["ner"]["hidden"] = 9
        (home / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        stages = expand_stages(load(home / "params.yaml"))
        direct = {name for name in stages if name.startswith("ner@")}
        assert stale(home) == direct
        # the file that is missing is made again, since NER reads it
        made = {"embeddings@gpt2e-1"}
        assert stages_of_jobs(planned(home, clone)) == follow(stages, direct) | made
        assert "not what dvc.lock records" in publish(clone, "pull", NAME, check=False)

    def test_a_report_of_an_earlier_version_is_made_again(
        self, finished: Path, clone: Path, tmp_path: Path
    ) -> None:
        """Its code changes more often than a study is run; the rest is marked all the same."""
        self.name_remote(finished, str(tmp_path / "remote"), clone)
        publish(finished, "push", NAME)
        code = json.loads((clone / "code.json").read_text())
        (clone / "code.json").write_text(json.dumps(code | {"report": "0" * 16}))
        told = publish(clone, "pull", NAME)
        assert f"{NAME}: the report will be made again (report: " in told
        assert stages_of_jobs(planned(clone / NAME, clone)) == {"report"}

    def test_http(
        self, finished: Path, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever writes has a password, in a file that the environment names."""
        (tmp_path / "remote").mkdir()
        user, password = SECRET.split(":")
        with serve(tmp_path / "remote", SECRET) as url:
            self.name_remote(finished, url, clone, method="PUT")
            told = publish(finished, "push", NAME, check=False, NETRC="/dev/null")
            assert "failed" in told
            netrc = tmp_path / "netrc"
            netrc.write_text(f"machine 127.0.0.1 login {user} password {password}\n")
            netrc.chmod(0o600)
            publish(finished, "push", NAME, NETRC=str(netrc))
            publish(clone, "pull", NAME, NETRC="/dev/null")
        assert large(clone).items() >= large(finished).items()

    def test_s3(self, finished: Path, clone: Path) -> None:
        """The keys come from the environment."""
        pytest.importorskip("dvc_s3")
        server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
        keys = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "word"}
        keys |= {"AWS_DEFAULT_REGION": "us-east-1"}
        server.start()
        try:
            url = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
            bucket = "import boto3, sys; boto3.client('s3', endpoint_url=sys.argv[1])"
            bucket += ".create_bucket(Bucket='published')"
            run(sys.executable, "-c", bucket, url, folder=finished, **keys)
            self.name_remote(finished, "s3://published/tensors", clone, endpointurl=url)
            publish(finished, "push", NAME, **keys)
            publish(clone, "pull", NAME, **keys)
        finally:
            server.stop()
        assert large(clone).items() >= large(finished).items()


def test_a_study_that_is_none_is_an_error(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["lock", str(tmp_path)]) == 1
    assert "no study, which is a folder with a params.yaml" in capsys.readouterr().err


def test_a_study_whose_params_are_older_than_its_study_yaml_is_not_recorded(
    script: ModuleType, tmp_path: Path
) -> None:
    sample = ROOT / "studies/sample"
    shutil.copy(sample / "params.yaml", tmp_path)
    (tmp_path / "study.yaml").write_text(f"base: {sample / 'study.yaml'}\nlm: {{layers: 1}}\n")
    with pytest.raises(script.PublishError, match=r"params\.yaml is not what study\.yaml comes to"):
        script.lock(script.Part(tmp_path, ()))
