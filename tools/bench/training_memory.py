#!/usr/bin/python3
"""Memory of one training step against PyTorch's, for the networks of OLLA's evaluation.

    tools/bench/export_training_models.py MODELS
    tools/bench/training_memory.py MODELS TRACES [--tool build/release/tools/cli/onnx-memplan]

MODELS: files NAME_BATCH.onnx. TRACES: files NAME_BATCH_train.json of recorded PyTorch steps with
`measures.max_live` (bytes alive at once) and `measures.cuda_step.reserved` (what PyTorch's caching
allocator takes for the step alone). Prints a Markdown table: both, the same graph in program order
with ideal packing and nothing fused, computed again or masked, and ours; parameters apart. SGD
without momentum, as in the traces: there is no optimizer state.
"""

import argparse
import glob
import json
import os
import subprocess
import tempfile
import time

LOSSES = {"transformer": "mse"}


def plan(tool, model, loss, extra):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [tool, model, "--train", "--loss", loss, "--report", report, "-q"] + extra
        start = time.monotonic()
        run = subprocess.run(command, capture_output=True, text=True)
        seconds = time.monotonic() - start
        if run.returncode != 0:
            return run.stderr.strip().split("\n")[-1], seconds
        with open(report) as file:
            return json.load(file), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models")
    parser.add_argument("traces")
    parser.add_argument("--tool", default="build/release/tools/cli/onnx-memplan")
    parser.add_argument("--only", nargs="*", default=[""])
    arguments = parser.parse_args()
    print("| network | batch | PyTorch live MB | reserved MB | program order MB | ours MB | against "
          "reserved | against live | bound MB | proven | planning s | whole run s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    reductions = {}
    for path in sorted(glob.glob(os.path.join(arguments.models, "*.onnx"))):
        name, _, batch = os.path.basename(path)[:-len(".onnx")].rpartition("_")
        trace = os.path.join(arguments.traces, f"{name}_{batch}_train.json")
        if not os.path.exists(trace) or not any(only in path for only in arguments.only):
            continue
        with open(trace) as file:
            measures = json.load(file)["measures"]
        live = measures["max_live"]
        reserved = measures["cuda_step"]["reserved"]
        loss = LOSSES.get(name, "cross-entropy")
        ours, seconds = plan(arguments.tool, path, loss, [])
        if isinstance(ours, str):
            print(f"| {name} | {batch} | {ours} |", flush=True)
            continue
        plain, _ = plan(arguments.tool, path, loss,
                        ["--planner", "program", "--recompute", "0", "--no-pass", "fuse-updates"])
        program = "" if isinstance(plain, str) else f"{plain['arena_bytes'] / 1e6:.1f}"
        arena = ours["arena_bytes"]
        reductions.setdefault("1" if batch == "1" else "32", []).append(1 - arena / reserved)
        planning = ours.get("planning_seconds", 0)
        print(f"| {name} | {batch} | {live / 1e6:.1f} | {reserved / 1e6:.1f} | {program} | "
              f"{arena / 1e6:.1f} | -{100 - 100 * arena / reserved:.1f} % | "
              f"-{100 - 100 * arena / live:.1f} % | {ours['lower_bound_bytes'] / 1e6:.1f} | "
              f"{'yes' if ours['proven_optimal'] else 'no'} | {planning:.2f} | {seconds:.1f} |",
              flush=True)
    for batch, values in sorted(reductions.items()):
        print(f"\nbatch {batch}{' or 16' if batch == '32' else ''}: {len(values)} networks, average "
              f"reduction against reserved {100 * sum(values) / len(values):.1f} %")


if __name__ == "__main__":
    main()
