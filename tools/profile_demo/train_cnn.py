#!/usr/bin/python3
"""Trains a small convolutional network with PyTorch on the CPU; the program that `run` measures.

    train_cnn.py REPORT.json [--steps N] [--batch N] [--threads N]

It does not know of onnx-memplan but for one thing: it calls onnx_memplan_profile_step at the end of
each step, where the process has that function. The data are random, from a fixed seed.
"""

import argparse
import ctypes
import hashlib
import json
import resource
import time

import torch
from torch import nn


def step_marker():
    """What tells a preloaded onnx_memplan library that a step has ended; nothing without one."""
    try:
        return ctypes.CDLL(None).onnx_memplan_profile_step
    except AttributeError:
        return lambda: None


def network():
    def block(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *block(3, 32), *block(32, 32), nn.MaxPool2d(2),
        *block(32, 64), *block(64, 64), nn.MaxPool2d(2),
        *block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(128, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    end_step = step_marker()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()

    losses, seconds, faults = [], [], []
    for _ in range(arguments.steps):
        begin = time.process_time()
        faults_before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        images = torch.randn(arguments.batch, 3, 32, 32)
        labels = torch.randint(10, (arguments.batch,))
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        seconds.append(time.process_time() - begin)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults_before)
        end_step()

    parameters = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    with open(arguments.report, "w") as report:
        json.dump({
            "losses": losses,
            "parameters": hashlib.sha256(parameters).hexdigest(),
            "step_cpu_seconds": seconds,
            "step_page_faults": faults,
            "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }, report)


if __name__ == "__main__":
    main()
