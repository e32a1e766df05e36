"""Choice of the metric that scores a benchmark, and of its filter."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bayesirt.errors import ResponseError
from bayesirt.names import first_few, one_line

_SHOWN = 4


class ChoiceError(ResponseError):
    """A choice that a log does not offer."""


class OpenChoiceError(ChoiceError):
    """A log offers several metrics or filters, and none was chosen."""

    def __init__(self, option: str, benchmark: str, offered: Sequence[str]) -> None:
        self.option, self.benchmark, self.offered = option, benchmark, tuple(offered)
        super().__init__(_sentence({(option, benchmark): self.offered}))


@dataclass(frozen=True)
class Choices:
    """The user's choices of metrics and filters.

    >>> choices = Choices(metric=("exact_match", "hellaswag=acc_norm"))
    >>> choices.pick("metric", "hellaswag", ["acc", "acc_norm"])
    'acc_norm'
    >>> choices.pick("metric", "gsm8k", ["exact_match", "bleu"])
    'exact_match'
    """

    # Each is a name, for all benchmarks that offer it, or ``benchmark=name`` for one of them.
    metric: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    # Requested facets of answers and factors of subjects, such as judge.
    told: tuple[str, ...] = ()

    @property
    def several_metrics(self) -> bool:
        """Whether an answer counts once for each metric."""
        return not {"metric", "judge"}.isdisjoint(self.told)

    def metrics(
        self,
        benchmark: str,
        offered: Sequence[str],
        usual: Sequence[str],
        judges: Mapping[str, str],
    ) -> tuple[str, ...]:
        """Return the chosen metric, or several if metrics or their judges are a facet.

        >>> choices, judges = Choices(told=("judge",)), {"kind": "gpt", "true": "claude"}
        >>> choices.metrics("chat", ["acc", "kind", "true"], ["acc"], judges)
        ('kind', 'true')
        """
        named = [name for where, name in self._told("metric") if where in (None, benchmark)]
        chosen = [x for x in offered if x in named] or list(usual)
        if "metric" in self.told:
            return tuple(chosen)
        if "judge" in self.told and judges:
            graded = [x for x in offered if x in judges and x in (named or judges)]
            if len({judges[x] for x in graded}) == len(graded) > 1:
                return tuple(graded)
            usual = [x for x in graded if x in usual] or graded
        return (self.pick("metric", benchmark, offered, usual),)

    def pick(
        self, option: str, benchmark: str, offered: Sequence[str], usual: Sequence[str] = ()
    ) -> str:
        """Return the name that was chosen for a benchmark, or the only usual one."""
        choices = self._told(option)
        names = [name for where, name in choices if where == benchmark]
        if names:
            if names[-1] not in offered:
                raise ChoiceError(
                    f"{one_line(benchmark)} has no {option} {one_line(names[-1])!r}; choose one of "
                    f"{_listed(offered)} with --{option}"
                )
            return names[-1]
        named = list(dict.fromkeys(n for where, n in choices if where is None and n in offered))
        usual = named or usual or offered
        if len(usual) == 1:
            return usual[0]
        raise OpenChoiceError(option, benchmark, usual)

    def check_used(self, benchmarks: Mapping[str, tuple[Collection[str], str]]) -> None:
        """Refuse a choice that no benchmark used, such as one with a misspelt name."""
        metrics = {name for chosen, _ in benchmarks.values() for name in chosen}
        filters = {through for _, through in benchmarks.values()}
        for option, used in (("metric", metrics), ("filter", filters)):
            for where, name in self._told(option):
                if where is not None and where not in benchmarks:
                    raise ResponseError(
                        f"--{option} names the unknown benchmark {one_line(where)!r}; the "
                        f"benchmarks are {_listed(tuple(benchmarks))}"
                    )
                if where is None and name not in used:
                    raise ResponseError(
                        f"no benchmark has a {option} {one_line(name)!r}; leave out --{option}, or "
                        f"choose one of {_listed(sorted(used - {''}))}"
                    )

    def _told(self, option: str) -> list[tuple[str | None, str]]:
        """Return pairs of a benchmark (None for all) and a name."""
        texts: tuple[str, ...] = getattr(self, option)
        parts = (text.rpartition("=") for text in texts)
        return [(where if equals else None, name) for where, equals, name in parts]


def refuse_open(open_choices: Sequence[OpenChoiceError]) -> None:
    """Refuse logs with open choices, listing all of these in one sentence."""
    if open_choices:
        raise ResponseError(_sentence({(c.option, c.benchmark): c.offered for c in open_choices}))


def _sentence(offers: Mapping[tuple[str, str], Sequence[str]]) -> str:
    alike: dict[tuple[str, Sequence[str]], list[str]] = {}
    for (option, benchmark), names in offers.items():
        alike.setdefault((option, names), []).append(benchmark)
    clauses = []
    for (option, names), benchmarks in list(alike.items())[:_SHOWN]:
        more = f" and {len(benchmarks) - 1} more" if len(benchmarks) > 1 else ""
        offer = "offer" if more else "offers"
        clauses.append(f"{one_line(benchmarks[0])}{more} {offer} the {option}s {_listed(names)}")
    if len(alike) > _SHOWN:
        clauses.append(f"and so on for {len(alike) - _SHOWN} more lists")
    options = list(dict.fromkeys(option for option, _ in alike))
    name = one_line(next(iter(offers))[1], 200)
    return (
        f"{'; '.join(clauses)}: choose with {' and '.join(f'--{o} NAME' for o in options)}, or "
        f"--{options[0]} '{name}=NAME' for one benchmark"
    )


def _listed(names: Sequence[str]) -> str:
    return first_few([f"`{one_line(name)}`" for name in names], 8)
