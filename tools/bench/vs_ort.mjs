#!/usr/bin/env node
// Times generated code against ONNX Runtime (all optimisations, both on as many threads, this machine)
// and prints a Markdown table of medians and ratios. The two take turns within one run, so that a machine that
// slows down slows both.
//
//   npm install --ignore-scripts onnxruntime-node       (anywhere; pass the folder as --ort)
//   tools/bench/vs_ort.mjs --ort DIR [--tool PATH] [--target x86-64-v3] [--flags "-O3 ..."]
//                          [--threads N] [--rounds N] [--seconds S] MODEL.onnx[=DATA_DIR] ...
//
// Input data: input_0.npy, ... beside the model (or in DATA_DIR) give the shapes; where there are
// none, zeros of the shapes in the file are used.
//
// ONNX Runtime is called through its Node binding. Its cost per call is measured with a network of one
// Identity node and printed below the table; the ratios include it, and a second mean leaves it out.
import { spawn, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { createRequire } from 'node:module';

function parseArguments(argv) {
  const options = { tool: 'build/release/tools/cli/onnx-memplan', target: 'x86-64-v3', rounds: 7, threads: 1,
                    seconds: 0.3, compiler: 'g++', flags: '', models: [] };
  for (let i = 0; i < argv.length; ++i) {
    const name = argv[i].startsWith('--') ? argv[i].slice(2) : null;
    if (name === null) options.models.push(argv[i]);
    else if (name === 'threads') options.threads = Number(argv[++i]);
    else if (name in options || name === 'ort') options[name] = argv[++i];
    else throw new Error(`unknown option ${argv[i]}`);
  }
  if (!options.ort || options.models.length === 0) throw new Error('see the head of this file');
  return options;
}

const DTYPES = {
  float: ['float32', Float32Array, '<f4'], double: ['float64', Float64Array, '<f8'],
  int64: ['int64', BigInt64Array, '<i8'], int32: ['int32', Int32Array, '<i4'],
  uint8: ['uint8', Uint8Array, '|u1'], int8: ['int8', Int8Array, '|i1'], bool: ['bool', Uint8Array, '|b1'],
};
const CPP = { float: 'float', double: 'double', int64: 'int64_t', int32: 'int32_t', uint8: 'uint8_t',
              int8: 'int8_t', bool: 'bool' };

// {dtype, shape, bytes} of a .npy file in C order.
function readNpy(file) {
  const data = fs.readFileSync(file);
  const start = data[6] === 1 ? 10 : 12;
  const headerBytes = data[6] === 1 ? data.readUInt16LE(8) : data.readUInt32LE(8);
  const header = data.toString('latin1', start, start + headerBytes);
  const descr = /'descr':\s*'([^']+)'/.exec(header)[1];
  const dtype = Object.keys(DTYPES).find((name) => DTYPES[name][2] === descr);
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)[1].split(',').map((s) => s.trim())
    .filter(Boolean).map(Number);
  return { dtype, shape, bytes: data.subarray(start + headerBytes) };
}

function findInputs(folder) {
  const inputs = [];
  while (fs.existsSync(path.join(folder, `input_${inputs.length}.npy`))) {
    inputs.push(readNpy(path.join(folder, `input_${inputs.length}.npy`)));
  }
  return inputs;
}

// Waits for one line on stdin, runs for the given seconds, prints the median seconds of a call.
function harness(report) {
  const lines = ['#include "net.h"', '#include <algorithm>', '#include <chrono>', '#include <cstdio>',
                 '#include <cstdlib>', '#include <vector>',
                 'static void* Read(const char* path, size_t bytes) {',
                 '  void* data = std::aligned_alloc(64, (bytes + 64) / 64 * 64);',
                 '  if (FILE* file = std::fopen(path, "rb")) {',
                 '    if (std::fread(data, 1, bytes, file) != bytes) std::exit(3);',
                 '    std::fclose(file);', '  }', '  return data;', '}',
                 'int main(int, char** argv) {', '  const double limit = std::atof(argv[1]);'];
  const args = [];
  report.inputs.forEach((tensor, i) => {
    lines.push(`  void* in${i} = Read("in${i}.bin", ${tensor.bytes});`);
    args.push(`static_cast<const ${CPP[tensor.dtype]}*>(in${i})`);
  });
  report.outputs.forEach((tensor, i) => {
    lines.push(`  void* out${i} = Read("/dev/null/none", ${tensor.bytes});`);
    args.push(`static_cast<${CPP[tensor.dtype]}*>(out${i})`);
  });
  lines.push('  using Clock = std::chrono::steady_clock;',
             '  while (std::getchar() != EOF) {', '    std::vector<double> times;',
             '    const auto start = Clock::now();',
             '    do {', '      const auto before = Clock::now();',
             `      if (net_run(${args.join(', ')}) != 0) return 4;`,
             '      times.push_back(std::chrono::duration<double>(Clock::now() - before).count());',
             '    } while (std::chrono::duration<double>(Clock::now() - start).count() < limit);',
             '    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());',
             '    std::printf("%.9g\\n", times[times.size() / 2]);', '    std::fflush(stdout);', '  }', '}');
  return lines.join('\n') + '\n';
}

const FLAGS = { 'generic': '-O2', 'x86-64-v3': '-O3 -march=x86-64-v3',
                'x86-64-v4': '-O3 -march=x86-64-v4 -mprefer-vector-width=512' };

