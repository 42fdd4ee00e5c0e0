"""The environment variables that a target's process receives.

What is examined must not see the judge's credentials or where results are stored. So a process
starts only with the variables that programs need to run at all (paths, locale, certificates,
proxies without a password) and those that the pack names under ``env``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gatemark.core.errors import InvalidValueError
from gatemark.targets.network_specs import OWN_PREFIX

PASSED: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE"),
        *("TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "NO_COLOR"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    }
)
PASSED_PREFIXES: Final = ("LC_", "PYTHON", "XDG_")
PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def check_names(names: Iterable[str]) -> None:
    """Refuse names that no target may receive."""
    for name in names:
        if not name or "=" in name or "\0" in name:
            raise InvalidValueError(f"env must list names of variables, got {name!r}")
        if name.upper().startswith(OWN_PREFIX):
            raise InvalidValueError(
                f"env must not list {name!r}: a target never receives Gatemark's own settings"
            )


def select_environment(environ: Mapping[str, str], named: Iterable[str]) -> dict[str, str]:
    """Return the variables for a target's process; ``named`` are those the pack lists."""
    wanted = set(named)
    return {
        name: value
        for name, value in environ.items()
        if not name.upper().startswith(OWN_PREFIX) and (name in wanted or _is_passed(name, value))
    }


def _is_passed(name: str, value: str) -> bool:
    if name.lower() in PROXIES:
        # A proxy with a password in its address is a credential.
        return "@" not in value
    return name in PASSED or name.startswith(PASSED_PREFIXES)
