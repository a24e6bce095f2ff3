"""One round: plan, execute, aggregate, and say what happened (Algorithm 1, lines 3 to 15)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from fedcore.errors import BadOption
from fedcore.types import (
    Assignment,
    ClientId,
    ClientProfile,
    ClientRecord,
    Executor,
    LocalPlan,
    LocalUpdate,
    Params,
    Strategy,
)

Cohort: TypeAlias = Mapping[ClientId, tuple[ClientProfile, int]]  # client -> profile, times drawn


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """What all clients of a round share."""

    deadline: float
    epochs: int
    seed: int
    chain_first_round: bool = False  # a defect of the authors' code; see _execute


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """The next global model, how long the round lasted, and who did what."""

    params: Params
    seconds: float
    clients: tuple[ClientRecord, ...]
    rejected: int
    training_seconds: float  # of real time, until all answers were there


def assignments_of(
    number: int, cohort: Cohort, strategy: Strategy, settings: RoundSettings
) -> list[Assignment]:
    """What round ``number`` will ask of a ``cohort``; a strategy decides by its arguments alone."""
    return _assignments(number, _plans(cohort, strategy, settings), settings)


def _plans(
    cohort: Cohort, strategy: Strategy, settings: RoundSettings
) -> dict[ClientId, LocalPlan]:
    return {
        client: checked(strategy.plan(profile, settings.deadline, settings.epochs))
        for client, (profile, _) in cohort.items()
    }


def checked(plan: LocalPlan) -> LocalPlan:
    """A strategy's plan, if it can be followed; strategies may come from anybody.

    Raises:
        BadOption: If it is none, or asks for less than one epoch or one sample.
    """
    if not isinstance(plan, LocalPlan):
        raise BadOption(f"plan of a strategy must return a LocalPlan, got {type(plan).__name__}")
    for phase in plan.phases:
        if phase.epochs < 1:
            raise BadOption(
                f"a phase of a plan must have 1 epoch or more, got {phase.epochs}; "
                "a client with nothing to do gets SIT_OUT"
            )
        if phase.coreset is not None and phase.coreset.budget < 1:
            raise BadOption(
                f"a coreset of a plan must have 1 sample or more, got {phase.coreset.budget}; "
                "leave out the phase, or SIT_OUT"
            )
    return plan


def _assignments(
    number: int, plans: Mapping[ClientId, LocalPlan], settings: RoundSettings
) -> list[Assignment]:
    return [
        Assignment(client, plan, number - 1, settings.seed)
        for client, plan in plans.items()
        if plan.phases
    ]


def run_round(
    number: int,
    params: Params,
    cohort: Cohort,
    strategy: Strategy,
    executor: Executor,
    settings: RoundSettings,
) -> RoundOutcome:
    """Run round ``number`` for a ``cohort``."""
    plans = _plans(cohort, strategy, settings)
    began = time.perf_counter()
    assignments = _assignments(number, plans, settings)
    updates = [
        replace(update, copies=cohort[update.client_id][1])
        for update in _execute(number, params, assignments, executor, settings)
    ]
    sound = [update for update in updates if is_sound(update)]  # which waits for the device
    trained = time.perf_counter()
    answers = {update.client_id: update for update in updates}
    records = tuple(
        _record(client, profile, copies, plans[client], answers.get(client))
        for client, (profile, copies) in cohort.items()
    )
    return RoundOutcome(
        params=strategy.aggregate(params, sound),
        # The virtual clock: a round lasts as long as its slowest client.
        seconds=max((record.seconds for record in records), default=0.0),
        clients=records,
        rejected=len(updates) - len(sound),
        training_seconds=trained - began,
    )


def _execute(
    number: int,
    params: Params,
    assignments: list[Assignment],
    executor: Executor,
    settings: RoundSettings,
) -> list[LocalUpdate]:
    """Train the cohort: everybody from the global model.

    In round 1 of the authors' code the global model is a live reference to the model being
    trained, so each client starts where the one before it ended. ``chain_first_round`` repeats
    that, to show what it does to the published numbers (docs/deviations.md); no preset sets it.
    """
    if not (settings.chain_first_round and number == 1):
        return executor.run(params, assignments)
    updates: list[LocalUpdate] = []
    for assignment in assignments:
        start = updates[-1].params if updates else params
        updates += executor.run(start, [assignment])
    return updates


def is_sound(update: LocalUpdate) -> bool:
    """Whether an answer can be averaged: one NaN would end the training for all."""
    return all(bool(torch.isfinite(value).all()) for value in update.params.values())


def _record(
    client: ClientId,
    profile: ClientProfile,
    copies: int,
    plan: LocalPlan,
    answer: LocalUpdate | None,
) -> ClientRecord:
    work = plan.work(profile.num_samples)
    budgets = [phase.coreset.budget for phase in plan.phases if phase.coreset is not None]
    return ClientRecord(
        client_id=client,
        path=plan.path,
        copies=copies,
        work=work,
        seconds=profile.seconds(work),
        coreset_budget=budgets[0] if budgets else None,
        coreset_size=answer.coreset_size if answer else None,
        gradient_error=answer.gradient_error if answer else None,
        full_gradient_error=answer.full_gradient_error if answer else None,
    )
