// The main module in Deno. It has no permission but to read Pyodide's folder, which it gives up before the program runs.
//
// It says that it is ready, reads `{program, files, request}` from standard input, and reports through the channel that
// Node.js has for child processes: one JSON value per line, as python_program.py describes.
import { createRequire } from 'node:module';
import { Buffer } from 'node:buffer';
import process from 'node:process';

const [language, folder] = Deno.args;
const HOME = '/tmp/run';
const NOBODY = 65534;

const send = (line) => new Promise((done) => process.send(line, done));

function print(number, bytes) {
  const stream = number === 1 ? Deno.stdout : Deno.stderr;
  for (let start = 0; start < bytes.length; ) start += stream.writeSync(bytes.subarray(start));
  return bytes.length;
}

const printError = (text) => print(2, new TextEncoder().encode(text));

async function readInput() {
  const text = await new Response(Deno.stdin.readable).text();
  if (!text) Deno.exit(0); // the host has ended, or needs no program
  return JSON.parse(text);
}

async function loadPython() {
  for (const name of ['getuid', 'geteuid', 'getgid', 'getegid']) process[name] = () => NOBODY;
  const { loadPyodide } = await import(new URL('pyodide.mjs', folder));
  const options = { indexURL: decodeURIComponent(new URL(folder).pathname) };
  const snapshot = new URL('snapshot.bin', folder);
  const python = await loadPyodide({ ...options, _loadSnapshot: Deno.readFileSync(snapshot) });
  Deno.permissions.revokeSync({ name: 'read', path: new URL('.', folder) });
  python.FS.chdir('/');
  const { FS } = python;
  for (const name of FS.readdir('/home').filter((entry) => !entry.startsWith('.'))) FS.rmdir(`/home/${name}`);
  FS.rmdir('/home');
  return python;
}

// Emscripten's files are limited only by memory.
function limitFiles(python, limits) {
  const { filesystems, ErrnoError } = python.FS;
  const memory = filesystems.MEMFS;
  const errno = python.pyimport('errno');
  const codes = { files: errno.EDQUOT, file: errno.EFBIG, scratch: errno.ENOSPC };
  const { write } = memory.ops_table.file.stream;
  const { unlink } = memory.ops_table.dir.node;
  const { createNode, resizeFileStorage } = memory;
  let files = 0;
  let bytes = 0;
  function grow(node, size) {
    const more = size - (node.usedBytes || 0);
    if (more <= 0) return;
    if (size > limits.file_bytes) throw new ErrnoError(codes.file);
    if (bytes + more > limits.scratch_bytes) throw new ErrnoError(codes.scratch);
    bytes += more;
  }
  memory.createNode = (...values) => {
    if (files >= limits.files) throw new ErrnoError(codes.files);
    files += 1;
    return createNode.apply(memory, values);
  };
  memory.resizeFileStorage = (node, size) => {
    grow(node, size);
    return resizeFileStorage.call(memory, node, size);
  };
  memory.ops_table.dir.node.unlink = (parent, name) => {
    const node = parent.contents[name];
    unlink(parent, name);
    files -= 1;
    bytes -= node.usedBytes || 0;
  };
  memory.ops_table.file.stream.write = (stream, buffer, offset, length, position, canOwn) => {
    if (length > 0) grow(stream.node, position + length);
    return write(stream, buffer, offset, length, position, canOwn);
  };
}

async function runPython(python, { program, request }) {
  let hasFailed = false; // Pyodide then prints what concerns only its developers
  console.error = () => (hasFailed = true);
  python.setStdout({ write: (bytes) => (hasFailed ? bytes.length : print(1, bytes)) });
  python.setStderr({ write: (bytes) => print(2, bytes) });
  python.setStdin({ error: true });
  limitFiles(python, request.limits);
  const globals = python.toPy({ __name__: 'sandbox' });
  try {
    python.runPython(program, { globals });
    const ending = globals.get('run_in_pyodide')(python.toPy(request));
    const [code, lines] = ending.toJs();
    for (const line of lines) await send(JSON.parse(line));
    Deno.exit(code);
  } catch (error) {
    if (typeof error.status === 'number') Deno.exit(error.status); // the program ended the interpreter
    const isDeep = error instanceof RangeError;
    printError(isDeep ? 'The code recurses too deeply, or its value is nested too deeply.\n' : `${error.message}\n`);
    Deno.exit(1);
  }
}

function runJavaScript({ program, files, request }) {
  const builtin = createRequire('file:///main.js');
  const memoryFiles = new Function(`${files}\nreturn memoryFiles;`)();
  const fs = memoryFiles({ limits: request.limits, home: HOME, print, path: builtin('path'), Buffer });
  const own = { fs, 'node:fs': fs, 'fs/promises': fs.promises, 'node:fs/promises': fs.promises };
  process.cwd = () => HOME;
  globalThis.Buffer ??= Buffer;
  const denoHost = {
    require: (name) => (Object.hasOwn(own, name) ? own[name] : builtin(name)),
    compile: (source, names) => new Function(...names, `${source}\n//# sourceURL=main.js`),
    readRequest: () => request,
    printError,
    async report(lines) {
      for (const line of lines) await send(line);
    },
  };
  addEventListener('unhandledrejection', (event) => {
    event.preventDefault();
    printError(`${event.reason?.stack ?? event.reason}\n`);
    Deno.exit(1);
  });
  new Function('denoHost', 'process', program)(denoHost, process);
}

const python = language === 'python' ? await loadPython() : undefined;
await send({ ready: true });
const input = await readInput();
if (python) await runPython(python, input);
else runJavaScript(input);
