"""Whether subjects can be compared, that is, whether common items and subjects connect them."""

from collections.abc import Iterable, Sequence

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import counted, first_few, one_line

_NAMED = 4


def refuse_disconnected(responses: Responses, facets: Sequence[str] = ()) -> None:
    """Refuse responses whose subjects are not on a common scale."""
    groups = told_groups(responses, facets)
    if len(groups) == 1:
        return
    of = facets[0] if facets else ""
    tip = f"have one {one_line(of)} score subjects of each on the same questions, or " if of else ""
    raise ResponseError(
        f"subjects and items fall into {len(groups)} groups without any response in common, so "
        f"abilities are not comparable: {'; '.join(groups[:_NAMED])}"
        f"{'; ...' if len(groups) > _NAMED else ''}; {tip}pass --per-component to rank each "
        f"separately"
    )


def told_groups(responses: Responses, facets: Sequence[str] = ()) -> list[str]:
    """Describe the subjects and levels of facets in each group that responses connect."""
    texts = []
    for subjects, items in responses.components():
        levels = responses.item_metadata[list(facets)].iloc[items]
        parts = [f"{one_line(x)} {_listed(dict.fromkeys(levels[x].astype(str)))}" for x in facets]
        size = f"{counted(len(subjects), 'subject')} x {counted(len(items), 'item')}"
        names = _listed(responses.subjects[k] for k in subjects)
        texts.append(f"{', '.join(parts)}{' for ' if parts else ''}{size} with {names}")
    return texts


def _listed(names: Iterable[str]) -> str:
    return first_few([repr(one_line(name)) for name in names], _NAMED)
