'use strict';
// The functions of `node:fs/promises`. With arguments other than the usual ones, Node makes the call or its
// error.

const { randomBytes } = require('node:crypto');
const node = require('node:fs/promises');
const directory = require('./lib/directory.js');
const { copyTree } = require('./lib/copied_tree.js');
const whole = require('./lib/whole.js');
const { FileHandle } = require('./lib/file_handle.js');
const { openDirectory } = require('./lib/opened_directory.js');
const { engine, scratch, place, isDone, paced, settle, bytesOf } = require('./lib/engine.js');
const { decoded, decodedOwn, optionsOf, pathOf } = require('./lib/arguments.js');
const { flagsOf, modeOf, isWhole, isId, timeOf } = require('./lib/arguments.js');
const { checkAborted, failure, refuse } = require('./lib/errors.js');
const { makeStats, makeFsStats } = require('./lib/stats.js');

const ENOTDIR = -20;
const EEXIST = -17;
const SLASH = '/'.charCodeAt(0);
// What mkdtemp of the C library adds.
const SUFFIX = 6;
const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';

const isMissing = (...values) => values.includes(undefined);

async function open(file, flags, mode) {
  const [name, number, bits] = [pathOf(file), flagsOf(flags), modeOf(mode, 0o666)];
  if (isMissing(name, number, bits)) return node.open(file, flags, mode);
  return new FileHandle(await settle(engine.open(name, number, bits), 'open', name));
}

async function readFile(file, options) {
  const plain = optionsOf(options);
  if (file instanceof FileHandle) return plain ? file.readFile(plain) : refuse('readFile', [options]);
  const name = pathOf(file);
  const flag = plain?.flag || 'r';
  if (isMissing(name, plain, flagsOf(flag)) || plain.encoding === 'buffer')
    return node.readFile(file, options);
  const { signal } = plain;
  checkAborted(signal);
  const read = flag === 'r' ? await readSmall(name, plain) : await open(name, flag, 0o666);
  if (read instanceof FileHandle) return closing(read, () => whole.read(read, plain));
  checkAborted(signal);
  return paced(read);
}

// A buffer to read into is an option of newer releases.
const isPlainRead = ({ encoding, buffer }) => encoding !== 'buffer' && buffer === undefined;

/** The contents of a small file; otherwise an open file. */
async function readSmall(name, { encoding, signal }) {
  const answer = place(name) ? engine.readFilePlaced() : engine.readFile(name);
  const value = isDone(answer) ? answer : await settle(answer, 'open', name, undefined, signal);
  // Before anything is awaited: the next call uses the scratch memory.
  if (typeof value === 'number') return decoded(bytesOf(value), encoding);
  if (value instanceof Uint8Array) return decodedOwn(value, encoding);
  return new FileHandle(value);
}

/** Closes a file after a call. */
async function closing(handle, call) {
  let value;
  try {
    value = await call();
  } catch (error) {
    await handle.close();
    throw error;
  }
  await handle.close();
  return value;
}

async function writeFile(file, data, options) {
  return writeWith(node.writeFile, 'w', file, data, options);
}

async function appendFile(file, data, options) {
  return writeWith(node.appendFile, 'a', file, data, options);
}

async function writeWith(given, usual, file, data, options) {
  const plain = optionsOf(options);
  if (file instanceof FileHandle) return file.writeFile(data, options);
  const { flag, mode, flush } = plain ?? {};
  const bytes = plain && whole.dataOf(data, plain);
  const isFlag = flush == null || typeof flush === 'boolean';
  if (!isFlag || isMissing(pathOf(file), bytes, flagsOf(flag || usual), modeOf(mode, 0o666))) {
    return given(file, data, options);
  }
  checkAborted(plain.signal);
  const handle = await open(file, flag || usual, mode);
  return closing(handle, async () => {
    await whole.write(handle, bytes, plain);
    if (flush) await handle.sync();
  });
}

const NUMBERS = { bigint: false };

async function stat(file, options = NUMBERS) {
  const name = pathOf(file);
  if (name === undefined || options === null) return node.stat(file, options);
  const answer = place(name) ? engine.statPlaced() : engine.stat(name, true);
  return paced(makeStats(isDone(answer) ? answer : await settle(answer, 'stat', name), options.bigint));
}

async function lstat(file, options = NUMBERS) {
  const name = pathOf(file);
  if (name === undefined || options === null) return node.lstat(file, options);
  const answer = place(name) ? engine.lstatPlaced() : engine.stat(name, false);
  return paced(makeStats(isDone(answer) ? answer : await settle(answer, 'lstat', name), options.bigint));
}

async function access(file, mode) {
  const name = pathOf(file);
  if (name === undefined || !isWhole(mode ?? 0, 0, 7)) return node.access(file, mode);
  await settle(engine.access(name, mode ?? 0), 'access', name);
}

