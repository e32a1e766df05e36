"""Prior options for subjects and items."""

from dataclasses import dataclass
from typing import Literal

from bayesirt.errors import ResponseError


@dataclass(frozen=True)
class Priors:
    """Options for the priors of the 2PL and related models.

    Attributes
    ----------
    kind : {"hierarchical", "fixed"}
        ``"hierarchical"``: the centre and spread of the items are learned,
        log a ~ N(μ_a, σ_a) with μ_a ~ N(0, .5), σ_a ~ HalfNormal(.5), and d ~ N(μ_d - μ_b a, σ_d)
        with μ_d, μ_b ~ N(0, 2), σ_d ~ HalfNormal(2); for Rasch items d ~ N(μ_d, σ_d).
        ``"fixed"``: log a ~ N(0, .5) and difficulty b ~ N(0, 2), as in Kang (2026).
    slopes : {"positive", "free", "rasch"}
        ``"free"`` allows single items a negative discrimination, a ~ N(μ_a, σ_a), with Σa > 0;
        ``"rasch"`` fixes a = 1. Both need the hierarchical kind.
    guessing : float, optional
        Guessing floor of every item of the 3PL: the proportion correct of a subject who knows
        nothing. By default it is learned for each item.
    difficulty : str
        lme4-style formula that explains item difficulty by item columns:
        ``"log(minutes) + (1|judge)"`` means a slope, and an effect of each judge. It needs the
        hierarchical kind.
    ability : str
        Formula that explains subjects' abilities by subject columns:
        ``"(1|llm) + (1|scaffold)"`` means an effect of each LLM and of each scaffold.
    groups : str
        Item column that groups dependent items (testlets), such as questions about one text.
        Each subject has a separate ability in each group, centred on its general ability.

    Raises
    ------
    ResponseError
        If an option is unknown or options contradict each other.

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
                f"guessing must be between 0 and 1, such as 0.25 with four options, got "
                f"{self.guessing:g}"
            )
        if self.kind == "fixed" and self.slopes != "positive":
            raise ResponseError(
                "fixed priors allow positive slopes only; leave out one of the options"
            )

        if self.kind == "fixed" and self.explains:
            raise ResponseError(
                "fixed priors do not support covariates of difficulty or ability; leave out one of "
                "the options"
            )

    @property
    def explains(self) -> bool:
        """Whether something explains difficulty or ability."""
        return bool(self.difficulty or self.ability)

    def describe(self) -> str:
        """Return a short description of the options."""
        guessed = "" if self.guessing is None else f", guessing {self.guessing:g}"
        explained = f", difficulty by {self.difficulty}" if self.difficulty else ""
        explained += f", ability by {self.ability}" if self.ability else ""
        together = f", items grouped by {self.groups}" if self.groups else ""
        return f"{self.kind}, {self.slopes} slopes{guessed}{explained}{together}"
