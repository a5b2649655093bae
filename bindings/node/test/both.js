'use strict';
// Makes a call with `laio/promises` and with `node:fs/promises`, each in a directory of its own, and
// compares.

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const laio = require('../promises.js');
const node = require('node:fs/promises');

/** A new directory, which is removed after the test. */
function directory(t) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'laio-node-'));
  t.after(() => fs.rmSync(made, { recursive: true, force: true }));
  return made;
}

/** What a call returns or throws, in a form that can be compared. */
async function outcome(call) {
  try {
    return { value: plain(await call()) };
  } catch (error) {
    const { name, message, code, errno, syscall, path: file, dest } = error;
    return { error: { name, message, code, errno, syscall, file, dest } };
  }
}

const CHANGING = /^(ino|dev|blocks|(a|m|c|birth)time(Ms|Ns)?)$/;

/** A value without what differs between two files: identity, blocks and times. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof fs.Dirent) return { name: plain(value.name), type: typesOf(value) };
  if (typeof value === 'string' || ArrayBuffer.isView(value)) return short(value);
  if (value === null || typeof value !== 'object') return value;
  const fields = Object.entries(value).filter(([key]) => !CHANGING.test(key));
  const types = typeof value.isFile === 'function' ? { types: typesOf(value) } : {};
  return { ...Object.fromEntries(fields.map(([key, field]) => [key, plain(field)])), ...types };
}

/** Data, or a digest of long data, so that a difference can be read. */
function short(data) {
  const length = data.byteLength ?? data.length;
  return length <= 200 ? data : { length, digest: createHash('sha1').update(data).digest('hex') };
}

const TYPES = [
  'isFile',
  'isDirectory',
  'isSymbolicLink',
  'isFIFO',
  'isSocket',
  'isBlockDevice',
  'isCharacterDevice',
];
const typesOf = (value) => TYPES.filter((type) => value[type]());

/** The names, modes and contents of everything below a directory. Names may have any bytes. */
function tree(root, prefix = '') {
  const names = fs.readdirSync(root, 'latin1').sort();
  return names.flatMap((name) => {
    const file = Buffer.concat([Buffer.from(root), Buffer.from('/'), Buffer.from(name, 'latin1')]);
    const stats = fs.lstatSync(file);
    const contents = stats.isFile() ? readable(file) : stats.isSymbolicLink() ? fs.readlinkSync(file) : '';
    const size = stats.isFile() ? stats.size : 0;
    const found = { name: prefix + name, mode: stats.mode, links: stats.nlink, size, contents };
    return stats.isDirectory() ? [found, ...tree(file, `${prefix}${name}/`)] : [found];
  });
}

function readable(file) {
  try {
    return short(fs.readFileSync(file, 'latin1'));
  } catch (error) {
    return error.code;
  }
}

/** Runs `call(module)` with both, in a directory that `prepare` fills, and compares results and files. */
async function same(t, what, prepare, call, modules = [laio, node]) {
  const found = [];
  const before = process.cwd();
  for (const module of modules) {
    const root = directory(t);
    process.chdir(root);
    try {
      await prepare?.(root);
      found.push({ ...(await outcome(() => call(module))), files: tree(root) });
    } finally {
      process.chdir(before);
      fs.rmSync(root, { recursive: true, force: true });
    }
  }
  assert.deepEqual(found[0], found[1], what);
  return found[0];
}

/** Why calls that never wait are not tested: only the usual back end attempts calls on files. */
const skipAttempts = process.env.LAIO_BACKEND ? `LAIO_BACKEND is ${process.env.LAIO_BACKEND}` : false;

module.exports = { skipAttempts, directory, laio, node, outcome, plain, same, tree };
