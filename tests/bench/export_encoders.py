"""Writes the starter model for LiteRT and CTranslate2: peers of `cargo xtask bench`, parts `precision` and `litert`.

    python tests/bench/export_encoders.py target/models/minilm target/bench 16 160

Writes ctranslate2-int8/ (weights in 8 bits), and for each length N litert/f32-N.tflite and litert/int8-N.tflite
(weights in 8 bits per output, activations quantized per token while it runs: the recipe `dynamic_wi8_afp32` of
ai-edge-quantizer). Inputs of the latter, in this order: ids, int32 [1, N], and mask, f32 [1, N], 1 for tokens and 0 for
padding. Output: the mean over the tokens at unit length, f32 [1, hidden]. Token types are zero inside the graph;
attention is written out, as in `export_onnx.py`.
"""

import pathlib
import sys

import ctranslate2
import litert_torch
import torch
import transformers
from ai_edge_quantizer import quantizer, recipe


class Pooled(torch.nn.Module):
    """The encoder, the mean over its tokens and the division by the length."""

    def __init__(self, directory):
        super().__init__()
        self.bert = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()

    def forward(self, ids, mask):
        # Four dimensions, ready to be added to the scores: transformers takes it as it is.
        added = (1.0 - mask)[:, None, None, :] * -1e9
        states = self.bert(input_ids=ids, attention_mask=added, token_type_ids=torch.zeros_like(ids)).last_hidden_state
        mean = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return mean / mean.pow(2).sum(1, keepdim=True).sqrt()


def main(source, target, lengths):
    target = pathlib.Path(target)
    converter = ctranslate2.converters.TransformersConverter(source)
    converter.convert(str(target / "ctranslate2-int8"), quantization="int8", force=True)
    target = target / "litert"
    target.mkdir(parents=True, exist_ok=True)
    encoder = Pooled(source)
    for length in map(int, lengths):
        inputs = (torch.full((1, length), 2000, dtype=torch.int32), torch.ones(1, length))
        wide = target / f"f32-{length}.tflite"
        litert_torch.convert(encoder, inputs).export(str(wide))
        narrow = quantizer.Quantizer(str(wide), recipe.dynamic_wi8_afp32())
        narrow.quantize().export_model(str(target / f"int8-{length}.tflite"), overwrite=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    with torch.no_grad():
        main(sys.argv[1], sys.argv[2], sys.argv[3:])
