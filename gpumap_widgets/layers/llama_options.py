"""Options of llama.cpp's programs, as tools/server/README.md (00dc805) lists them; those that choose GPUs have a key."""

from __future__ import annotations

from .options import Option, Options

_SWITCHES = """-h --help --usage --version -cl --cache-list --completion-bash --swa-full --perf --no-perf -e --escape --no-escape
-kvo --kv-offload -nkvo --no-kv-offload --repack -nr --no-repack --no-host --list-devices -cmoe --cpu-moe --check-tensors
--op-offload --no-op-offload --log-disable --log-jsonl --no-log-jsonl -v --verbose --log-verbose --offline --log-prefix
--no-log-prefix --log-timestamps --no-log-timestamps --ignore-eos --mlock --no-mmap --mmap -cb --cont-batching -nocb
--no-cont-batching --jinja --no-jinja --embedding --embeddings --rerank --reranking --metrics --props --slots --no-slots
--no-webui --webui --no-mmproj --mmproj-auto --no-mmproj-offload --mmproj-offload --context-shift --no-context-shift
--no-warmup --warmup --spm-infill -cnv --conversation -no-cnv --no-conversation -st --single-turn -i --interactive
-if --interactive-first -mli --multiline-input --prefill-assistant --no-prefill-assistant --kv-unified --no-kv-unified -kvu"""
_VALUES = """-t --threads -tb --threads-batch -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb --cpu-mask-batch
-Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch -c --ctx-size -n --predict --n-predict -b --batch-size
-ub --ubatch-size --keep --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx
--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast -ctk --cache-type-k -ctv --cache-type-v -dt
--defrag-thold --rpc -lm --load-mode -lzm --lazy-mode --numa -ot --override-tensor -ncmoe --n-cpu-moe --moe-cache-mib
-ncffn --n-cpu-ffn -ngl --gpu-layers --n-gpu-layers -fit --fit -fitt --fit-target -fitc --fit-ctx --override-kv --lora
--lora-scaled --control-vector --control-vector-scaled -m --model -mu --model-url -dr --docker-repo -hf -hfr --hf-repo
-hff --hf-file -hft --hf-token --log-file --log-colors -lv --verbosity --log-verbosity --spec-draft-type-k -ctkd
--cache-type-k-draft --spec-draft-type-v -ctvd --cache-type-v-draft --samplers -s --seed --sampler-seq --sampling-seq
--temp --temperature --top-k --top-p --min-p --top-nsigma --top-n-sigma --xtc-probability --xtc-threshold --typical
--typical-p --repeat-last-n --repeat-penalty --presence-penalty --frequency-penalty --dry-multiplier --dry-base
--dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker --dynatemp-range --dynatemp-exp --mirostat
--mirostat-lr --mirostat-ent -l --logit-bias --grammar --grammar-file -j --json-schema -jf --json-schema-file
--host --port --path --api-prefix --api-key --api-key-file --ssl-key-file --ssl-cert-file -to --timeout --threads-http
--cache-reuse --slot-save-path --chat-template --chat-template-file --reasoning-format --reasoning-budget
-sps --slot-prompt-similarity -np --parallel --pooling -a --alias -mm --mmproj -mmu --mmproj-url -md --model-draft
-devd --device-draft -ngld --gpu-layers-draft --n-gpu-layers-draft --draft --draft-max --draft-min --draft-p-min
-cram --cache-ram -p --prompt -f --file -sys --system-prompt -r --reverse-prompt -o --output -fa --flash-attn"""

OPTIONS = Options(
    [
        Option("-sm --split-mode", key="split_mode"),
        Option("-mg --main-gpu", key="main_gpu"),
        Option("-ts --tensor-split", key="tensor_split"),
        Option("-dev --device", key="device"),
        Option("--control-vector-layer-range", 2),
        Option(_SWITCHES, 0),
        Option(_VALUES),
    ],
    cluster=False,
)
