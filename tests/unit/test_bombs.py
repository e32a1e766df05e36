"""Files that would unpack to gigabytes are refused without using much memory."""

import json
import sys
from pathlib import Path

import pytest
from bank_data import finished, python
from bomb_data import BOMBS

MOST_MEGABYTES = 1000
READ = """
import json, sys, time
from pathlib import Path
from bayesirt.errors import ResponseError
from bayesirt.data.readers.recognise import read_results, Reading

told = {}
for path in json.loads(sys.argv[1]):
    began = time.monotonic()
    try:
        read_results(path, Reading())
        said = "read"
    except ResponseError as error:
        said = str(error)
    status = Path("/proc/self/status").read_text()  # ru_maxrss would begin with the parent's
    megabytes = int(status.split("VmHWM:")[1].split()[0]) >> 10
    told[path] = said, megabytes, time.monotonic() - began
print(json.dumps(told))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_no_bomb_takes_a_gigabyte_or_ten_seconds(tmp_path: Path):
    wanted = {}
    for name, (write, words) in BOMBS.items():
        (tmp_path / name).mkdir()
        path = write(tmp_path / name)
        assert path.stat().st_size < 10_000_000
        wanted[str(path)] = words
    told = json.loads(finished(python(READ, json.dumps(list(wanted)))))
    for path, (said, megabytes, seconds) in told.items():
        assert wanted[path] in said
        assert "\n" not in said
        assert megabytes < MOST_MEGABYTES, path
        assert seconds < 10, path
