#!/usr/bin/python3
"""Peak memory of PyTorch's own training step for small ONNX models, beside the planned arena.

    tools/bench/torch_step_memory.py CORPUS [--tool build/release/tools/cli/onnx-memplan]

CORPUS: a folder with models/train_*/{model.onnx,meta.json,train/x_0.npy,train/label.npy}. Each model
is run operator by operator with torch.nn.functional, which makes the allocations that the module it
was exported from makes; the peak is the largest number of bytes alive at once in one step after a
warm-up (torch.profiler's memory events), parameters and optimizer state apart. Needs python3-torch
and python3-onnx (Debian).
"""

import argparse
import glob
import json
import os
import subprocess
import tempfile

import numpy
import onnx
from onnx import numpy_helper
import torch
import torch.nn.functional as F


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def pad_pairs(pads, axes):
    """ONNX's begins and ends as one number for each axis; the cases pad symmetrically."""
    assert list(pads[:axes]) == list(pads[axes:]), pads
    return list(pads[:axes])


def conv(a, x, w, b=None):
    axes = w.dim() - 2
    f = {1: F.conv1d, 2: F.conv2d}[axes]
    return f(x, w, b, a.get("strides", [1] * axes), pad_pairs(a.get("pads", [0] * 2 * axes), axes),
             a.get("dilations", [1] * axes), a.get("group", 1))


def conv_transpose(a, x, w, b=None):
    axes = w.dim() - 2
    return F.conv_transpose2d(x, w, b, a.get("strides", [1] * axes),
                              pad_pairs(a.get("pads", [0] * 2 * axes), axes),
                              a.get("output_padding", [0] * axes), a.get("group", 1))


def batch_norm(a, x, scale, bias, mean, var):
    training = a.get("training_mode", 0) == 1
    return F.batch_norm(x, mean, var, scale, bias, training, 1 - a.get("momentum", 0.9),
                        a.get("epsilon", 1e-5))


def gemm(a, x, w, b):
    assert a.get("transB", 0) == 1 and a.get("transA", 0) == 0
    return F.linear(x, w, b)


def max_pool(a, x):
    return F.max_pool2d(x, a["kernel_shape"], a.get("strides"),
                        pad_pairs(a.get("pads", [0] * 4), 2))


def reduce_mean(a, x, axes=None):
    axes = a["axes"] if axes is None else axes.tolist()
    return x.mean(list(axes), keepdim=a.get("keepdims", 1) == 1)


def take(a, x, starts, ends, axes, steps=None):
    for i, axis in enumerate(axes.tolist()):
        end = min(ends[i].item(), x.shape[axis])
        x = x[(slice(None),) * (axis % x.dim()) + (slice(starts[i].item(), end),)]
    return x


OPS = {
    "Add": lambda a, x, y: x + y,
    "BatchNormalization": batch_norm,
    "Clip": lambda a, x, low, high: F.hardtanh(x, low.item(), high.item()),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Div": lambda a, x, y: x / y,
    "Erf": lambda a, x: torch.erf(x),
    "Flatten": lambda a, x: x.flatten(1),
    "Gather": lambda a, x, i: torch.index_select(x, a.get("axis", 0), i.reshape(-1)).reshape(
        x.shape[:a.get("axis", 0)] + i.shape + x.shape[a.get("axis", 0) + 1:]),
    "Gemm": gemm,
    "GlobalAveragePool": lambda a, x: F.adaptive_avg_pool2d(x, 1),
    "Identity": lambda a, x: x,
    "LayerNormalization": lambda a, x, w, b: F.layer_norm(x, w.shape, w, b, a.get("epsilon", 1e-5)),
    "MatMul": lambda a, x, y: x @ y,
    "MaxPool": max_pool,
    "Mul": lambda a, x, y: x * y,
    "Pow": lambda a, x, y: x**y.item(),
    "ReduceMean": reduce_mean,
    "Relu": lambda a, x: F.relu(x, inplace=False),
    "Reshape": lambda a, x, shape: x.reshape(shape.tolist()),
    "Shape": lambda a, x: torch.tensor(x.shape),
    "Sigmoid": lambda a, x: torch.sigmoid(x),
    "Slice": take,
    "Softmax": lambda a, x: F.softmax(x, a.get("axis", -1)),
    "Sqrt": lambda a, x: torch.sqrt(x),
    "Sub": lambda a, x, y: x - y,
    "Tanh": lambda a, x: torch.tanh(x),
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Unsqueeze": lambda a, x, axes: x.reshape([
        d for i in range(x.dim() + 1)
        for d in ([1] if i in axes.tolist() else []) + ([x.shape[i]] if i < x.dim() else [])
    ]),
}


