"""The keys that a fingerprint leaves alone on purpose, with the reason for each group.

A key of the file is handled (some reader asked for it), in one of the two tables here, or
listed in `ModelSpec.unread`. So nothing is dropped in silence.
"""

from __future__ import annotations

from typing import Final

from labkit.config_reading.reader import Reader

# Keys that do not enter the function the model computes.
IGNORED_BY_REASON: Final[dict[str, str]] = {
    "bookkeeping of the file and of the library that wrote it": (
        "_name_or_path transformers_version transformers.js_config auto_map architectures "
        "_from_model_config _attn_implementation_autoset _commit_hash tokenizer_class "
        "tokenizer_name task_specific_params finetuning_task id2label label2id problem_type "
        "num_labels torchscript model_version unsloth_fixed unsloth_version for_llm_compressor "
        "is_llama_config name"
    ),
    "tokens, a matter of the tokenizer and of generation": (
        "bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id "
        "decoder_start_token_id unk_token_id prefix"
    ),
    "initial weights, of no effect on trained ones": (
        "initializer_range initializer_factor init_config init_device init_std init_method "
        "block_mlp_init_scale block_out_init_scale block_use_xavier_init conv_use_xavier_init "
        "rescale_prenorm_residual time_step_floor time_step_min time_step_max time_step_rank "
        "use_scaled_init_for_output_weights embed_init_std output_proj_init_std"
    ),
    "training only: dropout and losses": (
        "attention_dropout attention_probs_dropout_prob attn_pdrop attn_dropout_prob embd_pdrop "
        "emb_pdrop emb_dropout_prob embedding_dropout resid_pdrop residual_dropout dropout "
        "hidden_dropout hidden_dropout_prob activation_dropout classifier_dropout layerdrop "
        "router_aux_loss_coef aux_loss_alpha seq_aux router_jitter_noise router_z_loss_coef "
        "summary_activation summary_first_dropout summary_proj_to_labels summary_type "
        "summary_use_proj gradient_checkpointing"
    ),
    "generation defaults that old configs carry": (
        "max_length min_length do_sample early_stopping num_beams num_beam_groups "
        "diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty "
        "no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences "
        "output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id "
        "remove_invalid_values exponential_decay_length_penalty suppress_tokens "
        "begin_suppress_tokens num_logits_to_keep"
    ),
    "which outputs are returned, or how they are kept": (
        "output_attentions output_hidden_states output_router_logits return_dict use_return_dict "
        "use_cache cache_implementation chunk_size_feed_forward tf_legacy_loss verbose"
    ),
    "which kernel runs, not what is computed": (
        "_attn_implementation attn_implementation use_flash_attn use_flash_attention "
        "use_mamba_kernels pretraining_tp ep_size use_bfloat16 bf16 fp16 fp32 "
        "attention_softmax_in_fp32 scale_attention_softmax_in_fp32 softmax_in_fp32 "
        "bias_dropout_fusion rescale_every runner_max_sequence_length"
    ),
    "encoder-decoder wiring that a decoder leaves off": (
        "is_decoder is_encoder_decoder add_cross_attention cross_attention_hidden_size "
        "tie_encoder_decoder pruned_heads"
    ),
    "another modality's encoder or connector, which keeps nothing per token": (
        "vision_config audio_config vision_tower mm_vision_tower projector_bias "
        "projector_hidden_act projector_hidden_size projector_use_layernorm downsample_factor "
        "encoder_patch_size max_image_tokens min_image_tokens max_pixels_tolerance max_tiles "
        "min_tiles tile_size do_image_splitting use_image_special_tokens use_thumbnail "
        "vision_soft_tokens_per_image image_placeholder ignore_index image_size "
        "mm_tokens_per_image vision_feature_layer vision_feature_select_strategy img_processor "
        "embd_layer multimodal_projector_bias spatial_merge_size"
    ),
}

