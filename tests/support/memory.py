"""Refusals before memory is allocated."""

import os
import resource
import signal
from collections.abc import Callable

from seq2attn.errors import UserError

MAX_FACTOR, MAX_EXTRA = 8, 2**25
"""Allowed memory: this times the size of the file, and 32 MiB."""
MAX_SECONDS = 20


def refusal(read: Callable[[], object], size: int) -> str:
    """The message of a refused file of this size; checks the memory, in a process of its own."""
    receiver, sender = os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(MAX_SECONDS)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            read()
            answer = "read"
        except UserError as error:
            answer = str(error)[:1000]
        except BaseException as error:
            answer = f"not refused: {error!r}"[:1000]
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(sender, f"{grown} {answer}".encode())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as answers:
        grown, _, answer = answers.read().decode().partition(" ")
    assert os.waitpid(child, 0)[1] == 0, "it took too long"
    assert int(grown) * 1024 < MAX_FACTOR * size + MAX_EXTRA, f"{int(grown) // 1024} MiB"
    return answer
