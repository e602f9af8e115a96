"""Matrices rounded to 4 bits for their inputs, for the tests of `server/encode/src/model/calibration.rs`.

    python tests/python/four_bits_reference.py     writes tests/fixtures/four-bits/golden.json.gz

Each case has inputs `[tokens, columns]` and weights `[rows, columns]`, and the steps `[rows, columns / 32]` and codes
`[rows, columns]` by the algorithm of GPTQ (Frantar et al. 2023, arXiv 2210.17323) in f64: after each column
the weights of all later ones are changed by the inverse of the inputs' second moments, columns with large second
moments first. Steps are chosen before, those with the least squared errors weighted by the second moments. `error` is
what the rounding does to the outputs, relative to them, and `plain` what it does when each weight is rounded by itself.
"""

import gzip
import json
import pathlib

import numpy

OUT = pathlib.Path(__file__).parents[1] / "fixtures" / "four-bits" / "golden.json.gz"
GROUP = 32
MOST_STEP = 15
RIDGE = 0.01
# Rows, columns, tokens: one has fewer tokens than columns, so that only the ridge makes the moments invertible.
SHAPES = [(5, 32, 100), (7, 96, 200), (3, 128, 60)]
STEPS = numpy.array([sign * step for step in range(1, MOST_STEP + 1) for sign in (1, -1)], dtype=float)


def nearest(values, steps):
    return numpy.clip(numpy.round(values / steps), -8, 7)


def best_steps(row, weights):
    """Returns the step of each group of a row, and of two that are as good the earlier one."""
    found = []
    for at in range(0, len(row), GROUP):
        group, weight = row[at : at + GROUP], weights[at : at + GROUP]
        errors = [(((nearest(group, step) * step - group) ** 2) * weight).sum() for step in STEPS]
        found.append(STEPS[int(numpy.argmin(errors))])
    return numpy.array(found)


def compensated(row, steps, moments):
    """Returns the codes of a row."""
    order = numpy.argsort(-numpy.diag(moments), kind="stable")
    inverse = numpy.linalg.inv(moments[numpy.ix_(order, order)])
    row, steps, codes = row[order].copy(), numpy.repeat(steps, GROUP)[order], numpy.zeros(len(row))
    for at in range(len(row)):
        codes[at] = nearest(row[at], steps[at])
        error = (row[at] - codes[at] * steps[at]) / inverse[0, 0]
        row[at + 1 :] -= error * inverse[0, 1:]
        # The inverse of the moments without this column.
        inverse = inverse[1:, 1:] - numpy.outer(inverse[1:, 0], inverse[0, 1:]) / inverse[0, 0]
    unordered = numpy.zeros(len(row))
    unordered[order] = codes
    return unordered


def main():
    draw = numpy.random.default_rng(19)
    cases = []
    for rows, columns, tokens in SHAPES:
        # Inputs that depend on each other, some of them a hundred times as large as others. f32 holds them exactly, and
        # the weights too.
        mixed = draw.normal(size=(tokens, columns)) @ draw.normal(size=(columns, columns))
        inputs = numpy.round(mixed * numpy.exp(draw.normal(size=columns)) * 4) / 4
        weights = numpy.round(draw.normal(size=(rows, columns)) * 1000) / 1024
        moments = inputs.T @ inputs
        moments[numpy.diag_indices(columns)] += RIDGE * numpy.diag(moments).mean()
        case = {"inputs": inputs.tolist(), "weights": weights.tolist(), "steps": [], "codes": []}
        rounded = {"error": [], "plain": []}
        for row in weights:
            scale = numpy.abs(row).max() / (8 * MOST_STEP)
            steps = best_steps(row / scale, numpy.diag(moments))
            codes = compensated(row / scale, steps, moments)
            plain = best_steps(row / scale, numpy.ones(columns))
            of_plain = nearest(row / scale, numpy.repeat(plain, GROUP)) * numpy.repeat(plain, GROUP)
            case["steps"].append([int(step) for step in steps])
            case["codes"].append([int(code) for code in codes])
            rounded["error"].append(codes * numpy.repeat(steps, GROUP) * scale)
            rounded["plain"].append(of_plain * scale)
        outputs = inputs @ weights.T
        for name, values in rounded.items():
            off = inputs @ (numpy.array(values) - weights).T
            case[name] = float(numpy.linalg.norm(off) / numpy.linalg.norm(outputs))
        cases.append(case)
    OUT.parent.mkdir(exist_ok=True)
    with open(OUT, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
        packed.write(json.dumps({"cases": cases}).encode())
    for case in cases:
        print(len(case["weights"]), len(case["weights"][0]), f"{case['error']:.4f}, each by itself {case['plain']:.4f}")


if __name__ == "__main__":
    main()
