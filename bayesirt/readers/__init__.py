"""Results files in, `Responses` out: one function for every format."""

from bayesirt.readers.log_folder import read_log_folder
from bayesirt.readers.q_matrix import read_q_matrix
from bayesirt.readers.recognise import LeftOutWarning, read_responses

__all__ = ["LeftOutWarning", "read_log_folder", "read_q_matrix", "read_responses"]
