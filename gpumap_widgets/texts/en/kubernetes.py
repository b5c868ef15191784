"""What Kubernetes and its device plugins do, and what they refuse."""

SENTENCES = {
    "step.kubernetes.asks": "The container asks for {count} × {resource}. The name of the resource does not tell models apart.",
    "step.kubernetes.replicas": "There are {replicas} such pods; each gets GPUs of its own, on whichever node it lands. One of them is shown.",
    "step.kubernetes.told": "The device plugin gave the devices that are named here.",
    "step.kubernetes.every": "That is every device of this node, so there is nothing to choose.",
    "step.kubernetes.choice": "Which devices it gets is the plugin's choice, by topology among those that are free; load is not measured. The first ones are shown; give them to be sure: assume allocated=[…].",
    "step.kubernetes.strategy": "The plugin's strategy is {strategy}: NVIDIA_VISIBLE_DEVICES is “{value}” in the container. It never sets CUDA_VISIBLE_DEVICES.",
    "step.kubernetes.gke": "GKE's plugin passes /dev/nvidiaN and the driver's libraries; it sets no list of GPUs.",
    "step.kubernetes.overridden": "The pod's own NVIDIA_VISIBLE_DEVICES={value} comes behind the plugin's and wins: the container gets those GPUs, whatever was allocated.",
    "step.kubernetes.none": "The container asks for no GPU and gets none.",
    "step.kubernetes.unasked": "The container asks for no GPU. With NVIDIA's plugin and runtime an image that sets NVIDIA_VISIBLE_DEVICES=all then sees every GPU of the node.",
    "step.kubernetes.time-slicing": "Time-slicing: other pods have the same GPU. The container still counts it as cuda:0.",
    "step.kubernetes.mps": "Shared by MPS: other pods have the same GPU, each with a part of its memory. The container still counts it as cuda:0.",
    "error.kubernetes.pending": "The pod stays Pending: Insufficient {resource} ({count} asked for, {free} on this node).",
    "error.kubernetes.unknown": "invalid allocation request for '{resource}': unknown device: {name}.",
    "error.kubernetes.too-many": "request for '{resource}: {count}' too large: maximum request size for shared resources is 1.",
    "error.kubernetes.fraction": "The Pod is invalid: resources.limits[{resource}]: must be an integer.",
    "error.kubernetes.no-limit": "The Pod is invalid: resources.limits[{resource}]: Required value: Limit must be set for non overcommitable resources.",
    "error.kubernetes.unequal": "The Pod is invalid: resources.requests[{resource}]: must be equal to {resource} limit.",
    "error.kubernetes.env": "The Pod is invalid: env[].value must be a string: a number or true/false needs quotes.",
}
