#!/usr/bin/python3
"""One training step of generated code against PyTorch's eager step, one thread each.

    tools/bench/train_vs_torch.py [--build DIR] [--repetitions N] [--only NAME ...] [--check]
                                  [--target NAME] [--march NAME]

Both train the same network from the same parameters on the same batch, and take turns, one step
each, so that both see the same load of the machine; the figures are of the CPU time of the thread that
all of both runs in. PyTorch's step is zero_grad, forward, loss, backward, optimizer.step. --check: exit
status 1 where generated code is slower. Needs PyTorch for /usr/bin/python3 (Debian: python3-torch);
exit status 77 without it.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent

sys.dont_write_bytecode = True  # nothing beside training_nets.py
try:
    import torch
    import training_nets
except ImportError:
    print("train_vs_torch: skipped: no PyTorch (Debian: apt-get install python3-torch, /usr/bin/python3)")
    sys.exit(77)

MOMENTUM = ["--optimizer", "sgd", "--momentum", "0.9"]
ADAM = ["--optimizer", "adam", "--epsilon", "1e-5"]


def sgd(module):
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)


def adam(module):
    return torch.optim.Adam(module.parameters(), lr=0.001, eps=1e-5)


# name: module, batch, shape of an image, options of onnx-memplan, optimizer, learning rate, and
# whether batch normalization trains.
CASES = {
    "lenet": (training_nets.LeNet, 4, (1, 28, 28), MOMENTUM, sgd, 0.01, True),
    "resnet8, batch norm trained": (training_nets.ResNet8, 4, (3, 32, 32), MOMENTUM, sgd, 0.01, True),
    "resnet8, batch norm frozen": (training_nets.ResNet8, 4, (3, 32, 32), MOMENTUM, sgd, 0.01, False),
    "mixer": (training_nets.Mixer, 2, (3, 32, 32), ADAM, adam, 0.001, True),
}


class EagerStep:
    def __init__(self, module, optimizer, x, target):
        self.module, self.optimizer = module, optimizer
        self.x, self.target = torch.from_numpy(x), torch.from_numpy(target)
        self.loss = None

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = torch.nn.functional.cross_entropy(self.module(self.x), self.target)
        self.loss.backward()
        self.optimizer.step()


def compare(name, arguments, folder):
    """The medians in microseconds, ours and PyTorch's, and the difference of the last losses."""
    make, batch, shape, options, optimizer, learning_rate, trains = CASES[name]
    torch.manual_seed(1)
    module = make()
    training_nets.make_distinct(module)
    module.train(trains)
    x = torch.randn(batch, *shape).numpy()
    target = torch.randint(0, 10, (batch,)).numpy()
    folder.mkdir()
    training_nets.export(module, torch.from_numpy(x), folder / "model.onnx")
    batch_norm = ["--batch-norm", "train" if trains else "frozen"]
    training_nets.generate(arguments.build / "tools/cli/onnx-memplan", folder / "model.onnx", folder,
                           options + batch_norm + ["--target", arguments.target])
    ours = training_nets.Generated(
        folder, ["g++", "-std=c++17", "-O3", f"-march={arguments.march}"])
    eager = EagerStep(module, optimizer(module), x, target)
    times = ([], [])
    difference = 0.0
    for _ in range(arguments.repetitions):
        start = time.thread_time_ns()
        eager()
        middle = time.thread_time_ns()
        loss = ours.train_step(x, target, learning_rate)
        end = time.thread_time_ns()
        times[0].append((end - middle) / 1000)
        times[1].append((middle - start) / 1000)
        difference = max(difference, abs(loss - eager.loss.item()))
    warm = arguments.repetitions // 10
    return [statistics.median(t[warm:]) for t in times] + [min(t[warm:]) for t in times] + [difference]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build/release")
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--target", default="x86-64-v3")
    parser.add_argument("--march", default="x86-64-v3")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print("| network | batch | generated, us | PyTorch, us | ratio | of the fastest steps | largest difference of losses |\n"
          "|---|---|---|---|---|---|---|")
    slower = False
    with tempfile.TemporaryDirectory() as folder:
        for i, name in enumerate(CASES):
            if arguments.only and not any(part in name for part in arguments.only):
                continue
            ours, eager, ours_min, eager_min, difference = compare(
                name, arguments, pathlib.Path(folder) / str(i))
            slower = slower or ours > eager
            print(f"| {name} | {CASES[name][1]} | {ours:,.0f} | {eager:,.0f} | {ours / eager:.2f} | "
                  f"{ours_min / eager_min:.2f} | {difference:.1e} |", flush=True)
    sys.exit(1 if slower and arguments.check else 0)


if __name__ == "__main__":
    main()
