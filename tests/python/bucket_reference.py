"""Prints the buckets that core/src/private/bucket/decoys.rs is tested against, by Python's own HMAC-SHA256.

python3 tests/python/bucket_reference.py
"""

import hashlib
import hmac
import struct

KEY = bytes(range(32))
LABEL = b"dpr bucket decoys 1"
DRAWS = 64

# The greatest number is 127, so that rounding to 8 bits changes nothing.
ROWS = [[100 if axis == bucket % 6 else (bucket * 7 + axis * 11) % 27 for axis in range(6)] for bucket in range(30)]
ROWS.append([127] * 6)


def below(home: int, group: int, draw: int, limit: int) -> int:
    digest = hmac.new(KEY, LABEL + struct.pack("<III", home, group, draw), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "little") * limit >> 64


def group_of(bucket: int, size: int, taken: set[int]) -> list[int]:
    def product(other: int) -> int:
        return sum(a * b for a, b in zip(ROWS[bucket], ROWS[other], strict=True))

    free = [other for other in range(len(ROWS)) if other != bucket and other not in taken]
    return [bucket, *sorted(free, key=lambda other: (-product(other), other))][:size]


def fetched(probes: int, decoys: int, home: int) -> list[int]:
    taken = set(group_of(home, probes, set()))
    for group in range(decoys // probes):
        for draw in range(DRAWS):
            chosen = group_of(below(home, group, draw, len(ROWS)), probes, set())
            if taken.isdisjoint(chosen):
                break
        else:
            left = [bucket for bucket in range(len(ROWS)) if bucket not in taken]
            chosen = group_of(left[below(home, group, DRAWS, len(left))], probes, taken)
        taken.update(chosen)
    return sorted(taken)


for probes, decoys, home in [(1, 3, 0), (1, 3, 30), (2, 2, 7), (4, 4, 12), (4, 12, 3), (8, 16, 29)]:
    print(f"({probes}, {decoys}, {home}, &{fetched(probes, decoys, home)}),")
