"""The options of ``accelerate launch`` 1.15.0, as its own parser lists them (run)."""

from __future__ import annotations

from .options import Option, Options

_SWITCHES = """--quiet -q --enable_cpu_affinity --dynamo_use_fullgraph --dynamo_use_dynamic
--dynamo_use_regional_compilation --use_parallelism_config --same_network --tpu_cluster --no_tpu_cluster --tpu_use_sudo
--downcast_bf16 --fp8_use_autocast_during_eval --debug --help -h"""
_VALUES = """--mixed_precision --num_cpu_threads_per_process --dynamo_backend --dynamo_mode -t --tee --log_dir --role
--rdzv_conf --max_restarts --monitor_interval --vm --env --main_training_function --deepspeed_config_file --zero_stage
--offload_optimizer_device --offload_param_device --offload_optimizer_nvme_path --offload_param_nvme_path
--gradient_accumulation_steps --gradient_clipping --zero3_init_flag --zero3_save_16bit_model
--deepspeed_moe_layer_cls_names --aws_access_key_id --aws_secret_access_key --mpirun_hostfile"""
_PREFIXED = {
    "fsdp": """version offload_params min_num_params sharding_strategy reshard_after_forward auto_wrap_policy
transformer_layer_cls_to_wrap backward_prefetch state_dict_type forward_prefetch use_orig_params
cpu_ram_efficient_loading sync_module_states activation_checkpointing activation_checkpointing_offload""",
    "megatron_lm": """tp_degree use_custom_fsdp no_load_optim eod_mask_loss overlap_cpu_optimizer_d2h_h2d
no_save_optim optimizer_cpu_offload use_precision_aware_optimizer decoder_last_pipeline_num_layers pp_degree
num_micro_batches sequence_parallelism recompute_activations use_distributed_optimizer gradient_clipping
recompute_granularity recompute_method recompute_num_layers attention_backend expert_model_parallel_size
context_parallel_size attention_dropout hidden_dropout attention_softmax_in_fp32 expert_tensor_parallel_size
calculate_per_token_loss use_rotary_position_embeddings""",
    "fp8": """backend margin interval format amax_history_len amax_compute_algo override_linear_precision opt_level
enable_fsdp_float8_all_gather pad_inner_dim""",
    "parallelism_config": """dp_replicate_size dp_shard_size tp_size cp_size cp_backend cp_comm_strategy sp_size
sp_backend sp_seq_length sp_seq_length_is_variable sp_attn_implementation""",
}
_GPU = {
    "--gpu_ids": "gpu_ids",
    "--num_processes": "num_processes",
    "--num_machines": "num_machines",
    "--machine_rank": "machine_rank",
    "--config_file": "config_file",
    "--main_process_ip": "main_process_ip",
    "--main_process_port": "main_process_port",
    "--rdzv_backend": "rdzv_backend",
    "--deepspeed_hostfile": "deepspeed_hostfile",
    "--deepspeed_multinode_launcher": "deepspeed_multinode_launcher",
    "--deepspeed_inclusion_filter": "deepspeed_inclusion_filter",
    "--deepspeed_exclusion_filter": "deepspeed_exclusion_filter",
}

OPTIONS = Options(
    [
        *(Option(name, 1, key) for name, key in _GPU.items()),
        *(
            Option(f"--{key}", 0, key)
            for key in ("multi_gpu", "cpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "tpu")
        ),
        Option("-m --module", 0, "module"),
        Option("--no_python", 0, "no_python"),
        Option(_SWITCHES, 0),
        Option(_VALUES),
        *(Option(" ".join(f"--{head}_{name}" for name in names.split())) for head, names in _PREFIXED.items()),
    ],
    abbreviate=True,
    underscores=True,
)
