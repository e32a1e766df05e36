"""Whether subjects can be compared at all: by items, and subjects, that connect them."""

from bayesirt.data.responses import Responses
from bayesirt.errors import ResponseError
from bayesirt.names import counted, one_line


def refuse_disconnected(responses: Responses) -> None:
    """Refuse responses whose subjects have no scale in common."""
    groups = responses.components()
    if len(groups) == 1:
        return
    listed = "; ".join(
        f"{counted(len(subjects), 'subject')} x {counted(len(items), 'item')} with "
        f"{one_line(responses.subjects[subjects[0]])!r}"
        for subjects, items in groups[:4]
    )
    raise ResponseError(
        f"subjects and items fall into {len(groups)} groups without any response in common, so "
        f"abilities are not comparable: {listed}{'; ...' if len(groups) > 4 else ''}; pass "
        f"--per-component to rank each by itself"
    )
