// The program that runs a JavaScript program inside a sandbox; python_program.py describes what it reads and reports.
'use strict';
const fs = require('fs');
const path = require('path');
const { writeSync } = fs; // the program can replace those of the module

const FOLDER = 'artifacts';
const EXCEEDED = { EAGAIN: 'processes', EDQUOT: 'files', EFBIG: 'file_bytes', ENOSPC: 'scratch_bytes' };
const OUT_OF_MEMORY = 'Array buffer allocation failed';

const reportTo = Number(process.argv[1]);

function report(lines) {
  const text = Buffer.from(lines.map((line) => JSON.stringify(line) + '\n').join(''), 'utf8');
  for (let start = 0; start < text.length; ) start += writeSync(reportTo, text, start);
}

class Exceeded extends Error {
  constructor(limit, detail = '') {
    super(limit);
    this.line = { exceeded: limit, detail };
  }
}

class Refusal extends Error {}

function loadMain(code) {
  const module = { exports: {} };
  const names = ['exports', 'require', 'module', '__filename', '__dirname'];
  const source = `${code}\n;return typeof main === 'function' ? main : undefined;`;
  const body = require('vm').compileFunction(source, names, { filename: 'main.js' });
  const found = body.call(module.exports, module.exports, require, module, 'main.js', process.cwd());
  const exported = typeof module.exports === 'function' ? module.exports : module.exports && module.exports.main;
  const main = typeof exported === 'function' ? exported : found;
  if (typeof main !== 'function') throw new Refusal('The code must define a function main, or export it.');
  return main;
}

function toJson(value, limits) {
  if (typeof value === 'undefined') throw new Refusal('main() must return a value. Use null for an empty result.');
  const refusal = 'main must return a value that JSON can hold';
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new Refusal(`${refusal}: ${error.message}`);
  }
  if (typeof text === 'undefined') throw new Refusal(`${refusal}, not a ${typeof value}.`);
  if (Buffer.byteLength(text) > limits.result_bytes) throw new Exceeded('result_bytes');
  return text;
}

function artifacts(limits, folder = FOLDER, found = []) {
  const entries = fs.readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const file = path.join(folder, entry.name);
    const shown = path.relative(FOLDER, file);
    if (entry.isDirectory()) {
      artifacts(limits, file, found);
      continue;
    }
    if (found.length >= 2 * limits.artifacts) throw new Exceeded('artifacts');
    const isPermitted = limits.artifact_types.includes(path.extname(entry.name).toLowerCase());
    if (!entry.isFile() || !isPermitted) throw new Exceeded('artifact_types', shown);
    if (fs.statSync(file).size > limits.artifact_bytes) throw new Exceeded('artifact_bytes', shown);
    found.push({ artifact: shown }, fs.readFileSync(file).toString('base64'));
  }
  return found;
}

function fail(error) {
  if (error instanceof Exceeded) {
    report([error.line]);
  } else if (error instanceof Refusal) {
    process.stderr.write(`${error.message}\n`);
  } else {
    const limit = error && (error.message === OUT_OF_MEMORY ? 'memory_bytes' : EXCEEDED[error.code]);
    if (limit) report([{ exceeded: limit }]);
    process.stderr.write(`${(error && error.stack) || error}\n`);
  }
  process.exit(1);
}

async function run() {
  const { code, arguments: args, limits } = JSON.parse(fs.readFileSync(0, 'utf8'));
  fs.mkdirSync(FOLDER, { recursive: true });
  const value = toJson(await loadMain(code)(args), limits);
  report([...artifacts(limits), { value }]);
  process.exit(process.exitCode || 0);
}

process.on('uncaughtException', fail);
run().catch(fail);
