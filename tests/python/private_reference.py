"""Known answers of encrypted search, in numpy, by the textbook: matrices of polynomials in the place of transforms.

Writes tests/fixtures/private/*.bin and known-answers.json:  python tests/python/private_reference.py

It shares no code with the Rust crates. ChaCha20 is checked against RFC 8439, section 2.3.2, before it is used.
"""

import hashlib
import json
import math
import pathlib
import struct

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "private"
Q = 268_369_921
U32 = np.uint32


def chacha_blocks(key: bytes, first: int, count: int, nonce: bytes = bytes(12)) -> np.ndarray:
    """The keystream blocks `first` and after, [count, 16] words (RFC 8439)."""
    state = np.zeros((16, count), U32)
    state[0:4] = np.array(struct.unpack("<4I", b"expand 32-byte k"), U32)[:, None]
    state[4:12] = np.array(struct.unpack("<8I", key), U32)[:, None]
    state[12] = (np.arange(count, dtype=np.uint64) + first).astype(U32)
    state[13:16] = np.array(struct.unpack("<3I", nonce), U32)[:, None]
    x = state.copy()

    def quarter(a, b, c, d):
        for left, right, other, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[left] += x[right]
            mixed = x[other] ^ x[left]
            x[other] = (mixed << U32(turn)) | (mixed >> U32(32 - turn))

    for _ in range(10):
        quarter(0, 4, 8, 12), quarter(1, 5, 9, 13), quarter(2, 6, 10, 14), quarter(3, 7, 11, 15)
        quarter(0, 5, 10, 15), quarter(1, 6, 11, 12), quarter(2, 7, 8, 13), quarter(3, 4, 9, 14)
    return (x + state).T.copy()


class Stream:
    """Little-endian words of a key's keystream."""

    def __init__(self, key: bytes):
        self.key, self.block, self.held = key, 0, np.zeros(0, U32)

    def take(self, count: int) -> np.ndarray:
        while len(self.held) < count:
            blocks = chacha_blocks(self.key, self.block, 4096)
            self.block += 4096
            self.held = np.concatenate([self.held, blocks.reshape(-1)])
        taken, self.held = self.held[:count], self.held[count:]
        return taken.astype(np.int64)


def ternary(stream, count):
    return ((3 * stream.take(count)) >> 32) - 1


def errors(stream, count, bits):
    return (stream.take(count) & ((1 << bits) - 1)) - (1 << (bits - 1))


def expand_below(name, tables, count):
    stream = Stream(hashlib.sha256(b"dpr private " + name + tables).digest())
    numbers = stream.take(2 * count) & 0x0FFFFFFF
    return numbers[numbers < Q][:count]


def expand_words(name, tables, count):
    return Stream(hashlib.sha256(b"dpr private " + name + tables).digest()).take(count)


def negacyclic(p):
    """The matrix of the product by `p` in Z[X]/(X^n + 1)."""
    n = len(p)
    i, k = np.arange(n)[:, None], np.arange(n)[None, :]
    return np.where(i >= k, 1, -1) * p[(i - k) % n]


def pack(numbers, bits):
    """Bits one after the other, from the lowest bit of the first byte."""
    numbers = np.asarray(numbers, np.int64)
    return np.packbits(((numbers[:, None] >> np.arange(bits)) & 1).astype(np.uint8), bitorder="little").tobytes()


