#!/usr/bin/env python3
"""Makes the small networks in this folder, with an input and PyTorch's output beside each.

Needs Debian's python3-torch and python3-numpy; no data is downloaded. The weights are random from
a fixed seed, scaled by PyTorch's own initialisers: the networks are here to be compiled and
compared, not to recognise anything. Run it again only to change them: the files are committed.

    models/make_models.py [--out DIR] [NAME ...]

Each model is a folder: model.onnx, input_0.npy, output_0.npy (float32, batch 1).
"""
import argparse
import pathlib

import numpy as np
import torch
from torch import nn


class Lenet(nn.Module):
    """LeNet-5 with ReLU and max pooling, 28 x 28 digits."""

    shape = (1, 1, 28, 28)

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class SmallLenet(nn.Module):
    """The same layers, narrower: a network that trains in 64 KB with all that training needs."""

    shape = (1, 1, 28, 28)

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 5), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(200, 16), nn.ReLU(), nn.Linear(16, 10))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class DsCnn(nn.Module):
    """Depthwise-separable CNN for keyword spotting (Zhang et al., arXiv 1711.07128), 49 x 10."""

    shape = (1, 1, 49, 10)

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(1, 64, (10, 4), stride=2, padding=(5, 1)), nn.BatchNorm2d(64), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.BatchNorm2d(64), nn.ReLU(),
                       nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(64, 12)

    def forward(self, x):
        return torch.softmax(self.classifier(self.features(x).mean(dim=(2, 3))), dim=1)


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = (nn.Identity() if stride == 1 and inputs == outputs
                         else nn.Conv2d(inputs, outputs, 1, stride=stride))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class Resnet8(nn.Module):
    """The image classifier of MLPerf Tiny (Banbury et al., arXiv 2106.07597), 32 x 32 colour."""

    shape = (1, 3, 32, 32)
    keep_batch_norm = True  # as nodes of their own: folding them is the tool's work

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.Sequential(ResidualBlock(16, 16, 1), ResidualBlock(16, 32, 2),
                                    ResidualBlock(32, 64, 2))
        self.classifier = nn.Linear(64, 10)

    def forward(self, x):
        y = self.blocks(self.stem(x))
        return torch.softmax(self.classifier(torch.flatten(nn.functional.adaptive_avg_pool2d(y, 1), 1)),
                             dim=1)


class TinyTransformer(nn.Module):
    """Two encoder layers over 16 tokens of 32 features, then a classifier."""

    shape = (1, 16, 32)

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, 16, 32) * 0.02)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classifier = nn.Linear(32, 10)

    def forward(self, x):
        return self.classifier(self.encoder(x + self.position).mean(dim=1))


class Mlp(nn.Module):
    """A regressor small enough for any microcontroller."""

    shape = (1, 16)

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(),
                                    nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)


MODELS = {"lenet": Lenet, "lenet_small": SmallLenet, "ds_cnn": DsCnn, "resnet8": Resnet8,
          "tiny_transformer": TinyTransformer, "mlp": Mlp}


def spread_batch_norm(model):
    """Statistics and scales that a trained network could have, so that folding them is visible."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.3, 0.3)
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)


def make(name, out):
    torch.manual_seed(sum(name.encode()))
    model = MODELS[name]()
    spread_batch_norm(model)
    model.eval()
    x = torch.randn(*model.shape)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        y = model(x)
    keep = getattr(model, "keep_batch_norm", False)
    mode = torch.onnx.TrainingMode
    torch.onnx.export(model, x, str(folder / "model.onnx"), opset_version=17,
                      training=mode.PRESERVE if keep else mode.EVAL, do_constant_folding=not keep,
                      input_names=["input"], output_names=["output"])
    np.save(folder / "input_0.npy", x.numpy())
    np.save(folder / "output_0.npy", y.numpy())
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("names", nargs="*", default=[], metavar="NAME",
                        help=", ".join(MODELS) + "; default: all")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.names or MODELS:
        make(name, arguments.out)


if __name__ == "__main__":
    main()
