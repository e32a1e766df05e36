"""What the FPC study varies."""

from dataclasses import dataclass, field
from typing import get_args

from bayesirt.estimators.anchors import AnchorRule
from bayesirt.studies.fpc_matrix import REFERENCE_SHARE, FPCMatrix, SimulatedSuite, Split

USUAL_RULE: AnchorRule = "clusters"


@dataclass(frozen=True)
class FPCDesign:
    """What is varied, one thing at a time.

    Attributes
    ----------
    anchors : tuple of int
        Anchors of each benchmark.
    usual : int
        Their number where something else is varied.
    rule_anchors : tuple of int
        Their numbers at which the rules that choose them are compared.
    references : tuple of int
        Numbers of reference subjects; all of them anyway.
    n_abilities : int
        Of a given suite; a simulated one is fitted with as many as it has.
    orders : int
        Chains that end with the same benchmark of a given suite.
    chains : int
        Of a simulated suite.
    few : int
        Of these, chains on which all but the number of anchors is varied, and concurrent
        calibration is done; of a given suite, one for each benchmark.
    measured : int
        Most steps of a chain at which test subjects are predicted.
    simulated : SimulatedSuite
    """

    anchors: tuple[int, ...] = (10, 25, 50, 100)
    usual: int = 100
    rule_anchors: tuple[int, ...] = (25, 100)
    references: tuple[int, ...] = (25, 100, 400)
    n_abilities: int = 5
    orders: int = 2
    chains: int = 3
    few: int = 2
    measured: int = 8
    simulated: SimulatedSuite = field(default_factory=SimulatedSuite)


FPC_SIMULATED = FPCDesign(anchors=(5, 10, 20), usual=10, rule_anchors=(10,), references=(25, 100))
"""For benchmarks of 40 items."""

FPC_QUICK = FPCDesign(
    anchors=(5, 10),
    usual=10,
    rule_anchors=(10,),
    references=(50,),
    n_abilities=2,
    orders=1,
    chains=1,
    few=1,
    measured=2,
    simulated=SimulatedSuite(8, 30, 240, 2),
)
"""A short chain, and few steps of it."""


@dataclass(frozen=True)
class Condition:
    """How a chain is run."""

    n_anchors: int
    how: AnchorRule  # The rule that chooses anchors.
    n_reference: int  # 0 for all.
    split: Split
    chains: int  # How many.
    concurrent: int = 0  # On how many of them concurrent calibration is done, too.


def conditions_of(design: FPCDesign, matrix: FPCMatrix) -> list[Condition]:
    """Return what is varied, one thing at a time."""
    n = len(matrix.names)
    chains, few = (design.chains, design.few) if matrix.simulated else (design.orders * n, n)
    most = round(REFERENCE_SHARE * matrix.responses.n_subjects)
    splits: tuple[Split, ...] = ("abler", "families") if matrix.families else ("abler",)
    rules = [how for how in get_args(AnchorRule) if how != USUAL_RULE]
    return [
        *(Condition(m, USUAL_RULE, 0, "random", chains, few) for m in design.anchors),
        *(Condition(m, USUAL_RULE, 0, split, few) for split in splits for m in design.anchors),
        *(
            Condition(design.usual, USUAL_RULE, r, "random", few)
            for r in design.references
            if r < most
        ),
        *(Condition(m, how, 0, "random", few) for m in design.rule_anchors for how in rules),
    ]
