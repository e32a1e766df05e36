"""Lists of abilities that ship with the package."""

import json
from importlib.resources import files

from bayesirt.errors import ResponseError
from bayesirt.names import one_line

DOMAINS = ("mathematics", "physics", "chemistry", "computer_science")


def taxonomy(domain: str) -> dict[str, str]:
    """Return the abilities of a domain, for `annotate`.

    Parameters
    ----------
    domain : {"mathematics", "physics", "chemistry", "computer_science"}

    Returns
    -------
    dict of str
        From an ability's name to its definition, in the paper's order.

    Raises
    ------
    ResponseError
        For another domain.

    Notes
    -----
    The names are the paper's; the definitions are this package's own, and are not part of the
    paper.

    References
    ----------
    Zhang et al. (2026), Appendices B (mathematics, 35 abilities) and C (physics 27, chemistry 58,
    computer science 12).

    Examples
    --------
    >>> len(taxonomy("mathematics"))
    35
    >>> taxonomy("mathematics")["Combinatorial Counting"]
    'Counting choices and arrangements without listing them all.'
    """
    if domain not in DOMAINS:
        raise ResponseError(
            f"there is no taxonomy of {one_line(str(domain))!r}; name one of "
            f"{', '.join(DOMAINS)}, or pass your own abilities"
        )
    folder = files("bayesirt.profiles.annotation").joinpath("taxonomies")
    content: dict[str, str] = json.loads(folder.joinpath(f"{domain}.json").read_text("utf-8"))
    return content
