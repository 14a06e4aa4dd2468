"""An executor of Snakemake that takes jobs as a cluster's does (each a Snakemake of its own, no
number of cores) and runs them as processes of this machine.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator
from typing import Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=0,
)


class Executor(RemoteExecutor):
    """Its queue is the system's."""

    def run_job(self, job: Any) -> None:
        process = subprocess.Popen(["bash", "-c", self.format_job_exec(job)])
        self.report_job_submission(SubmittedJobInfo(job, aux={"process": process}))

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        for info in active_jobs:
            code = info.aux["process"].poll()
            if code is None:
                yield info
            elif code:
                self.report_job_error(info)
            else:
                self.report_job_success(info)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        for info in active_jobs:
            info.aux["process"].terminate()
