"""Rounding to bf16 and linear layers in bf16 and in 8 bits, for the tests of `core/src/kernel/encoder`.

    python tests/python/precision_reference.py     writes tests/fixtures/precision/golden.json.gz

`rounding` are bits of f32 numbers with the bits of the bf16 that PyTorch makes of them. `layers` are inputs `[m, k]`,
weights `[n, k]` and biases `[n]` with the outputs by the definition, in f64: `bf16` of operands that PyTorch rounded,
and `int8` of weights in 8 bits with a scale for each 128 of an output, and inputs as an offset and 255 steps for each
128 of a row.
"""

import gzip
import json
import pathlib

import numpy
import torch

OUT = pathlib.Path(__file__).parents[1] / "fixtures" / "precision" / "golden.json.gz"
SHAPES = [(1, 1, 1), (5, 7, 3), (4, 33, 21), (6, 70, 20), (2, 300, 10)]


def rounding(draw):
    """Ties to even on both sides, zeros, subnormal numbers, the largest ones, infinities and a NaN, then random bits."""
    chosen = [0, 0x80000000, 1, 0x80000001, 0x00008000, 0x00018000, 0x007FFFFF, 0x00800000, 0x3F808000, 0x3F818000]
    chosen += [0x3F807FFF, 0x3F808001, 0xBF808000, 0xBF818000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF, 0xFF7FFFFF]
    chosen += [0x7F800000, 0xFF800000, 0x7FC00000]
    bits = numpy.array(chosen + list(draw.integers(0, 1 << 32, 200)), dtype=numpy.uint32)
    rounded = torch.from_numpy(bits.view(numpy.float32).copy()).to(torch.bfloat16).view(torch.int16).numpy()
    return [[int(a), int(b)] for a, b in zip(bits, rounded.view(numpy.uint16))]


def in_bf16(values):
    return torch.from_numpy(values).to(torch.bfloat16).double().numpy()


def in_int8(weights, inputs):
    """Weights and inputs as they are in 8 bits, in f64. Halves are avoided by the draw, so their direction is left open."""
    weights, inputs = (numpy.split(rows, range(128, rows.shape[1], 128), axis=1) for rows in (weights, inputs))
    join = lambda function, groups: numpy.concatenate([function(group) for group in groups], axis=1)
    return join(signed, weights), join(steps, inputs)


def signed(weights):
    scale = numpy.abs(weights).max(1, keepdims=True).astype(numpy.float64) / 127
    return numpy.rint(weights / numpy.where(scale == 0, 1, scale)) * scale


def steps(inputs):
    least, most = (f(inputs, 1, keepdims=True).astype(numpy.float64) for f in (numpy.min, numpy.max))
    step = (most - least) / 255
    return numpy.rint((inputs - least) / numpy.where(step == 0, 1, step)) * step + least


def layer(draw, m, k, n):
    inputs, weights, bias = (draw.standard_normal(shape).astype(numpy.float32) for shape in [(m, k), (n, k), n])
    if m > 3:
        inputs[1], inputs[2], inputs[3, 0] = 0, -0.75, 40
    weights8, inputs8 = in_int8(weights, inputs)
    outputs = {"bf16": in_bf16(inputs) @ in_bf16(weights).T + bias, "int8": inputs8 @ weights8.T + bias}
    numbers = {"inputs": inputs, "weights": weights, "bias": bias, **outputs}
    return {"m": m, "k": k, "n": n, **{name: values.ravel().tolist() for name, values in numbers.items()}}


def main():
    draw = numpy.random.default_rng(20261123)
    golden = {"rounding": rounding(draw), "layers": [layer(draw, *shape) for shape in SHAPES]}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(gzip.compress(json.dumps(golden, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    main()
