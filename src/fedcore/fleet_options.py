"""Options of the fleet: who takes part, how fast clients are, when they are away (docs/fleets.md).

Times are in deadlines, as those of tables are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from fedcore.errors import BadOption
from fedcore.values import MANY, above_zero, at_least, one_of, option

_fleet = partial(option, "Fleet")


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """The part of ``Experiment`` that makes a fleet."""

    clients_per_round: int = _fleet(10, "Clients K drawn for a round.", at_least(1, MANY))
    selection: str = _fleet(
        "proportional",
        "Sampler: how they are drawn, by p = m / sum m with replacement, ...; see 'fedcore list'.",
    )
    first_round: str = _fleet(
        "parallel",
        "'chained' repeats a defect of the authors' code: in round 1 clients train in a row.",
        one_of("parallel", "chained"),
    )
    capability: str = _fleet(
        "normal",
        "Speeds: drawn from N(1, std^2), or as those of phones, which have their links too, or "
        "linked to the amount of data, or equal.",
        one_of("normal", "phones", "size-linked", "equal"),
    )
    capability_std: float = _fleet(0.5, "Std of speeds; the paper's is √0.25.", at_least(0))
    capability_floor: float = _fleet(0.1, "Least speed; slower draws are drawn again.", above_zero)
    speeds: str | None = _fleet(
        None,
        "CSV file of your own fleet in place of drawn speeds: columns client, samples_per_second "
        "and, if you like, download, upload.",
    )
    speed_size_correlation: float = _fleet(
        0.0, "Of drawn speeds and amounts of data: 1, the more data the faster.", at_least(-1, 1)
    )
    deadline: float = _fleet(0.0, "Seconds of a round; 0: as --stragglers says.", at_least(0))
    download: float = _fleet(0.0, "Bytes a second that a link brings; 0: no limit.", at_least(0))
    upload: float = _fleet(0.0, "Bytes a second that it sends out; 0: no limit.", at_least(0))
    mean_on: float = _fleet(0.0, "Deadlines for which clients are there, in the mean.", at_least(0))
    mean_off: float = _fleet(0.0, "And for which they are then away; 0: never.", at_least(0))
    dropout: float = _fleet(0.0, "Probability to drop out in mid-job.", at_least(0, 1))

    def check_fleet(self, stragglers: Sequence[float]) -> None:
        """Refuse what does not go together."""
        if self.deadline and stragglers:
            raise BadOption(
                f"deadline is {self.deadline:g} and stragglers are {list(stragglers)}; "
                "give one of them, since each says what the other is"
            )
        if bool(self.mean_on) != bool(self.mean_off):
            given = f"mean_on is {self.mean_on:g} and mean_off is {self.mean_off:g}"
            raise BadOption(f"{given}; clients that come and go need both, others neither")
        drawn = self.speeds is None and self.capability in ("normal", "phones")
        if self.speed_size_correlation and not drawn:
            raise BadOption(
                f"speed_size_correlation is {self.speed_size_correlation:g}, but speeds are not "
                "drawn; leave it out, or take capability normal or phones without a file of speeds"
            )
