"""What `make sample` shows of a run: how many jobs are done, and of each running one its name, its
time and the last line of its log. Where there is no terminal, plain lines: one per job that begins
or ends, and once a minute the same of the running ones.

A logger plugin of Snakemake: ``PYTHONPATH=workflow/logger snakemake --logger panel``. STUDY_PANEL
is the command that goes on after a stop.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

TAIL = 4096
"""Bytes of a log that are read for its last line."""
MINUTE = 60.0
"""Seconds between two lines about a running job where there is no terminal."""
SHOWN = 20
"""Last lines of the log of a job that failed."""
STOPPED = re.compile(r"saved at step .*; run again to go on|: interrupted$|^KeyboardInterrupt$")
"""What the log of a job says that did not fail: Ctrl-C, a signal or run.max_minutes stopped it."""
FAILED = re.compile(
    r"RuleException:\nCalledProcessError|WorkflowError:\nAt least one job did not"
    r"|Exiting because a job"
)
"""Snakemake's messages of a failed job, of which the panel says name and log itself."""


@dataclass(frozen=True)
class Job:
    """A job as it began: its name, its logs, and when, in seconds of the monotonic clock."""

    name: str
    logs: tuple[Path, ...]
    began: float


@dataclass
class Board:
    """What is known of a run."""

    began: float
    done: int = 0
    total: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    stopped: list[str] = field(default_factory=list)

    def begin(self, number: int, job: Job) -> None:
        """A job was handed out."""
        self.jobs[number] = job
        self.running.add(number)

    def end(self, number: int) -> Job | None:
        """A job is no longer running; None for one that is not known."""
        self.running.discard(number)
        return self.jobs.get(number)


def name_job(rule: str, wildcards: Mapping[str, Any]) -> str:
    """How a job is called: its rule, then what it is done for."""
    words = [rule.replace("_", "-")]
    words += [f"seed {v}" if k == "seed" else str(v) for k, v in wildcards.items()]
    return " ".join(words)


def write_time(seconds: float) -> str:
    """As 0:07 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def last_line(logs: tuple[Path, ...]) -> str:
    """The last line that has been written to a job's logs; "" for none."""
    for log in logs:
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - TAIL))
                lines = file.read().decode("utf8", "replace").split("\n")
        except OSError:
            continue
        found = next((line for line in reversed(lines) if len(line.strip()) > 1), "")
        if found:
            return found.strip()
    return ""


def list_last_lines(logs: tuple[Path, ...]) -> list[str]:
    """The last `SHOWN` lines of each of a job's logs."""
    found = [log.read_text("utf8", "replace").splitlines() for log in logs if log.is_file()]
    return [line for lines in found for line in lines[-SHOWN:]]


def draw(board: Board, now: float, width: int) -> Group:
    """The panel: a bar, and a line per running job."""
    head = Table.grid(padding=(0, 2))
    head.add_row(
        ProgressBar(max(1, board.total), board.done, width=min(40, width // 3)),
        Text(f"{board.done} of {board.total} jobs"),
        Text(write_time(now - board.began), style="dim"),
    )
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column(style="dim")  # it alone gives way, which a column without wrapping does not
    for number in sorted(board.running):
        job = board.jobs[number]
        rows.add_row(
            Text(job.name, style="cyan"),
            write_time(now - job.began),
            Text(last_line(job.logs), no_wrap=True, overflow="ellipsis"),
        )
    return Group(head, rows)


def list_running(board: Board, now: float) -> list[str]:
    """A line per running job: its name, its time and the last line of its log."""
    jobs = [board.jobs[number] for number in sorted(board.running)]
    lines = (
        f"running  {job.name}  ({write_time(now - job.began)})  {last_line(job.logs)}"
        for job in jobs
    )
    return [line.rstrip() for line in lines]


class LogHandler(LogHandlerBase):
    """The panel on standard error."""

    def __post_init__(self) -> None:
        self.board = Board(time.monotonic())
        self.console = Console(stderr=True, highlight=False)
        self.live: Live | None = None
        self.ended = threading.Event()
        self.teller = threading.Thread(target=self._tell, daemon=True)
        if self.console.is_terminal:
            self.live = Live(
                get_renderable=self._draw,
                console=self.console,
                refresh_per_second=2,
                transient=True,
            )

    def _draw(self) -> Group:
        return draw(self.board, time.monotonic(), self.console.width)

    def _tell(self) -> None:
        """Lines about what is running, until the run has ended."""
        while not self.ended.wait(MINUTE):
            for line in list_running(self.board, time.monotonic()):
                self._print(line)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._take(record)
        except Exception:
            self.handleError(record)

    def _take(self, record: logging.LogRecord) -> None:
        event, board = getattr(record, "event", None), self.board
        given: Any = record
        if event == LogEvent.RUN_INFO:
            board.total = int(given.stats.get("total", 0))
            if self.live is not None:
                self.live.start()
            elif not self.teller.is_alive():
                self.teller.start()
        elif event == LogEvent.JOB_INFO:
            name = name_job(given.rule_name, given.wildcards or {})
            logs = tuple(Path(log) for log in given.log or ())
            board.begin(given.jobid, Job(name, logs, time.monotonic()))
            if self.live is None:
                self._print(f"begins  {name}")
        elif event == LogEvent.JOB_FINISHED:
            self._finish(board.end(given.job_id))
        elif event == LogEvent.PROGRESS:
            board.done, board.total = given.done, given.total
        elif event == LogEvent.JOB_ERROR:
            self._fail(board.end(given.jobid), given)
        elif event == LogEvent.ERROR or (event is None and record.levelno >= logging.WARNING):
            for line in () if FAILED.match(record.getMessage()) else _lines(record):
                self._print(line, "yellow" if record.levelno < logging.ERROR else "red")

    def _finish(self, job: Job | None) -> None:
        """A line where there is no panel; in a panel it is gone and the bar is longer."""
        self.board.done += 1  # a progress record follows; until then the line counts it
        if job is not None and self.live is None:
            took = write_time(time.monotonic() - job.began)
            self._print(f"{self.board.done} of {self.board.total}  {job.name}  ({took})")

    def _fail(self, job: Job | None, given: Any) -> None:
        logs = tuple(Path(log) for log in given.log or ()) or (job.logs if job else ())
        name = job.name if job else given.rule_name
        lines = list_last_lines(logs)
        if why := next((line for line in reversed(lines) if STOPPED.search(line)), ""):
            self.board.stopped.append(f"{name} ({why.partition(';')[0]})")
            return
        self._print(f"failed: {name}; its log: {', '.join(map(str, logs)) or 'none'}", "red")
        for line in lines:
            self._print(f"    {line}")

    def _print(self, line: str, style: str = "") -> None:
        self.console.print(Text(line, style=style), soft_wrap=True)

    def close(self) -> None:
        self.ended.set()
        if self.live is not None:
            self.live.stop()
        for job in self.board.stopped:
            self._print(f"stopped: {job}")
        if self.board.stopped:
            again = os.environ.get("STUDY_PANEL") or "the same command"
            self._print(f"What was done or saved is kept; {again} goes on from there.")
            self.board.stopped.clear()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        return True

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return True

    @property
    def has_formatter(self) -> bool:
        return True

    @property
    def needs_rulegraph(self) -> bool:
        return False


def _lines(record: logging.LogRecord) -> Iterator[str]:
    text = record.getMessage()
    if text and text != "None":
        yield from text.rstrip().splitlines()
