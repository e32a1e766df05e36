"""What is believed about subjects and items before any response is seen."""

from dataclasses import dataclass
from typing import Literal

from bayesirt.errors import ResponseError


@dataclass(frozen=True)
class Priors:
    """Options of the 2PL's priors.

    Attributes
    ----------
    kind : {"hierarchical", "fixed"}
        ``"hierarchical"``: items learn their own centre and spread,
        log a ~ N(μ_a, σ_a) with μ_a ~ N(0, .5), σ_a ~ HalfNormal(.5), and d ~ N(μ_d - μ_b a, σ_d)
        with μ_d, μ_b ~ N(0, 2), σ_d ~ HalfNormal(2); for Rasch items d ~ N(μ_d, σ_d).
        ``"fixed"``: log a ~ N(0, .5) and difficulty b ~ N(0, 2), as in Kang (2026).
    slopes : {"positive", "free", "rasch"}
        ``"free"`` lets single items have a negative discrimination, a ~ N(μ_a, σ_a), with Σa > 0;
        ``"rasch"`` fixes a = 1. Both need the hierarchical kind.
    guessing : float, optional
        Proportion correct of those who know nothing, the same for every item of the 3PL; by default
        it is learned for each.
    difficulty : str
        What explains how difficult items are, in the columns that describe them, written as for
        lme4: ``"log(minutes) + (1|judge)"`` is a slope and an effect for each judge. It needs the
        hierarchical kind.
    ability : str
        What explains how able subjects are, in the columns that describe them:
        ``"(1|llm) + (1|scaffold)"`` is an effect for each LLM and for each scaffold.
    groups : str
        The column of items whose answers go together beyond ability, such as those about one text:
        a subject has an ability of its own in each group (testlets).

    Raises
    ------
    ResponseError
        For an unknown option, or options that do not go together.

    Examples
    --------
    >>> Priors().describe()
    'hierarchical, positive slopes'
    """

    kind: Literal["hierarchical", "fixed"] = "hierarchical"
    slopes: Literal["positive", "free", "rasch"] = "positive"
    guessing: float | None = None
    difficulty: str = ""
    groups: str = ""
    ability: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("hierarchical", "fixed"):
            raise ResponseError(f"priors must be hierarchical or fixed, got {self.kind!r}")
        if self.slopes not in ("positive", "free", "rasch"):
            raise ResponseError(f"slopes must be positive, free or rasch, got {self.slopes!r}")
        if self.guessing is not None and not 0 < self.guessing < 1:
            raise ResponseError(
                f"guessing must lie between 0 and 1, such as 0.25 with four options, got "
                f"{self.guessing:g}"
            )
        if self.kind == "fixed" and self.slopes != "positive":
            raise ResponseError(
                "fixed priors go with positive slopes only; leave out one of the options"
            )

        if self.kind == "fixed" and self.explains:
            raise ResponseError(
                "fixed priors do not learn what explains difficulty or ability; leave out one of "
                "the options"
            )

    @property
    def explains(self) -> bool:
        """Whether something explains difficulty or ability."""
        return bool(self.difficulty or self.ability)

    def describe(self) -> str:
        """Return the options in a few words."""
        guessed = "" if self.guessing is None else f", guessing {self.guessing:g}"
        explained = f", difficulty by {self.difficulty}" if self.difficulty else ""
        explained += f", ability by {self.ability}" if self.ability else ""
        together = f", answers together by {self.groups}" if self.groups else ""
        return f"{self.kind}, {self.slopes} slopes{guessed}{explained}{together}"
