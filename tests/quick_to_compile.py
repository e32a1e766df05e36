"""Print XLA flags that make compiling quick: tests spend more time on it than on computing.

XLA's fusion emitters take most of the time. Later versions of jaxlib cannot disable them, and abort
the process if they do not know a flag.
"""

import sys
from importlib.metadata import version

_CAN_LEAVE_OUT_EMITTERS = (0, 10)

flags = [
    "--xla_force_host_platform_device_count=4",
    f"--xla_backend_optimization_level={sys.argv[1]}",
    "--xla_cpu_parallel_codegen_split_count=1",  # one thread compiles as fast as several
]
if tuple(map(int, version("jaxlib").split(".")[:2])) <= _CAN_LEAVE_OUT_EMITTERS:
    flags.append("--xla_cpu_use_fusion_emitters=false")
print(" ".join(flags))
