"""Studies of how far the package's own answers can be trusted."""

from bayesirt.studies.calibration import CalibrationStudy, calibration_study

__all__ = ["CalibrationStudy", "calibration_study"]
