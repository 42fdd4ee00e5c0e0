"""Taking in what a service reports about itself, for its error budget."""

from __future__ import annotations

from gatemark.core.errors import RefusedError
from gatemark.lifecycle.commands import ReportService
from gatemark.lifecycle.decisions.clock import DecisionMoment
from gatemark.lifecycle.decisions.people import require_role
from gatemark.lifecycle.events.canary import ServiceReported
from gatemark.lifecycle.events.fact import Fact
from gatemark.lifecycle.model.state import LifecycleState


def decide_report(
    state: LifecycleState, command: ReportService, moment: DecisionMoment
) -> tuple[Fact, ...]:
    """Take a span in; spans must not overlap, and the same one twice changes nothing."""
    require_role(
        state.governance, command.actor, ServiceReported.declared.roles, "report a service"
    )
    if not state.asset.versions:
        raise RefusedError(f"there is no asset {state.asset.name}")
    if command.end > moment.now:
        raise RefusedError(f"the span to {command.end:%Y-%m-%d %H:%M:%SZ} is not over yet")
    fact = ServiceReported(
        asset=state.asset.name,
        environment=command.environment,
        start=command.start,
        end=command.end,
        good=command.good,
        total=command.total,
    )
    for span in state.asset.place(command.environment).service:
        if span == fact.span:
            return ()
        if span.start < fact.end and fact.start < span.end:
            raise RefusedError(
                f"the span from {fact.start:%Y-%m-%d %H:%M:%SZ} overlaps one that was reported"
            )
    return (fact,)
