"""Random weights and the config.json of small models."""

import torch


def randomize(model, seed, large=("embeddings",)):
    """Weights large enough that attention is not uniform and every bias and LayerNorm matters, as half precision.

    Matrices with a part of `large` in their names get twice as large ones as the others.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                noise = 1.0 + 0.2 * noise if name.endswith("weight") else 0.1 * noise
            else:
                noise = noise * (0.5 if any(part in name for part in large) else 0.25)
            parameter.copy_(noise.half())
    return model


def config_of(config, architecture, drop=(), **extra):
    fields = {k: v for k, v in config.to_dict().items() if v is not None and not k.startswith("_")}
    for key in ("transformers_version", "dtype", *drop):
        fields.pop(key, None)
    return {**dict(sorted(fields.items())), "architectures": [architecture], **extra}
