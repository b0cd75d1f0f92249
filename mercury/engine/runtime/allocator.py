"""Returns the memory of large messages to the operating system."""

from __future__ import annotations

import ctypes

#: glibc's name of the size from which a block is mapped of its own, so that it is returned when it is freed.
_M_MMAP_THRESHOLD = -3
#: That size, in bytes. Without a call, glibc raises it to that of the largest block that was freed, up to 32 MB: then
#: a message of 8 MB leaves its copies in the heaps of all threads that had one.
LARGE_BLOCK = 1024 * 1024


def return_large_blocks() -> None:
    """Let the process return blocks of `LARGE_BLOCK` bytes or more when they are freed.

    It holds for the whole process. An allocator other than glibc's is left as it is.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    set_option(_M_MMAP_THRESHOLD, LARGE_BLOCK)