async function readdir(file, options) {
  const [name, plain] = [pathOf(file), optionsOf(options)];
  const isPlain =
    !plain?.recursive || (typeof name === 'string' && [undefined, 'utf8'].includes(plain.encoding));
  if (isMissing(name, plain) || !isPlain) return node.readdir(file, options);
  return directory.read(name, plain, { stat, lstat });
}

async function opendir(file, options) {
  const [name, plain] = [pathOf(file), optionsOf(options)];
  const { bufferSize = 1, recursive } = plain ?? {};
  // Node opens the directories below with calls that block.
  const isPlain = !recursive && isWhole(bufferSize, 1, 2 ** 32 - 1);
  if (isMissing(name, plain) || !isPlain) return node.opendir(file, options);
  return openDirectory(name, plain);
}

async function mkdir(file, options) {
  const given =
    typeof options === 'number' || typeof options === 'string' ? { mode: options } : options || {};
  const { recursive = false, mode = 0o777 } = given;
  const [name, bits] = [pathOf(file), modeOf(mode, 0o777)];
  const isPlain = typeof recursive === 'boolean' && (!recursive || typeof name === 'string');
  if (isMissing(name, bits) || !isPlain) return node.mkdir(file, options);
  if (recursive) return makeAll(name, bits);
  await settle(engine.mkdir(name, bits), 'mkdir', name);
}

/** Makes a directory and those above it, in the steps of Node. Returns the first one that it has made. */
async function makeAll(name, mode) {
  let first;
  const left = [name];
  while (left.length > 0) {
    const next = left.pop();
    const error = await errorOf(async () => settle(engine.mkdir(next, mode), 'mkdir', next));
    if (error === undefined) {
      first ??= next;
    } else if (error.code === 'ENOENT') {
      const above = next.slice(0, Math.max(next.lastIndexOf('/'), 0));
      if (above === '') throw error;
      left.push(next, above);
    } else if (['EACCES', 'ENOSPC', 'ENOTDIR', 'EPERM'].includes(error.code)) {
      throw error;
    } else {
      await checkDirectory(next, error.code === 'EEXIST' && left.length > 0);
    }
  }
  return first;
}

async function errorOf(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
}

/** Throws the error of `mkdir` for a name that exists. `isAbove`: another directory must be made in it. */
async function checkDirectory(name, isAbove) {
  let stats;
  const error = await errorOf(async () => {
    stats = await stat(name);
  });
  if (stats?.isDirectory()) return;
  throw failure(isAbove ? ENOTDIR : (error?.errno ?? EEXIST), 'mkdir', name);
}

async function rmdir(file, options) {
  const name = pathOf(file);
  if (name === undefined || options !== undefined) return node.rmdir(file, options);
  await settle(engine.rmdir(name), 'rmdir', name);
}

async function unlink(file) {
  const name = pathOf(file);
  if (name === undefined) return node.unlink(file);
  await settle(engine.unlink(name), 'unlink', name);
}

async function rename(from, to) {
  const names = [pathOf(from), pathOf(to)];
  if (isMissing(...names)) return node.rename(from, to);
  await settle(engine.rename(...names), 'rename', ...names);
}

async function link(from, to) {
  const names = [pathOf(from), pathOf(to)];
  if (isMissing(...names)) return node.link(from, to);
  await settle(engine.link(...names), 'link', ...names);
}

async function symlink(target, file, type) {
  const names = [pathOf(target), pathOf(file)];
  const isPlain = typeof type !== 'string' || ['file', 'dir', 'junction'].includes(type);
  if (isMissing(...names) || !isPlain) return node.symlink(target, file, type);
  await settle(engine.symlink(...names), 'symlink', ...names);
}

async function readlink(file, options) {
  const [name, plain] = [pathOf(file), optionsOf(options)];
  if (isMissing(name, plain)) return node.readlink(file, options);
  const answer = engine.readlink(name);
  const bytes = bytesOf(isDone(answer) ? answer : await settle(answer, 'readlink', name));
  return paced(plain.encoding === 'buffer' ? Buffer.from(bytes) : bytes.toString(plain.encoding || 'utf8'));
}

async function truncate(file, length = 0) {
  const handle = await open(file, 'r+');
  return closing(handle, () => handle.truncate(length));
}

async function chmod(file, mode) {
  const [name, bits] = [pathOf(file), modeOf(mode)];
  if (isMissing(name, bits)) return node.chmod(file, mode);
  await settle(engine.chmod(name, bits), 'chmod', name);
}

async function chown(file, user, group) {
  const name = pathOf(file);
  if (name === undefined || !isId(user) || !isId(group)) return node.chown(file, user, group);
  await settle(engine.chown(name, user, group, true), 'chown', name);
}

async function lchown(file, user, group) {
  const name = pathOf(file);
  if (name === undefined || !isId(user) || !isId(group)) return node.lchown(file, user, group);
  await settle(engine.chown(name, user, group, false), 'lchown', name);
}