class Generated {
  constructor(options, model, inputs, folder) {
    const shapes = [];
    this.options = options;
    const report = path.join(folder, 'report.json');
    for (const input of inputs) {
      if (input.name) shapes.push('--input-shape', `${input.name}=${input.shape.join('x')}`);
    }
    execFileSync(options.tool, [model, '--emit', path.join(folder, 'net.cpp'), '--report', report,
                                '--weights', 'incbin', '--target', options.target,
                                '--threads', String(options.threads), '-q', ...shapes]);
    this.report = JSON.parse(fs.readFileSync(report));
    fs.writeFileSync(path.join(folder, 'main.cpp'), harness(this.report));
    inputs.forEach((input, i) => fs.writeFileSync(path.join(folder, `in${i}.bin`), input.bytes));
    const flags = `-std=c++17 ${options.flags || FLAGS[options.target] || '-O2'}`.split(' ');
    const before = Date.now();
    const sources = ['net.cpp', 'main.cpp'];
    if (options.threads > 1) sources.push('net_threads.cpp', '-pthread');
    execFileSync(options.compiler, [...flags, ...sources, '-o', 'net'], { cwd: folder });
    this.compileSeconds = (Date.now() - before) / 1000;
    this.process = spawn('./net', [String(options.seconds)], { cwd: folder });
    this.lines = readline.createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }
  async time() {
    this.process.stdin.write('x');
    return Number((await this.lines.next()).value);
  }
  stop() { this.process.stdin.end(); }
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

class Runtime {
  static async make(ort, model, options) {
    const runtime = new Runtime();
    runtime.seconds = options.seconds;
    runtime.session = await ort.InferenceSession.create(model, {
      intraOpNumThreads: options.threads, interOpNumThreads: 1, graphOptimizationLevel: 'all',
      executionMode: 'sequential', executionProviders: ['cpu'] });
    return runtime;
  }
  setInputs(ort, inputs) {
    this.feeds = {};
    this.session.inputNames.forEach((name, i) => {
      const [type, Array_] = DTYPES[inputs[i].dtype];
      const bytes = inputs[i].bytes;
      const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
      this.feeds[name] = new ort.Tensor(type, new Array_(copy), inputs[i].shape);
    });
  }
  async time() {
    const times = [];
    const start = process.hrtime.bigint();
    do {
      const before = process.hrtime.bigint();
      await this.session.run(this.feeds);
      times.push(Number(process.hrtime.bigint() - before) / 1e9);
    } while (Number(process.hrtime.bigint() - start) / 1e9 < this.seconds);
    return median(times);
  }
}

// y = Identity(x) on one float, opset 13.
const IDENTITY = 'CAc6NwoQCgF4EgF5IghJZGVudGl0eRIBZ1oPCgF4EgoKCAgBEgQKAggBYg8KAXkSCgoICAESBAoCCAFCBAoAEA0=';

// Median seconds of a call that computes nothing.
async function callOverhead(ort, options) {
  const runtime = await Runtime.make(ort, Buffer.from(IDENTITY, 'base64'), options);
  runtime.setInputs(ort, [{ dtype: 'float', shape: [1], bytes: Buffer.alloc(4) }]);
  await runtime.time();
  return runtime.time();
}

async function measure(options, ort, text) {
  const [model, data] = text.split('=');
  const runtime = await Runtime.make(ort, model, options);
  const inputs = findInputs(data || path.dirname(model));
  if (inputs.length < runtime.session.inputNames.length) {
    throw new Error(`${model}: no input_${inputs.length}.npy`);
  }
  inputs.forEach((input, i) => { input.name = runtime.session.inputNames[i]; });
  runtime.setInputs(ort, inputs);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vs_ort_'));
  const generated = new Generated(options, model, inputs, folder);
  await generated.time();
  await runtime.time();
  const ours = [];
  const theirs = [];
  for (let round = 0; round < options.rounds; ++round) {
    ours.push(await generated.time());
    theirs.push(await runtime.time());
  }
  generated.stop();
  fs.rmSync(folder, { recursive: true });
  const ratios = ours.map((value, i) => value / theirs[i]);
  return { name: path.basename(model) === 'model.onnx' ? path.basename(path.dirname(model)) : path.basename(model),
           ours: median(ours), theirs: median(theirs), ratio: median(ratios),
           low: Math.min(...ratios), high: Math.max(...ratios), compile: generated.compileSeconds };
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  const ort = createRequire(path.resolve(options.ort, 'package.json'))('onnxruntime-node');
  console.log(`target ${options.target}, ${options.compiler} ${options.flags || FLAGS[options.target]}, ` +
              `threads: ${options.threads}, median of ${options.rounds} rounds of ${options.seconds} s`);
  console.log('\n| model | generated ms | ONNX Runtime ms | ratio | range | compile s |\n|---|---|---|---|---|---|');
  const rows = [];
  for (const model of options.models) {
    try {
      const row = await measure(options, ort, model);
      rows.push(row);
      console.log(`| ${row.name} | ${(row.ours * 1e3).toFixed(4)} | ${(row.theirs * 1e3).toFixed(4)} | ` +
                  `${row.ratio.toFixed(2)} | ${row.low.toFixed(2)}-${row.high.toFixed(2)} | ${row.compile.toFixed(1)} |`);
    } catch (error) {
      console.log(`| ${model} | failed: ${String(error.message).split('\n')[0]} | | | | |`);
    }
  }
  const overhead = await callOverhead(ort, options);
  console.log(`\nONNX Runtime's cost per call, included above: ${(overhead * 1e3).toFixed(4)} ms`);
  const mean = (values) => Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length).toFixed(2);
  const bare = rows.map((row) => row.ours / Math.max(row.theirs - overhead, 1e-9));
  console.log(`\ngeometric mean of the ratios: ${mean(rows.map((row) => row.ratio))} over ${rows.length} models; ` +
              `with that cost taken off ONNX Runtime's time: ${mean(bare)}`);
}

await main();
