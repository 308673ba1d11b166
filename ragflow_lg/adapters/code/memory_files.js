// Files in memory for JavaScript programs in Deno: what Node.js's module fs offers for whole files.
'use strict';

const CODES = {
  ENOENT: 'no such file or directory',
  EEXIST: 'file already exists',
  ENOTDIR: 'not a directory',
  EISDIR: 'illegal operation on a directory',
  ENOTEMPTY: 'directory not empty',
  EBADF: 'bad file descriptor',
  EFBIG: 'file too large',
  ENOSPC: 'no space left on device',
  EDQUOT: 'too many files',
};

function failure(code, call, name) {
  const error = new Error(`${code}: ${CODES[code]}, ${call} '${name}'`);
  return Object.assign(error, { code, syscall: call, path: name });
}

class Entry {
  constructor(name, content) {
    this.name = name;
    this.content = content; // a Map of entries, or the bytes of a file
    this.time = new Date();
  }
  get size() {
    return this.content instanceof Map ? 0 : this.content.length;
  }
  get mtime() {
    return this.time;
  }
  isDirectory() {
    return this.content instanceof Map;
  }
  isFile() {
    return !this.isDirectory();
  }
  isSymbolicLink() {
    return false;
  }
}

// Return the module fs for files below `home`. `print` writes bytes to standard output (1) or standard error (2).
function memoryFiles({ limits, home, print, path, Buffer }) {
  const root = new Entry('/', new Map());
  let files = 0;
  let bytes = 0;

  const parts = (name) => path.resolve(home, String(name instanceof URL ? name.pathname : name)).split('/').filter(Boolean);

  function find(name, call) {
    let entry = root;
    for (const part of parts(name)) {
      if (!entry.isDirectory()) throw failure('ENOTDIR', call, name);
      entry = entry.content.get(part);
      if (!entry) throw failure('ENOENT', call, name);
    }
    return entry;
  }

  function folderOf(name, call) {
    const folder = find(path.dirname('/' + parts(name).join('/')), call);
    if (!folder.isDirectory()) throw failure('ENOTDIR', call, name);
    return folder;
  }

  function add(folder, name, content) {
    if (files + 1 > limits.files) throw failure('EDQUOT', 'open', name);
    files += 1;
    const entry = new Entry(name, content);
    folder.content.set(name, entry);
    return entry;
  }

  function remove(folder, entry) {
    for (const inner of entry.isDirectory() ? entry.content.values() : []) remove(entry, inner);
    bytes -= entry.size;
    files -= 1;
    folder.content.delete(entry.name);
  }

  function store(name, content) {
    if (content.length > limits.file_bytes) throw failure('EFBIG', 'write', name);
    const folder = folderOf(name, 'open');
    const last = parts(name).at(-1);
    const old = folder.content.get(last);
    if (!last || (old && old.isDirectory())) throw failure('EISDIR', 'open', name);
    if (bytes - (old ? old.size : 0) + content.length > limits.scratch_bytes) throw failure('ENOSPC', 'write', name);
    const entry = old || add(folder, last, new Uint8Array());
    bytes += content.length - entry.size;
    entry.content = content;
    entry.time = new Date();
  }

  const encodingOf = (options) => (typeof options === 'string' ? options : options && options.encoding);
  const toBytes = (data, options) =>
    typeof data === 'string' ? Buffer.from(data, encodingOf(options) || 'utf8') : Buffer.from(data.buffer ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : data);

  const calls = {
    writeFile(name, data, options) {
      if (options && options.flag === 'a') return calls.appendFile(name, data, options);
      if (name === 1 || name === 2) return print(name, toBytes(data, options));
      return store(name, Uint8Array.from(toBytes(data, options)));
    },
    appendFile(name, data, options) {
      const old = calls.exists(name) ? calls.readFile(name) : Buffer.alloc(0);
      store(name, Uint8Array.from(Buffer.concat([old, toBytes(data, options)])));
    },
    readFile(name, options) {
      const entry = find(name, 'open');
      if (entry.isDirectory()) throw failure('EISDIR', 'read', name);
      const content = Buffer.from(entry.content);
      const encoding = encodingOf(options);
      return encoding ? content.toString(encoding) : content;
    },
    write(number, data) {
      if (number !== 1 && number !== 2) throw failure('EBADF', 'write', number);
      const content = toBytes(data);
      print(number, content);
      return content.length;
    },
    mkdir(name, options) {
      let folder = root;
      const all = parts(name);
      all.forEach((part, index) => {
        const inner = folder.content.get(part);
        const isLast = index === all.length - 1;
        if (inner ? !inner.isDirectory() || (isLast && !(options && options.recursive)) : !isLast && !(options && options.recursive))
          throw failure(inner ? 'EEXIST' : 'ENOENT', 'mkdir', name);
        folder = inner || add(folder, part, new Map());
      });
    },
    readdir(name, options) {
      const entry = find(name, 'scandir');
      if (!entry.isDirectory()) throw failure('ENOTDIR', 'scandir', name);
      return options && options.withFileTypes ? [...entry.content.values()] : [...entry.content.keys()];
    },
    stat: (name) => find(name, 'stat'),
    lstat: (name) => find(name, 'lstat'),
    access: (name) => void find(name, 'access'),
    unlink(name) {
      const entry = find(name, 'unlink');
      if (entry.isDirectory()) throw failure('EISDIR', 'unlink', name);
      remove(folderOf(name, 'unlink'), entry);
    },
    rmdir(name) {
      const entry = find(name, 'rmdir');
      if (!entry.isDirectory()) throw failure('ENOTDIR', 'rmdir', name);
      if (entry.content.size) throw failure('ENOTEMPTY', 'rmdir', name);
      remove(folderOf(name, 'rmdir'), entry);
    },
    rm(name, options) {
      if (options && options.force && !calls.exists(name)) return;
      const entry = find(name, 'rm');
      if (entry.isDirectory() && !(options && options.recursive)) throw failure('EISDIR', 'rm', name);
      remove(folderOf(name, 'rm'), entry);
    },
    rename(from, to) {
      const content = calls.readFile(from);
      calls.unlink(from);
      store(to, Uint8Array.from(content));
    },
    copyFile: (from, to) => store(to, Uint8Array.from(calls.readFile(from))),
    exists(name) {
      try {
        return Boolean(find(name, 'access'));
      } catch {
        return false;
      }
    },
  };

  calls.mkdir(home, { recursive: true });
  const fs = { promises: {}, constants: {} };
  for (const [name, call] of Object.entries(calls)) {
    fs[`${name}Sync`] = call;
    fs.promises[name] = async (...values) => call(...values);
    fs[name] = (...values) => {
      const done = values.pop();
      fs.promises[name](...values).then((value) => done(null, value), done);
    };
  }
  return fs;
}
