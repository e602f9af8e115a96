"""Writes the starter model as ONNX, for onnxruntime in Python and in the browser: the peers of `cargo xtask bench`.

    python tests/bench/export_onnx.py target/models/minilm target/bench

Writes model.onnx (fp32) and model.int8.onnx (dynamic quantisation, per-channel weights). Inputs input_ids and
attention_mask, int64 [batch, tokens]; output last_hidden_state, f32 [batch, tokens, hidden]. Token types are zero
inside the graph. The graph is the one transformers runs, with attention written out (no fused operator).
"""

import pathlib
import shutil
import sys

import torch
import transformers
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.shape_inference import quant_pre_process


class LastHiddenState(torch.nn.Module):
    """The encoder with its inputs and output as the peers want them."""

    def __init__(self, directory):
        super().__init__()
        self.bert = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()

    def forward(self, input_ids, attention_mask):
        types = torch.zeros_like(input_ids)
        # Four dimensions, ready to be added to the scores: transformers takes it as it is, and the graph stays clean.
        mask = (1.0 - attention_mask.float())[:, None, None, :] * -1e9
        return self.bert(input_ids=input_ids, attention_mask=mask, token_type_ids=types).last_hidden_state


def main(source, target):
    target = pathlib.Path(target)
    target.mkdir(parents=True, exist_ok=True)
    ids = torch.randint(1000, 20000, (2, 12))
    names = {"input_ids": {0: "batch", 1: "tokens"}, "attention_mask": {0: "batch", 1: "tokens"}}
    torch.onnx.export(
        LastHiddenState(source),
        (ids, torch.ones_like(ids)),
        str(target / "model.onnx"),
        input_names=list(names),
        output_names=["last_hidden_state"],
        dynamic_axes={**names, "last_hidden_state": {0: "batch", 1: "tokens"}},
        opset_version=17,
        dynamo=False,
    )
    prepared = target / "prepared.onnx"
    quant_pre_process(str(target / "model.onnx"), str(prepared), skip_symbolic_shape=True)
    quantize_dynamic(
        str(prepared), str(target / "model.int8.onnx"), per_channel=True, weight_type=QuantType.QInt8
    )
    prepared.unlink()
    for name in ("tokenizer.json", "config.json"):
        shutil.copy(pathlib.Path(source) / name, target / name)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with torch.no_grad():
        main(*sys.argv[1:])
