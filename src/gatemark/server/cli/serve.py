"""``gatemark serve``: the web page and API of a store."""

from __future__ import annotations

from importlib.util import find_spec

import click

from gatemark.cli.options import OptionGroup, StrictCommand, store_option
from gatemark.cli.screen import say
from gatemark.core.errors import UsageError, not_installed
from gatemark.server.settings import ServerSettings

NEEDED = ("argon2", "fastapi", "jinja2", "multipart", "uvicorn")
NEEDED_FOR_OIDC = ("authlib", "joserfc")

settings_options = OptionGroup(
    ServerSettings,
    host=click.option("--host", default="127.0.0.1", help="Address to listen on."),
    port=click.option(
        "--port", type=click.IntRange(0, 65535), default=8787, help="Port to listen on."
    ),
    packs=click.option(
        "--packs",
        multiple=True,
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False),
        help="Folder of packs that people may run from the page. Repeatable.",
    ),
    schedules=click.option(
        "--schedules", metavar="FILE", help="Schedules (YAML) that the page shows."
    ),
    drift_policy=click.option(
        "--drift-policy", metavar="FILE", help="Drift policy (YAML) that the page judges by."
    ),
    tls_cert=click.option("--tls-cert", metavar="FILE", help="Certificate chain for TLS."),
    tls_key=click.option("--tls-key", metavar="FILE", help="Private key of the certificate."),
    is_behind_proxy=click.option(
        "--behind-proxy", is_flag=True, help="Leave TLS to a proxy in front."
    ),
    trusted_proxies=click.option(
        "--trusted-proxy",
        "trusted_proxies",
        multiple=True,
        metavar="ADDRESS",
        help="Address or network of a trusted proxy that sets X-Forwarded-For (default: this "
        "machine). Repeatable.",
    ),
    public_url=click.option(
        "--public-url", metavar="URL", help="Address at which people reach the server."
    ),
    oidc=click.option("--oidc", metavar="FILE", help="OpenID Connect provider (YAML) for sign-in."),
    signing_key=click.option(
        "--signing-key", metavar="FILE", help="Private key of the ledger, to sign checkpoints with."
    ),
)


@click.command("serve", cls=StrictCommand)
@settings_options
@click.option(
    "--link",
    "linked",
    metavar="NAME",
    help="Person to print a new sign-in link for; starts no server.",
)
@store_option
def serve_command(settings: ServerSettings, *, linked: str | None, store: str) -> int:
    """Serve the web page: dashboards, approvals, runs, ledger.

    The first start prints a link that makes you the admin; it works once. Listens on this machine
    only; other addresses need TLS, or a proxy that provides it. Needs gatemark[server].

    \b
    Examples:
      gatemark serve --packs packs
      gatemark serve --host 0.0.0.0 --behind-proxy --public-url https://gate.example
      gatemark serve --link ann
    """
    needed = NEEDED if settings.oidc is None else (*NEEDED, *NEEDED_FOR_OIDC)
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise UsageError(not_installed("the page needs", ", ".join(missing), "server,report"))
    from gatemark.server.serving import print_link, serve_site  # noqa: PLC0415 - heavy, and only here

    if linked is not None:
        return print_link(settings, store, linked, say)
    return serve_site(settings, store, say)
