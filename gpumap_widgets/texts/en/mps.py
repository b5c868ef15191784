"""What MPS does to numbers."""

SENTENCES = {
    "step.mps.all": "An MPS server serves every GPU, numbered from 0: {gpus}. The lists of its clients count within that.",
    "step.mps.list": "An MPS server that was started with CUDA_VISIBLE_DEVICES=“{value}” serves these GPUs, numbered from 0: {gpus}. The lists of its clients count within that.",
    "step.mps.none": "An MPS server that was started with CUDA_VISIBLE_DEVICES=“{value}” serves no GPU.",
    "error.mps.client": "A client of MPS with CUDA_VISIBLE_DEVICES=“{value}” gets an error: the server numbers its {count} GPUs from 0 and has applied the list already. Unset it for the client, or use UUIDs.",
}
