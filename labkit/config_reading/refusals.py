"""Files that are no causal language model's config, refused by what they are.

Encoders carry every key that a decoder needs (`use_cache` too), so the shape of the file
decides nothing: the name of the type, the class and a few switches do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from labkit.config_reading.reader import Reader, shown

_TYPES_BY_KIND: Final = {
    "an encoder": (
        "albert bert big_bird camembert canine convbert data2vec-text deberta deberta-v2 "
        "distilbert electra ernie ernie_m esm eurobert flaubert fnet funnel ibert layoutlm "
        "layoutlmv2 layoutlmv3 lilt longformer luke markuplm megatron-bert mobilebert modernbert "
        "mpnet mra nezha nomic_bert nystromformer perceiver rembert roberta "
        "roberta-prelayernorm roc_bert roformer splinter squeezebert tapas xlm xlm-roberta "
        "xlm-roberta-xl xmod yoso new gte"
    ),
    "an encoder-decoder": (
        "bart bigbird_pegasus blenderbot blenderbot-small encoder-decoder fsmt led longt5 "
        "m2m_100 marian mbart mt5 mvp nllb-moe pegasus pegasus_x plbart prophetnet "
        "switch_transformers t5 t5gemma t5gemma2 umt5 pix2struct udop xlm-prophetnet "
        "vision-encoder-decoder donut-swin florence2"
    ),
    "a speech or audio model": (
        "whisper wav2vec2 wav2vec2-bert wav2vec2-conformer hubert wavlm unispeech unispeech-sat "
        "sew sew-d speech_to_text speecht5 seamless_m4t seamless_m4t_v2 bark encodec dac clap "
        "audio-spectrogram-transformer data2vec-audio musicgen musicgen_melody moonshine vits "
        "fastspeech2_conformer univnet speech-encoder-decoder mimi parakeet_ctc"
    ),
    "a vision model": (
        "vit vit_mae vit_msn deit beit swin swinv2 dinov2 dinov3_vit convnext convnextv2 resnet "
        "detr deformable_detr conditional_detr yolos segformer mask2former maskformer oneformer "
        "sam sam2 dpt glpn depth_anything efficientnet mobilenet_v1 mobilenet_v2 mobilevit "
        "regnet poolformer levit cvt pvt videomae timesformer vivit data2vec-vision "
        "siglip_vision_model clip_vision_model"
    ),
    "a contrastive text-and-image encoder": (
        "clip clip_text_model siglip siglip2 siglip_text_model align altclip chinese_clip "
        "clipseg groupvit flava bridgetower metaclip_2 owlvit owlv2 vilt visual_bert lxmert "
        "xclip blip_2_qformer grounding-dino colpali colqwen2"
    ),
}
KIND_OF_TYPE: Final = {
    model_type: kind for kind, types in _TYPES_BY_KIND.items() for model_type in types.split()
}

FOREIGN_HEADS: Final = (
    "ForMaskedLM",
    "ForPreTraining",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForNextSentencePrediction",
    "ForImageClassification",
    "ForObjectDetection",
    "ForSemanticSegmentation",
    "ForCTC",
    "ForAudioClassification",
    "ForSpeechSeq2Seq",
    "ForRewardModel",
    "RewardModel",
)

OTHER_DOCUMENTS: Final = {
    "_class_name": "a diffusers component",
    "_diffusers_version": "a diffusers component",
    "peft_type": "an adapter (PEFT), whose base model has the config to read",
    "added_tokens_decoder": "a tokenizer's config",
    "weight_map": "an index of weight files",
    "image_processor_type": "an image processor's config",
    "feature_extractor_type": "a feature extractor's config",
}

REMEDY: Final = "Name the config.json of a causal language model."


def refusal_of(reader: Reader) -> str | None:
    """Return why the object is no causal language model's config, None where it may be one."""
    fields = reader.fields
    for key, what in OTHER_DOCUMENTS.items() if fields.get("model_type") is None else ():
        if key in fields:
            return (
                f"A config must describe a causal language model; {reader.prefix}{key}="
                f"{shown(fields[key])} says that this is {what}. {REMEDY}"
            )
    kind = _kind(fields)
    if kind is None:
        return None
    said = ", ".join(
        f"{reader.prefix}{key}={shown(fields[key])}"
        for key in ("model_type", "architectures", "is_encoder_decoder")
        if fields.get(key) is not None
    )
    return f"A config must describe a causal language model; {said} says {kind}. {REMEDY}"


def _kind(fields: Mapping[str, object]) -> str | None:
    model_type = fields.get("model_type")
    kind = KIND_OF_TYPE.get(model_type) if isinstance(model_type, str) else None
    if kind == "an encoder" and fields.get("is_decoder") is True:
        return None  # a BERT trained as a decoder says so
    if kind is not None:
        return kind
    if fields.get("is_encoder_decoder") is True:
        return "an encoder-decoder"
    heads = [
        name
        for name in class_names(fields)
        if name.endswith(FOREIGN_HEADS) and not name.endswith("ForCausalLM")
    ]
    return "a model with another head than a language model's" if heads else None


def class_names(fields: Mapping[str, object]) -> list[str]:
    """Return the strings in `architectures`, none where it is anything else."""
    names = fields.get("architectures")
    if not isinstance(names, list | tuple):
        return []
    return [name for name in names if isinstance(name, str)]
