'use strict';
// Reading directories.

const fs = require('node:fs');
const path = require('node:path');
const { engine, scratch, isDone, paced, settle, bytesOf } = require('./engine.js');

// Each directory that is read has an open descriptor.
const MOST_TOGETHER = 32;

const { UV_DIRENT_UNKNOWN, UV_DIRENT_DIR, UV_DIRENT_LINK } = fs.constants;
const TYPES = [
  ['isFile', fs.constants.UV_DIRENT_FILE],
  ['isDirectory', UV_DIRENT_DIR],
  ['isSymbolicLink', UV_DIRENT_LINK],
  ['isFIFO', fs.constants.UV_DIRENT_FIFO],
  ['isSocket', fs.constants.UV_DIRENT_SOCKET],
  ['isCharacterDevice', fs.constants.UV_DIRENT_CHAR],
  ['isBlockDevice', fs.constants.UV_DIRENT_BLOCK],
];

/** The names of a directory, and a function for the type of each. */
async function list(directory, encoding = 'utf8') {
  const answer = engine.readdir(directory);
  return paced(unpack(isDone(answer) ? answer : await settle(answer, 'scandir', directory), encoding));
}

/** The names and types in an answer, before anything is awaited: the next call uses the scratch memory. */
function unpack(answer, encoding) {
  const bytes = bytesOf(answer);
  const count = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, IS_LITTLE);
  const types = Uint8Array.prototype.slice.call(bytes, 4, 4 + count);
  const text = bytes.subarray(4 + count);
  return { names: count === 0 ? [] : split(text, encoding), types };
}

const IS_LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

function split(text, encoding) {
  if (encoding === 'utf8' || encoding === 'utf-8') return text.toString().split('\0');
  const names = [];
  for (let begin = 0; begin <= text.length; ) {
    const end = text.indexOf(0, begin);
    const name = text.subarray(begin, end === -1 ? text.length : end);
    names.push(encoding === 'buffer' ? Buffer.from(name) : name.toString(encoding));
    begin = end === -1 ? text.length + 1 : end + 1;
  }
  return names;
}

function join(directory, name) {
  if (typeof directory === 'string' && typeof name === 'string') return path.join(directory, name);
  const start =
    typeof directory === 'string' ? path.join(directory, '/') : Buffer.concat([directory, Buffer.from('/')]);
  return Buffer.concat([Buffer.from(start), Buffer.from(name)]);
}

async function entries(directory, { names, types }, lstat) {
  const made = names.map((name, i) => new fs.Dirent(name, types[i], directory));
  for (let i = 0; i < names.length; i++) {
    if (types[i] !== UV_DIRENT_UNKNOWN) continue;
    const stats = await lstat(join(directory, names[i]));
    const [, type] = TYPES.find(([is]) => stats[is]()) ?? [];
    made[i] = new fs.Dirent(names[i], type ?? UV_DIRENT_UNKNOWN, directory);
  }
  return made;
}

/** `calls` are `stat` and `lstat`, for entries whose type the directory does not have. */
async function read(directory, { encoding, withFileTypes, recursive }, calls) {
  if (recursive) return readTree(directory, withFileTypes, calls);
  const listed = await list(directory, encoding ?? 'utf8');
  return withFileTypes ? entries(directory, listed, calls.lstat) : listed.names;
}

// In the order of Node. A name has no part that `path.join` would change, so it is only put behind the others.
async function readTree(root, withFileTypes, calls) {
  const found = [];
  const queue = [{ above: '', listed: await list(root) }];
  while (queue.length > 0) {
    const { above, listed } = queue.pop();
    const directory = path.join(root, above);
    const made = withFileTypes && (await entries(directory, listed, calls.lstat));
    const entered = [];
    for (const [i, name] of listed.names.entries()) {
      const below = above === '' ? name : `${above}/${name}`;
      found.push(withFileTypes ? made[i] : below);
      const enters = withFileTypes
        ? made[i].isDirectory()
        : await leadsToDirectory(directory, name, listed.types[i], calls);
      if (enters) entered.push(below);
    }
    await listAll(root, entered, queue);
  }
  return found;
}

/** Reads directories together, and appends them in their order. Throws the first error in this order. */
async function listAll(root, entered, queue) {
  for (let i = 0; i < entered.length; i += MOST_TOGETHER) {
    const some = entered.slice(i, i + MOST_TOGETHER);
    const outcomes = await Promise.allSettled(some.map((above) => list(path.join(root, above))));
    for (const [j, { reason, value }] of outcomes.entries()) {
      if (reason !== undefined) throw reason;
      queue.push({ above: some[j], listed: value });
    }
  }
}

async function leadsToDirectory(directory, name, type, { stat }) {
  if (type !== UV_DIRENT_LINK && type !== UV_DIRENT_UNKNOWN) return type === UV_DIRENT_DIR;
  return stat(path.join(directory, name)).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}

module.exports = { read, unpack };
