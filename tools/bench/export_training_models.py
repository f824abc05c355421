#!/usr/bin/python3
"""Exports the networks of OLLA's evaluation (arXiv 2210.12924) in training mode, for training_memory.

    tools/bench/export_training_models.py OUT_FOLDER [--only NAME ...] [--batch 1 32]

Needs python3-torch and python3-torchvision (Debian). Weights are random: only shapes matter. One
file OUT_FOLDER/NAME_BATCH.onnx for each network and batch.
"""

import argparse
import os

import torch
import torchvision

VISION = [
    "alexnet", "vgg11", "vgg16", "vgg19", "resnet18", "resnet50", "mobilenet_v2", "mnasnet0_5",
    "googlenet", "efficientnet_b0", "vit_b_16", "densenet121", "squeezenet1_0", "squeezenet1_1"
]
TEXT_BATCHES = {"transformer": {32: 16}, "bert_base": {32: 16}}


class Transformer(torch.nn.Module):
    """torch.nn.Transformer() with its defaults."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Transformer()

    def forward(self, source, target):
        return self.net(source, target)


class Bert(torch.nn.Module):
    """Embeddings, 12 encoder layers, 2 classes."""

    def __init__(self, length=256):
        super().__init__()
        self.words = torch.nn.Embedding(30522, 768)
        self.places = torch.nn.Embedding(512, 768)
        self.norm = torch.nn.LayerNorm(768)
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 12)
        self.head = torch.nn.Linear(768, 2)
        self.register_buffer("at", torch.arange(length))

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.places(self.at))
        return self.head(self.encoder(x)[:, 0])


def make(name, batch):
    """The module and its example inputs."""
    if name == "transformer":
        shape = (256, batch, 512)
        return Transformer(), (torch.zeros(shape), torch.zeros(shape))
    if name == "bert_base":
        return Bert(), (torch.zeros((batch, 256), dtype=torch.int64),)
    if name == "r3d_18":
        return torchvision.models.video.r3d_18(), (torch.zeros((batch, 3, 16, 112, 112)),)
    keywords = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(**keywords), (torch.zeros((batch, 3, 224, 224)),)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--only", nargs="*", default=VISION + ["r3d_18", "transformer", "bert_base"])
    parser.add_argument("--batch", nargs="*", type=int, default=[1, 32])
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    os.makedirs(arguments.out, exist_ok=True)
    for name in arguments.only:
        for batch in arguments.batch:
            batch = TEXT_BATCHES.get(name, {}).get(batch, batch)
            path = os.path.join(arguments.out, f"{name}_{batch}.onnx")
            if os.path.exists(path):
                continue
            module, inputs = make(name, batch)
            module.train()
            for part in module.modules():
                # Drops whole branches at random, which no static graph can do.
                if isinstance(part, torchvision.ops.StochasticDepth):
                    part.p = 0.0
            torch.onnx.export(
                module, inputs, path + ".part", opset_version=14, do_constant_folding=False,
                training=torch.onnx.TrainingMode.TRAINING)
            os.rename(path + ".part", path)
            print(path, flush=True)


if __name__ == "__main__":
    main()
