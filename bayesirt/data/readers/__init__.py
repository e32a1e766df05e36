"""Readers that turn results of any format into `Responses`."""

from bayesirt.data.readers.log_folder import read_log_folder
from bayesirt.data.readers.q_matrix import read_q_matrix
from bayesirt.data.readers.recognise import LeftOutWarning, read_responses

__all__ = ["LeftOutWarning", "read_log_folder", "read_q_matrix", "read_responses"]