def of_transform(values, n):
    """The polynomial whose transform, in the order of the merged Cooley-Tukey butterflies, is `values`.

    Number `j` is the polynomial at the odd power `2 bitrev(j) + 1` of the smallest base's root.
    """
    bits = n.bit_length() - 1
    for base in range(2, 1000):
        root = pow(base, (Q - 1) // (2 * n), Q)
        if pow(root, n, Q) == Q - 1:
            break
    reverse = [int(format(j, f"0{bits}b")[::-1], 2) for j in range(n)]
    powers = np.array([pow(root, e, Q) for e in range(2 * n)], np.int64)
    exponents = (2 * np.array(reverse) + 1)[None, :] * np.arange(n)[:, None]  # [coefficient, number]
    inverse = powers[(-exponents) % (2 * n)]
    total = np.zeros(n, np.int64)
    for j in range(n):  # below 2^56 each
        total = (total + inverse[:, j] * int(values[j])) % Q
    return total * pow(n, Q - 2, Q) % Q


def rank():
    n, dims, tables, seed = 1024, 32, bytes(range(32)), bytes(range(100, 132))
    l, i = np.arange(n)[:, None], np.arange(dims)[None, :]
    rows = (l * 31 + i * 17 + (l * i) % 7 * 5) % 15 - 7  # [passage, dimension]
    drawn = expand_below(b"rank-1024", tables, dims * n)
    a = [of_transform(drawn[j * n : (j + 1) * n], n) for j in range(dims)]
    polynomials = [negacyclic(rows[:, j]) for j in range(dims)]
    hint = sum(p @ x for p, x in zip(polynomials, a)) % Q
    hint = (hint + (1 << 14)) >> 15
    stream = Stream(seed)
    secret = ternary(stream, n)
    noise = errors(stream, dims * n, 11).reshape(dims, n)
    amplitude = math.floor(Q / (2 * 1.1 * 44))
    z = (np.arange(dims) * 7 % 11 - 5) / 64
    samples = []
    for j in range(dims):
        b = (negacyclic(secret) @ a[j] + noise[j]) % Q
        b[0] = (b[0] + int(math.copysign(math.floor(abs(amplitude * z[j]) + 0.5), z[j]))) % Q
        samples.append((b + 128) >> 8)
    question = pack(np.concatenate(samples), 20)
    answer = sum(p @ ((s << 8) % Q) for p, s in zip(polynomials, samples)) % Q
    answer = (answer << 8) // Q
    mask = negacyclic(secret) @ ((hint << 15) % Q) % Q
    scores = (((2 * answer + 1) * Q) >> 9) - mask
    scores = (scores + Q // 2) % Q - Q // 2
    scores = scores / amplitude
    exact = rows @ z
    assert np.abs(scores - exact).max() < 2, np.abs(scores - exact).max()
    (OUT / "rank.hint.bin").write_bytes(pack(hint, 13))
    (OUT / "rank.question.bin").write_bytes(question)
    (OUT / "rank.answer.bin").write_bytes(answer.astype(np.uint8).tobytes())
    return {
        "randomness_sha256": hashlib.sha256(drawn.astype("<u4").tobytes()).hexdigest(),
        "scores": [round(float(x), 6) for x in scores[:16]],
        "scores_of_plain_products": [float(x) for x in exact[:16]],
    }


def fetch():
    n, rows, tables, seed, column = 2048, 32, bytes(range(50, 82)), bytes(range(7, 39)), 1234
    r, c = np.arange(rows)[:, None], np.arange(n)[None, :]
    table = (r * 97 + c * 13 + (r * c) % 31) % 256 - 128
    a = expand_words(b"text-2048", tables, n)
    matrix = negacyclic(a)
    hint = (((table @ matrix) + (1 << 15)) >> 16) & 0xFFFF
    stream = Stream(seed)
    secret = ternary(stream, n)
    b = matrix @ secret + errors(stream, n, 5)
    b[column] += 1 << 24
    sent = ((b + 32) % (1 << 32)) >> 6
    answer = (((table @ (sent << 6)) + (1 << 15)) >> 16) & 0xFFFF
    noisy = (answer << 16) - (hint << 16) @ secret
    found = ((noisy + (1 << 23)) >> 24) & 0xFF
    assert (((found + 128) & 0xFF) == table[:, column] + 128).all()
    (OUT / "text.hint.bin").write_bytes(hint.astype("<u2").tobytes())
    (OUT / "text.question.bin").write_bytes(pack(sent, 26))
    (OUT / "text.answer.bin").write_bytes(answer.astype("<u2").tobytes())
    return {
        "randomness_sha256": hashlib.sha256(a.astype("<u4").tobytes()).hexdigest(),
        "column": column,
        "bytes": [int(x) for x in table[:, column] + 128],
    }


if __name__ == "__main__":
    block = chacha_blocks(bytes(range(32)), 1, 1, bytes.fromhex("000000090000004a00000000"))[0]
    assert block[0] == 0xE4E7F110 and block[15] == 0x4E3C50A2, "ChaCha20 differs from RFC 8439"
    OUT.mkdir(parents=True, exist_ok=True)
    known = {"rank": rank(), "text": fetch()}
    (OUT / "known-answers.json").write_text(json.dumps(known, indent=1) + "\n")
    print(json.dumps(known["rank"]["scores"][:4]), "ok")
