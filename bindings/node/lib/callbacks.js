'use strict';
// The functions of `node:fs` with a callback. An open file is the number of its descriptor; Node makes calls on
// numbers that are not of `open`.

const fs = require('node:fs');
const promises = require('../promises.js');
const { flagsOf, modeOf, pathOf } = require('./arguments.js');
const { opened } = require('./opened.js');

const value = (it) => [it];
const nothing = () => [];
const ifAny = (it) => (it === undefined ? [] : [it]);

/** Calls `callback` outside of the promise, so that its errors are not errors of the call. */
function answer(promise, callback, values) {
  promise.then(
    (result) => process.nextTick(callback, null, ...values(result)),
    (error) => process.nextTick(callback, error),
  );
}

/**
 * The function of this name, whose last argument is the callback. `make` gets the other ones, and returns a
 * promise; without one, Node makes the call or its error, as it does if the callback is missing.
 */
function withCallback(name, make, values) {
  return (...args) => {
    const callback = args.at(-1);
    const promise = typeof callback === 'function' ? make(...args.slice(0, -1)) : undefined;
    if (promise === undefined) return fs[name](...args);
    answer(promise, callback, values);
  };
}

const onName = (name, values) =>
  withCallback(
    name,
    (file, ...args) => (pathOf(file) === undefined ? undefined : promises[name](file, ...args)),
    values,
  );

const onFile = (name, method, values) =>
  withCallback(name, (fd, ...args) => opened.get(fd)?.[method](...args), values);

const onEither = (name, values) =>
  withCallback(
    name,
    (file, ...args) => {
      if (typeof file === 'number') return opened.get(file)?.[name](...args);
      return pathOf(file) === undefined ? undefined : promises[name](file, ...args);
    },
    values,
  );

const open = withCallback(
  'open',
  (file, flags, mode) => {
    const usual = [pathOf(file), flagsOf(flags), modeOf(mode, 0o666)];
    return usual.includes(undefined) ? undefined : opening(...usual);
  },
  value,
);

async function opening(name, flags, mode) {
  const handle = await promises.open(name, flags, mode);
  opened.set(handle.fd, handle);
  return handle.fd;
}

/** Closes a file. Without a callback, its error is thrown. */
function close(fd, callback = throwError) {
  const handle = opened.get(fd);
  if (handle === undefined || typeof callback !== 'function') return fs.close(fd, callback);
  opened.delete(fd);
  answer(handle.close(), callback, nothing);
}

function throwError(error) {
  if (error != null) throw error;
}

const access = onName('access', nothing);
const appendFile = onEither('appendFile', nothing);
const chmod = onName('chmod', nothing);
const chown = onName('chown', nothing);
const copyFile = onName('copyFile', nothing);
const cp = onName('cp', value);
const fchmod = onFile('fchmod', 'chmod', nothing);
const fchown = onFile('fchown', 'chown', nothing);
const fdatasync = onFile('fdatasync', 'datasync', nothing);
const fstat = onFile('fstat', 'stat', value);
const fsync = onFile('fsync', 'sync', nothing);
const ftruncate = onFile('ftruncate', 'truncate', nothing);
const futimes = onFile('futimes', 'utimes', nothing);
const lchown = onName('lchown', nothing);
const link = onName('link', nothing);
const lstat = onName('lstat', value);
const lutimes = onName('lutimes', nothing);
const mkdir = onName('mkdir', ifAny);
const mkdtemp = onName('mkdtemp', value);
const opendir = onName('opendir', value);
const read = onFile('read', 'read', ({ bytesRead, buffer }) => [bytesRead, buffer]);
const readFile = onEither('readFile', value);
const readdir = onName('readdir', value);
const readlink = onName('readlink', value);
const readv = onFile('readv', 'readv', ({ bytesRead, buffers }) => [bytesRead, buffers]);
const rename = onName('rename', nothing);
const rm = onName('rm', nothing);
const rmdir = onName('rmdir', nothing);
const stat = onName('stat', value);
const statfs = onName('statfs', value);
const symlink = onName('symlink', nothing);
const truncate = onName('truncate', nothing);
const unlink = onName('unlink', nothing);
const utimes = onName('utimes', nothing);
const write = onFile('write', 'write', ({ bytesWritten, buffer }) => [bytesWritten, buffer]);
const writeFile = onEither('writeFile', nothing);
const writev = onFile('writev', 'writev', ({ bytesWritten, buffers }) => [bytesWritten, buffers]);

// Node finds the names in the text.
module.exports = {
  access,
  appendFile,
  chmod,
  chown,
  close,
  copyFile,
  cp,
  fchmod,
  fchown,
  fdatasync,
  fstat,
  fsync,
  ftruncate,
  futimes,
  lchown,
  link,
  lstat,
  lutimes,
  mkdir,
  mkdtemp,
  open,
  opendir,
  read,
  readFile,
  readdir,
  readlink,
  readv,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
  symlink,
  truncate,
  unlink,
  utimes,
  write,
  writeFile,
  writev,
};
