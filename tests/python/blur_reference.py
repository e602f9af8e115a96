"""Prints the noise that core/src/private/blur.rs is tested against, by Python's own HMAC-SHA256.

python3 tests/python/blur_reference.py
"""

import hashlib
import hmac
import struct

KEY = bytes(range(32))
MODEL = b"model"
DIMS, NOISE, TOKENS = 4, 0.3, [101, 2040, 102]


def mac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


about = b""
for part in (b"dpr blurred noise 1", MODEL):
    about += struct.pack("<Q", len(part)) + part
about += struct.pack("<Q", DIMS) + struct.pack("<f", NOISE)
about += b"".join(struct.pack("<I", token) for token in TOKENS)
seed = mac(KEY, about)
stream = b"".join(mac(seed, struct.pack("<Q", block)) for block in range(DIMS * 12 * 2 // 32 + 1))
words = struct.unpack(f"<{len(stream) // 2}H", stream)
for number in range(DIMS):
    uniform = [(word + 0.5) / 65536 for word in words[number * 12 : number * 12 + 12]]
    print(repr(sum(uniform) - 6))