async function utimes(file, accessed, modified) {
  const [name, ...times] = [pathOf(file), timeOf(accessed), timeOf(modified)];
  if (isMissing(name, ...times)) return node.utimes(file, accessed, modified);
  await settle(engine.utimes(name, ...times, true), 'utime', name);
}

async function lutimes(file, accessed, modified) {
  const [name, ...times] = [pathOf(file), timeOf(accessed), timeOf(modified)];
  if (isMissing(name, ...times)) return node.lutimes(file, accessed, modified);
  await settle(engine.utimes(name, ...times, false), 'lutime', name);
}

async function copyFile(from, to, mode) {
  const names = [pathOf(from), pathOf(to)];
  if (isMissing(...names) || !isWhole(mode ?? 0, 0, 7)) return node.copyFile(from, to, mode);
  await settle(engine.copyFile(...names, mode ?? 0), 'copyfile', ...names);
}

async function cp(from, to, options) {
  if (!(await copyTree(from, to, options, { lstat, realpath }))) return node.cp(from, to, options);
}

async function realpath(file, options) {
  const [name, plain] = [pathOf(file), optionsOf(options)];
  if (isMissing(name, plain)) return node.realpath(file, options);
  const answer = engine.realpath(name);
  const bytes = bytesOf(isDone(answer) ? answer : await settle(answer, 'realpath', name));
  const path = bytes.toString(plain.encoding === 'buffer' ? 'latin1' : plain.encoding || 'utf8');
  // The kernel says so of a file that is gone, and has no path for one outside of the root directory.
  const isUnclear = bytes[0] !== SLASH || bytes.toString('latin1').endsWith(' (deleted)');
  if (isUnclear) return node.realpath(file, options);
  return paced(plain.encoding === 'buffer' ? Buffer.from(path, 'latin1') : path);
}

async function statfs(file, options = NUMBERS) {
  const name = pathOf(file);
  if (name === undefined || options === null) return node.statfs(file, options);
  const answer = engine.statfs(name);
  return paced(makeFsStats(isDone(answer) ? answer : await settle(answer, 'statfs', name), options.bigint));
}

async function mkdtemp(prefix, options) {
  const [name, plain] = [pathOf(prefix), optionsOf(options)];
  const isPlain = typeof name === 'string' && name !== '' && !name.endsWith('X');
  if (!isPlain || ![undefined, null, 'utf8'].includes(plain?.encoding)) return node.mkdtemp(prefix, options);
  for (;;) {
    const chosen = name + Array.from(randomBytes(SUFFIX), (byte) => LETTERS[byte % LETTERS.length]).join('');
    const error = await errorOf(async () => settle(engine.mkdir(chosen, 0o700), 'mkdir', chosen));
    if (error === undefined) return chosen;
    if (error.code !== 'EEXIST') return node.mkdtemp(prefix, options);
  }
}

async function rm(file, options = {}) {
  const name = pathOf(file);
  // Node knows when to try again, and has errors of its own.
  const removed = name !== undefined && isRemoval(options) && (await isRemoved(name, options));
  if (!removed) return node.rm(file, options);
}

function isRemoval(options) {
  if (options === null || typeof options !== 'object') return false;
  const { force = false, recursive = false, maxRetries = 0, retryDelay = 0 } = options;
  const areFlags = typeof force === 'boolean' && typeof recursive === 'boolean';
  return areFlags && [maxRetries, retryDelay].every((number) => isWhole(number, 0, 2 ** 31 - 1));
}

async function isRemoved(name, { force, recursive }) {
  const error = await errorOf(() => unlink(name));
  if (error === undefined || (force && error.code === 'ENOENT')) return true;
  // A tree that is a part of its own name, as of `a/..`, depends on the order in which Node removes it.
  if (error.code !== 'EISDIR' || !recursive || Buffer.from(name).includes('..')) return false;
  // First the directory alone, as Node: of `.` nothing is removed.
  const refused = await errorOf(() => rmdir(name));
  if (refused?.code !== 'ENOTEMPTY') return refused === undefined;
  return (await errorOf(async () => settle(engine.removeTree(name), 'rm', name))) === undefined;
}

// Made by Node. Each name stands here, because Node finds the names of a module in its text.
const { constants, glob, lchmod, mkdtempDisposable, watch } = node;

module.exports = {
  access,
  appendFile,
  chmod,
  chown,
  copyFile,
  cp,
  link,
  lstat,
  lchown,
  lutimes,
  mkdir,
  mkdtemp,
  open,
  opendir,
  readFile,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
  symlink,
  truncate,
  unlink,
  utimes,
  writeFile,
  constants,
  lchmod,
  watch,
};
// Not in each release of Node.
for (const [name, made] of Object.entries({ glob, mkdtempDisposable })) {
  if (made !== undefined) module.exports[name] = made;
}
