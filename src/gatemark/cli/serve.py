"""``gatemark serve``: the page and its interface over a store."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from gatemark.cli.options import store_option
from gatemark.core.errors import UsageError

NEEDED = ("argon2", "fastapi", "jinja2", "multipart", "uvicorn")
NEEDED_FOR_OIDC = ("authlib", "httpx", "joserfc")


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="The port."
)
@click.option(
    "--packs",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False),
    help="A folder whose packs people may run from the page. Repeatable.",
)
@click.option("--schedules", metavar="FILE", help="The schedules that the page shows.")
@click.option("--drift-policy", metavar="FILE", help="The drift policy that the page judges by.")
@click.option("--tls-cert", metavar="FILE", help="Certificate chain, to speak TLS.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front speaks TLS.")
@click.option("--public-url", metavar="URL", help="Where people reach the server.")
@click.option("--oidc", metavar="FILE", help="The provider that people may sign in by.")
@click.option("--signing-key", metavar="FILE", help="The ledger's key, to sign checkpoints with.")
@click.option("--link", "linked", metavar="NAME", help="Print a new sign-in link for NAME and end.")
@store_option
def serve_command(**flags: Any) -> int:
    """Serve the page: dashboards, approvals, runs, the ledger.

    At the first start it prints a link that makes you the admin; it works once. Listens on this
    machine only; other addresses need TLS, or a proxy that speaks it. Needs gatemark[server].

    \b
    Examples:
      gatemark serve --packs packs
      gatemark serve --host 0.0.0.0 --behind-proxy --public-url https://gate.example
      gatemark serve --link ann
    """
    needed = NEEDED if flags["oidc"] is None else (*NEEDED, *NEEDED_FOR_OIDC)
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise UsageError(f"the page needs {', '.join(missing)}: install gatemark[server,report]")
    from gatemark.web.serving import print_link, serve  # noqa: PLC0415 - heavy, and only here
    from gatemark.web.settings import ServerSettings  # noqa: PLC0415

    settings = ServerSettings(
        host=flags["host"],
        port=flags["port"],
        packs=flags["packs"],
        schedules=flags["schedules"],
        drift_policy=flags["drift_policy"],
        tls_cert=flags["tls_cert"],
        tls_key=flags["tls_key"],
        is_behind_proxy=flags["behind_proxy"],
        public_url=flags["public_url"],
        oidc=flags["oidc"],
        signing_key=flags["signing_key"],
    )
    if flags["linked"] is not None:
        return print_link(settings, flags["store"], flags["linked"], click.echo)
    return serve(settings, flags["store"], click.echo)
