"""Networks that are trained by generated code and by PyTorch, and how to get from one to the other.

For scripts beside this one and in tools/: they compare a training step that onnx-memplan generates
with PyTorch's own, from the same initial parameters. Needs python3-torch (Debian 12).
"""

import ctypes
import pathlib
import re
import subprocess

import numpy
import torch


class LeNet(torch.nn.Module):
    """LeNet-5 with ReLU and max pooling: 61,706 parameters for 28 x 28 images."""

    def __init__(self):
        super().__init__()
        self.c1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.c2 = torch.nn.Conv2d(6, 16, 5)
        self.f1 = torch.nn.Linear(400, 120)
        self.f2 = torch.nn.Linear(120, 84)
        self.f3 = torch.nn.Linear(84, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.c1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.c2(x)), 2)
        x = torch.relu(self.f1(torch.flatten(x, 1)))
        return self.f3(torch.relu(self.f2(x)))


def conv_norm(inputs, outputs, stride=1):
    return torch.nn.Sequential(
        torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(outputs))


class ResNet8(torch.nn.Module):
    """The image classifier of MLPerf Tiny, with batch normalization: 32 x 32 colour images."""

    def __init__(self):
        super().__init__()
        self.stem = conv_norm(3, 16)
        self.a1, self.a2 = conv_norm(16, 16), conv_norm(16, 16)
        self.b1, self.b2 = conv_norm(16, 32, 2), conv_norm(32, 32)
        self.bs = torch.nn.Conv2d(16, 32, 1, 2)
        self.c1, self.c2 = conv_norm(32, 64, 2), conv_norm(64, 64)
        self.cs = torch.nn.Conv2d(32, 64, 1, 2)
        self.fc = torch.nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = torch.relu(x + self.a2(torch.relu(self.a1(x))))
        x = torch.relu(self.bs(x) + self.b2(torch.relu(self.b1(x))))
        x = torch.relu(self.cs(x) + self.c2(torch.relu(self.c1(x))))
        return self.fc(x.mean((2, 3)))


class MixerBlock(torch.nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.n1, self.n2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.t1, self.t2 = torch.nn.Linear(tokens, 32), torch.nn.Linear(32, tokens)
        self.c1, self.c2 = torch.nn.Linear(width, 64), torch.nn.Linear(64, width)

    def forward(self, x):
        gelu = torch.nn.functional.gelu
        y = self.t2(gelu(self.t1(self.n1(x).transpose(1, 2))))
        x = x + y.transpose(1, 2)
        return x + self.c2(gelu(self.c1(self.n2(x))))


class Mixer(torch.nn.Module):
    """A small MLP-Mixer: 16 patches of 8 x 8 x 3, width 16, two blocks."""

    def __init__(self):
        super().__init__()
        self.e = torch.nn.Conv2d(3, 16, 8, 8)
        self.b = torch.nn.ModuleList(MixerBlock(16, 16) for _ in range(2))
        self.fc = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = self.e(x).flatten(2).transpose(1, 2)
        for block in self.b:
            x = block(x)
        return self.fc(x.mean(1))


def make_distinct(module):
    """Noise on what starts as ones and zeros: PyTorch's exporter writes equal tensors once, and
    the parameters that share one would be trained as one."""
    for part in module.modules():
        if isinstance(part, (torch.nn.BatchNorm2d, torch.nn.LayerNorm)):
            with torch.no_grad():
                for tensor in list(part.parameters()) + [b for b in part.buffers() if b.is_floating_point()]:
                    tensor += 0.1 * torch.rand_like(tensor)


def export(module, example, path):
    """Writes `module` with its parameters, in training mode where it is in training mode."""
    # EVAL would put batch normalization into the weights, and other parameters would be trained.
    mode = torch.onnx.TrainingMode.PRESERVE
    # Tracing runs the module once: running statistics are put back.
    saved = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    torch.onnx.export(module, example, str(path), opset_version=17, training=mode,
                      do_constant_folding=False, input_names=["x"], output_names=["y"])
    module.load_state_dict(saved)


def generate(tool, model, folder, options, name="net"):
    """Runs onnx-memplan --train; its standard output."""
    if not pathlib.Path(tool).exists():
        raise SystemExit(f"{tool} is missing; build it, or name the build with --build")
    command = [str(tool), str(model), "--train", "--emit", str(pathlib.Path(folder) / f"{name}.cpp")]
    result = subprocess.run(command + options, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command + options)}\n{result.stdout}{result.stderr}")
    return result.stdout


class Generated:
    """A generated network, compiled and loaded."""

    def __init__(self, folder, compiler, name="net"):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.header = (self.folder / f"{name}.h").read_text()
        library = self.folder / f"lib{name}.so"
        subprocess.run(compiler + ["-shared", "-fPIC", "-o", str(library),
                                   str(self.folder / f"{name}.cpp")], check=True)
        self.library = ctypes.CDLL(str(library))
        self.step_function = self.library[f"{name}_train_step"]
        self.loss = ctypes.c_float()
        self.call("reset")

    def macro(self, suffix):
        return int(re.search(rf"#define {self.name.upper()}_{suffix} (\d+)", self.header)[1])

    def call(self, function, *arguments):
        status = self.library[f"{self.name}_{function}"](*arguments)
        if status != 0:
            raise SystemExit(f"{self.name}_{function} returns {status}")

    def train_step(self, x, target, learning_rate):
        """One step on C-contiguous arrays; the loss before it."""
        self.call("train_step", ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(target.ctypes.data),
                  ctypes.c_float(learning_rate), ctypes.byref(self.loss))
        return self.loss.value

    def infer(self, x, outputs):
        y = numpy.empty(outputs, numpy.float32)
        self.call("infer", ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
        return y

    def parameters(self):
        """Parameters and statistics by name: what the table in the header says of the blob."""
        blob = numpy.empty(self.macro("PARAMETERS_BYTES"), numpy.uint8)
        self.call("get_parameters", ctypes.c_void_p(blob.ctypes.data))
        rows = re.findall(r"^ \* +(\d+) +(\d+)  float (\S+)  (\S+)", self.header, re.MULTILINE)
        return {name: blob[int(at):int(at) + int(size)].view(numpy.float32).copy()
                for at, size, _, name in rows}
