"""What a step is. Rules, DVC stages, code digests and the report's inputs all come from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from entity_transformers.corpus.document import SPLITS
from entity_transformers.kinds import CAPABILITIES, Library

DOCUMENTS = tuple(f"{split}.jsonl" for split in SPLITS)  # one that the corpus lacks is empty
TOKENS = tuple(f"{split}.safetensors" for split in SPLITS)
MODEL = ("config.json", "model.safetensors")


@dataclass(frozen=True)
class Shown:
    """What the report shows of a step. Functions are named, not imported (``module:name``, below
    the package), so that reading a study costs no matplotlib.

    title    heading of that section
    measure  from the step's files to rows of measures.csv; "" where the page shows none
    tables   builder of each table by the name of its file, in the order of the page
    figures  the same for figures, each with its caption
    own      its models are entries of the step's own section, not of section models
    """

    title: str
    measure: str = ""
    tables: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    own: bool = False


@dataclass(frozen=True, eq=False)
class Step:
    """One step of the method: its name is that of its section in params.yaml and of its folder.

    name    results/NAME/, for a step that runs per model and seed results/NAME/MODEL/SEED/
    params  the keys of params.yaml that it reads, whole sections or SECTION.KEY
    start   the modules where its code starts; what they import counts as well
    rules   Snakemake's rules for it, in the order of their work, which are commands of its module
            of cli: what each does, with the section of the paper in brackets
    reads   the files that it reads, by the step that writes them
    needs   what a model must be able to do (`kinds.CAPABILITIES`); None: once per study
    large   files that DVC keeps in its cache and git does not
    metrics, kept    files that git keeps: JSON of numbers; tables and curves
    folder  all of results/NAME is one output, kept by git: its files depend on the values
    target  the file that its last rule writes
    data    patterns of files of the package, other than modules, that it reads
    libraries  what its commands import beyond the requirements
    gpu     its runs want the GPU, where there is one, and the study's threads
    builds  it builds the models: its values are those of their entries
    trains  what the entries of its own section (NAME.models) must be able to do; None: it has none
    resumes its command is given work/NAME, for what a stopped run leaves: outputs are deleted by
            Snakemake and DVC before a step runs
    summary it reads the numbers of all steps that the study has
    shown   what the report shows of it; None: nothing
    """

    name: str
    params: tuple[str, ...]
    start: tuple[str, ...]
    rules: Mapping[str, str]
    target: str
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: frozenset[str] | None = None
    large: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    folder: bool = False
    data: tuple[str, ...] = ()
    libraries: tuple[Library, ...] = ()
    gpu: bool = True
    builds: bool = False
    trains: frozenset[str] | None = None
    resumes: bool = False
    summary: bool = False
    shown: Shown | None = None

    def __post_init__(self) -> None:
        if unknown := {*(self.needs or ()), *(self.trains or ())} - CAPABILITIES.keys():
            raise ValueError(f"step {self.name}: unknown capabilities {sorted(unknown)}")

    @property
    def missing(self) -> str:
        """What to install before it can run, in a line; "" if nothing is missing."""
        lines = (one.explain(f"step {self.name}", "it") for one in self.libraries)
        return next(filter(None, lines), "")

    @property
    def sections(self) -> set[str]:
        """The sections of params.yaml that it can't do without; a summary reads what there is."""
        if self.summary:
            return {self.name}
        return {key.split(".")[0] for key in (*self.params, *(["lm"] if self.builds else []))}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Its files by name, those of git last."""
        return (*self.large, *self.small)

    @property
    def small(self) -> tuple[str, ...]:
        """Those of git."""
        return (*self.metrics, *self.kept)

    @property
    def measured(self) -> tuple[str, ...]:
        """The files with its numbers, which git keeps."""
        return (self.target,) if self.folder else self.small
