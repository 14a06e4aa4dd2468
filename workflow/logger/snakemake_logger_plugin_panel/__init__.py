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
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

TAIL = 4096
"""Bytes of a log that are read for its last line."""
MINUTE = 60.0
"""Seconds between two lines about a running job where there is no terminal."""
SHOWN = 20
"""Last lines of the log of a job that failed."""
STOPPED = re.compile(r"saved at step .*; run it again|: interrupted$|^KeyboardInterrupt$")
"""What the log of a job says that did not fail: Ctrl-C, a signal or run.max_minutes stopped it."""
FAILED = re.compile(
    r"RuleException:\nCalledProcessError|WorkflowError:\nAt least one job did not"
    r"|Exiting because a job"
)
"""Snakemake's messages of a failed job, of which the panel says name and log itself."""


def name_job(rule: str, wildcards: Mapping[str, Any]) -> str:
    """How a job is called: its rule, then what it is done for."""
    words = [rule.replace("_", "-")]
    words += [f"seed {v}" if k == "seed" else str(v) for k, v in wildcards.items()]
    return " ".join(words)


def write_time(seconds: float | None) -> str:
    """As 0:00:07."""
    return str(timedelta(seconds=round(seconds or 0)))


def last_line(logs: Iterable[Path]) -> str:
    """The last line that has been written to a job's logs; "" for none."""
    for log in logs:
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - TAIL))
                lines = file.read().decode("utf8", "replace").split("\n")
        except OSError:
            continue
        if found := next((line for line in reversed(lines) if len(line.strip()) > 1), ""):
            return found.strip()
    return ""


class LastLine(ProgressColumn):
    """The last line of a job's log; of all jobs how many are done."""

    def render(self, task: Task) -> Text:
        """It alone gives way where room is short."""
        logs = task.fields.get("logs")
        said = f"{task.completed:.0f} of {task.total} jobs" if logs is None else last_line(logs)
        return Text(said, style="dim", no_wrap=True, overflow="ellipsis")


def make_progress(console: Console) -> Progress:
    """The panel: a line for all jobs, and one per running job."""
    name = TextColumn("{task.description}", style="cyan", markup=False, table_column=FIXED)
    last = LastLine(table_column=Column(ratio=1))
    shown = (name, TimeElapsedColumn(table_column=FIXED), last)
    return Progress(*shown, console=console, expand=True, transient=True, refresh_per_second=2)


FIXED = Column(no_wrap=True)


class LogHandler(LogHandlerBase):
    """The panel on standard error."""

    def __post_init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.progress = make_progress(self.console)
        self.all = self.progress.add_task("make", total=None)
        self.jobs: dict[int, Task] = {}
        self.stopped: list[str] = []
        self.ended = threading.Event()
        self.teller = threading.Thread(target=self._tell, daemon=True)

    def _tell(self) -> None:
        """Lines about what is running, until the run has ended."""
        while not self.ended.wait(MINUTE):
            for job in self.progress.tasks[1:]:
                took = write_time(job.elapsed)
                line = f"running  {job.description}  ({took})  {last_line(job.fields['logs'])}"
                self._print(line.rstrip())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._take(record)
        except Exception:
            self.handleError(record)

    def _take(self, record: logging.LogRecord) -> None:
        event, given = getattr(record, "event", None), cast(Any, record)
        if event == LogEvent.RUN_INFO:
            self.progress.update(self.all, total=int(given.stats.get("total", 0)))
            if self.console.is_terminal:
                self.progress.start()
            elif not self.teller.is_alive():
                self.teller.start()
        elif event == LogEvent.JOB_INFO:
            name = name_job(given.rule_name, given.wildcards or {})
            self.progress.add_task(name, logs=[Path(log) for log in given.log or ()])
            self.jobs[given.jobid] = self.progress.tasks[-1]
            self._print(f"begins  {name}", panel=False)
        elif event == LogEvent.JOB_FINISHED:
            self.progress.advance(self.all)  # a progress record follows; until then this counts it
            if job := self._end(given.job_id):
                whole = self.progress.tasks[0]
                count = f"{whole.completed:.0f} of {whole.total}"
                took = write_time(job.elapsed)
                self._print(f"{count}  {job.description}  ({took})", panel=False)
        elif event == LogEvent.PROGRESS:
            self.progress.update(self.all, completed=given.done, total=given.total)
        elif event == LogEvent.JOB_ERROR:
            self._fail(self._end(given.jobid), given)
        elif event == LogEvent.ERROR or (event is None and record.levelno >= logging.WARNING):
            text = record.getMessage()
            if text not in ("", "None") and not FAILED.match(text):
                self._print(text.rstrip(), "yellow" if record.levelno < logging.ERROR else "red")

    def _end(self, number: int) -> Task | None:
        """A job is no longer running; None for one that is not known."""
        job = self.jobs.pop(number, None)
        if job is not None:
            self.progress.remove_task(job.id)
        return job

    def _fail(self, job: Task | None, given: Any) -> None:
        name = job.description if job else given.rule_name
        logs = [Path(log) for log in given.log or ()] or (job.fields["logs"] if job else [])
        found = [log.read_text("utf8", "replace").splitlines() for log in logs if log.is_file()]
        lines = [line for one in found for line in one[-SHOWN:]]
        if why := next((line for line in reversed(lines) if STOPPED.search(line)), ""):
            self.stopped.append(f"{name} ({why.partition(';')[0]})")
            return
        self._print(f"failed: {name}; its log: {', '.join(map(str, logs)) or 'none'}", "red")
        for line in lines:
            self._print(f"    {line}")

    def _print(self, line: str, style: str = "", panel: bool = True) -> None:
        """A line; without ``panel`` only where there is none."""
        if panel or not self.console.is_terminal:
            self.console.print(Text(line, style=style), soft_wrap=True)

    def close(self) -> None:
        self.ended.set()
        if self.console.is_terminal:
            self.progress.stop()
        for job in self.stopped:
            self._print(f"stopped: {job}")
        if self.stopped:
            again = os.environ.get("STUDY_PANEL") or "the same command"
            self._print(f"What was done or saved is kept; {again} goes on from there.")
            self.stopped.clear()
        super().close()

    writes_to_stream = has_filter = has_formatter = property(lambda self: True)
    writes_to_file = needs_rulegraph = property(lambda self: False)
