"""Families read as conservatively as can be, each proven by the cache of a tiny twin.

Nothing is taken for granted where a key is missing; what the keys say together is what
transformers 5.24 allocates (`labkit fingerprints --prove`).
"""

from __future__ import annotations

from labkit.config_reading.family import Family

STATED = Family(
    model_types=(
        "beam", "cohere_compass", "flint", "kolibri1", "laguna", "lara_mini", "lfm3",
        "minimax_m3_vl", "moshi", "zaya",
    ),
    positions="rope",
    missing_head_dim="open",
)  # fmt: skip

# No key for KV heads exists; every query head has its own.
EVERY_HEAD = Family(
    model_types=("hrm", "modernbert-decoder"), positions="rope", missing_kv_heads="heads"
)

LATENT = Family(
    model_types=("axk2", "hy_v4"),
    positions="rope",
    missing_kv_heads="heads",
    missing_head_dim="open",
    latent=True,
)

LATENT_HYBRID = Family(
    model_types=("bailing_hybrid",),
    positions="rope",
    missing_head_dim="open",
    layers="listed",
    latent=True,
)

FAMILIES = (STATED, EVERY_HEAD, LATENT, LATENT_HYBRID)