# Keys that do enter the function, but move no figure of the fingerprint.
OUTSIDE_BY_REASON: Final[dict[str, str]] = {
    "width, form and wiring of the feed-forward part": (
        "intermediate_size n_inner ffn_hidden_size ffn_dim expansion_ratio mlp_bias mlp_type "
        "hidden_act hidden_activation activation_function mlp_hidden_act intermediate_size_mlp "
        "moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size "
        "shared_intermediate_size mlp_only_layers decoder_sparse_step first_k_dense_replace "
        "moe_layer_freq interleave_moe_layer_step moe_layers n_shared_experts num_shared_experts "
        "norm_topk_prob routed_scaling_factor scoring_func topk_group topk_method n_group "
        "use_routing_bias swiglu_limit use_double_wide_mlp block_auto_adjust_ff_dim block_dim "
        "block_ff_dim block_ffn_dim_multiplier block_multiple_of block_use_swiglu "
        "activation_situ_beta activation_situ_linear_beta latent_moe_use_norm moe_renormalize "
        "moe_router_activation_func num_expert_group routed_expert_hidden_size use_grouped_topk "
        "expert_layer_period expert_layer_offset mlp_layer_types num_dense_layers "
        "moe_num_shared_experts"
    ),
    "norms, biases and scales": (
        "rms_norm_eps layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_eps norm_epsilon "
        "norm_type rmsnorm block_norm_eps post_layer_norm "
        "apply_residual_connection_post_layernorm attention_bias qkv_bias use_bias use_qkv_bias "
        "add_bias_linear add_qkv_bias bias no_bias lm_head_bias conv_bias use_conv_bias "
        "mamba_proj_bias use_qk_norm qk_norm_type qk_layernorm logit_scale scale_emb scale_depth "
        "dim_model_base attention_value_scale query_pre_attn_scalar embedding_multiplier "
        "attention_multiplier residual_multiplier logits_scaling embedding_fraction "
        "fp32_residual_connection residual_in_fp32 parallel_attn use_parallel_residual "
        "hidden_size_per_layer_input vocab_size_per_layer_input do_layer_norm_before "
        "word_embed_proj_dim attn_res_block_size"
    ),
    "details of attention that keep the cache as it is": (
        "scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn "
        "apply_query_key_layer_scaling use_logn_attn attn_output_gate mla_use_output_gate "
        "q_lora_rank qk_head_dim add_swa_attention_sink_bias add_full_attention_sink_bias "
        "swa_num_attention_heads use_bidirectional_attention full_attn_mod interpolate_factor "
        "clip_qkv"
    ),
    "indexer keys of sparse attention, kept beside the cache and not counted": (
        "index_head_dim index_n_heads index_topk indexer_rope_interleave"
    ),
    "base and share of rotary positions": (
        "rope_theta rotary_emb_base rope_local_base_freq swa_rope_theta rotary_pct rotary_dim "
        "partial_rotary_factor rope_interleave rope_interleaved original_rope rotary use_pos_enc "
        "no_rope_layers no_rope_layer_interval"
    ),
    "size of recurrent states, which do not grow with the text": (
        "linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_num_value_heads "
        "linear_value_head_dim mamba_ssm_dtype mamba_ssm_cache_dtype mamba_head_dim "
        "mamba_num_heads mamba_hidden_act mamba_d_state mamba_d_conv mamba_expand mamba_dt_rank "
        "mamba_n_heads mamba_d_head mamba_n_groups mamba_chunk_size mamba_conv_bias chunk_size "
        "conv_kernel conv_L_cache conv_dim conv_dim_out expand n_groups ssm_state_size state_size "
        "time_step_limit head_size attention_hidden_size lru_width conv1d_width"
    ),
    "prediction heads behind the decoder, not part of plain decoding": (
        "num_nextn_predict_layers mtp_num_hidden_layers mtp_use_dedicated_embeddings use_mtp "
        "mtp_transformer_layers num_mtp_modules"
    ),
}

ENDINGS_OF_TOKENS: Final = ("_token_id", "_token_index", "_token_ids")


def _by_key(groups: dict[str, str]) -> dict[str, str]:
    return {key: reason for reason, keys in groups.items() for key in keys.split()}


IGNORED: Final = _by_key(IGNORED_BY_REASON)
OUTSIDE: Final = _by_key(OUTSIDE_BY_REASON)
_LEFT_ALONE: Final = frozenset(IGNORED) | frozenset(OUTSIDE)


def unread_keys(reader: Reader, outer: Reader) -> tuple[str, ...]:
    """Return the keys nobody read or knowingly left alone, with their path."""
    unread = _unread_of(outer)
    if reader is not outer:
        unread += _unread_of(reader)
    return tuple(unread)


def _unread_of(reader: Reader) -> list[str]:
    left = reader.fields.keys() - reader.seen - _LEFT_ALONE
    return [
        reader.prefix + str(key)
        for key in sorted(left, key=str)
        if not str(key).endswith(ENDINGS_OF_TOKENS)
    ]
