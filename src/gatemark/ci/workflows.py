"""Workflow files for CI services; existing files are never overwritten."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, get_args

from gatemark.core.atomic import write_whole
from gatemark.core.errors import RefusedError

CiService = Literal["github", "gitlab", "azure"]
CI_SERVICES: Final[tuple[CiService, ...]] = get_args(CiService)

_PLACES: Final[dict[CiService, str]] = {
    "github": ".github/workflows/gatemark.yml",
    "gitlab": ".gitlab-ci.yml",
    "azure": "azure-pipelines.yml",
}


def render_workflow(service: CiService, pack: str) -> str:
    """Return the workflow file of a service that gates ``pack``."""
    template = files("gatemark.ci.templates").joinpath(f"{service}.yml").read_text("utf-8")
    return template.replace("PACK_FILE", pack)


def write_workflow(service: CiService, pack: str, root: Path) -> Path:
    """Write the workflow file where the service looks for it, below ``root``."""
    target = root / _PLACES[service]
    if target.exists():
        raise RefusedError(
            f"{target} is already there and is left as it is; write the new file into an empty "
            f"folder and copy the job: gatemark init NEW_FOLDER --ci {service}"
        )
    write_whole(target, [render_workflow(service, pack).encode()])
    return target