def forward(graph, x, parameters):
    values = dict(parameters)
    values[[i.name for i in graph.input if i.name not in values][0]] = x
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    for node in graph.node:
        a = attributes(node)
        if node.op_type == "Constant":
            values[node.output[0]] = torch.from_numpy(numpy_helper.to_array(a["value"]).copy())
            continue
        values[node.output[0]] = OPS[node.op_type](a, *[values[i] for i in node.input if i])
        # Python would otherwise hold what the module lets go.
        for name in node.input:
            readers[name] -= 1
            if readers[name] == 0 and name not in parameters:
                del values[name]
    return values[graph.output[0].name]


def loss_of(kind, y, target):
    if kind == "mse_mean":
        return F.mse_loss(y, target)
    if kind == "bce_with_logits_mean":
        return F.binary_cross_entropy_with_logits(y, target)
    return F.cross_entropy(y, target)


def allocations(nodes):
    for node in nodes:
        fields = node.extra_fields
        if hasattr(fields, "alloc_size"):
            yield node.start_time_ns, fields.alloc_size
        yield from allocations(node.children)


def torch_peak(folder, meta):
    graph = onnx.load(os.path.join(folder, "model.onnx")).graph
    trained = {p["onnx_initializer"] for p in meta["params"] if p["role"] == "trained"}
    parameters = {}
    for tensor in graph.initializer:
        value = torch.from_numpy(numpy_helper.to_array(tensor).copy())
        parameters[tensor.name] = value.requires_grad_() if tensor.name in trained else value
    leaves = [p for p in parameters.values() if p.requires_grad]
    kind = meta["optimizer"]["kind"]
    numbers = {k: v for k, v in meta["optimizer"].items() if k != "kind"}
    optimizer = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind](leaves, **numbers)
    x = torch.from_numpy(numpy.load(os.path.join(folder, "train/x_0.npy")))
    target = torch.from_numpy(numpy.load(os.path.join(folder, "train/label.npy")))

    def step():
        loss = loss_of(meta["loss"], forward(graph, x, parameters), target)
        loss.backward()
        optimizer.step()

    for _ in range(2):
        step()
        optimizer.zero_grad(set_to_none=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        step()
    tree = profile.profiler.kineto_results.experimental_event_tree()
    live = peak = 0
    for _, size in sorted(allocations(tree), key=lambda event: event[0]):
        live += size
        peak = max(peak, live)
    return peak


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--tool", default="build/release/tools/cli/onnx-memplan")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    losses = {"mse_mean": "mse", "bce_with_logits_mean": "bce-with-logits"}
    ratios = []
    print("| case | PyTorch peak B | arena B | ratio | proven |\n|---|---|---|---|---|")
    for folder in sorted(glob.glob(os.path.join(arguments.corpus, "models", "train_*"))):
        with open(os.path.join(folder, "meta.json")) as file:
            meta = json.load(file)
        peak = torch_peak(folder, meta)
        with tempfile.TemporaryDirectory() as scratch:
            report = os.path.join(scratch, "report.json")
            optimizer = meta["optimizer"]
            command = [arguments.tool, os.path.join(folder, "model.onnx"), "--train", "-q", "--report",
                       report, "--loss", losses.get(meta["loss"], "cross-entropy"),
                       "--optimizer", optimizer["kind"]]
            if optimizer.get("momentum"):
                command += ["--momentum", str(optimizer["momentum"])]
            for prefix in meta["trainable_prefixes"] or []:
                command += ["--trainable", prefix + "*"]
            subprocess.run(command, check=True)
            with open(report) as file:
                ours = json.load(file)
        ratios.append(ours["arena_bytes"] / peak)
        print(f"| {meta['name']} | {peak} | {ours['arena_bytes']} | {ratios[-1]:.3f} | "
              f"{'yes' if ours['proven_optimal'] else 'no'} |", flush=True)
    print(f"\naverage ratio {sum(ratios) / len(ratios):.3f}")


if __name__ == "__main__":
    main()
