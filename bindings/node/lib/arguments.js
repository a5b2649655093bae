'use strict';
// The usual arguments of calls. Each function returns `undefined` for others: Node then makes the call, or
// its error.

const { constants } = require('node:fs');
const { fileURLToPath } = require('node:url');

const { O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_SYNC } = constants;
const FLAGS = new Map();
for (const [letter, own] of [
  ['r', O_RDONLY],
  ['w', O_TRUNC | O_CREAT],
  ['a', O_APPEND | O_CREAT],
]) {
  for (const plus of ['', '+']) {
    const flags = own | (plus ? O_RDWR : letter === 'r' ? O_RDONLY : O_WRONLY);
    const add = (mark, more) => {
      for (const name of [letter + mark, mark + letter]) FLAGS.set(name + plus, flags | more);
    };
    FLAGS.set(letter + plus, flags);
    if (letter !== 'w') add('s', O_SYNC);
    if (letter !== 'r') add('x', O_EXCL);
  }
}

function pathOf(path) {
  if (typeof path === 'string') return path.includes('\0') ? undefined : path;
  if (path instanceof Uint8Array) return path.includes(0) ? undefined : path;
  if (path instanceof URL) return pathOf(fileURLToPath(path));
  return undefined;
}

function flagsOf(flags) {
  if (typeof flags === 'string') return FLAGS.get(flags);
  if (flags == null) return O_RDONLY;
  return typeof flags === 'number' && flags === (flags | 0) ? flags : undefined;
}

function modeOf(mode, usual) {
  mode ??= usual;
  if (typeof mode === 'string' && /^[0-7]+$/.test(mode)) mode = parseInt(mode, 8);
  return isWhole(mode, 0, 2 ** 32 - 1) ? mode : undefined;
}

function isWhole(number, least, most) {
  return Number.isInteger(number) && number >= least && number <= most;
}

/** A number of a user or group. */
const isId = (id) => isWhole(id, -1, 2 ** 32 - 1);

/** A time in seconds. */
function timeOf(time) {
  if (typeof time === 'string' && +time == time) return +time;
  if (Number.isFinite(time)) return time < 0 ? Date.now() / 1000 : time;
  return time instanceof Date ? time.getTime() / 1000 : undefined;
}

/** Options with an encoding and a signal, which may be the name of the encoding alone. */
function optionsOf(options) {
  if (options == null || typeof options === 'function') return {};
  if (typeof options === 'string') options = { encoding: options };
  if (typeof options !== 'object') return undefined;
  const { encoding, signal } = options;
  if (encoding && encoding !== 'buffer' && !Buffer.isEncoding(encoding)) return undefined;
  if (signal !== undefined && !(signal instanceof AbortSignal)) return undefined;
  return options;
}

/** Bytes as Node returns them: text in an encoding, or the buffer, which nothing else uses. */
function decodedOwn(bytes, encoding) {
  return encoding && encoding !== 'buffer' ? bytes.toString(encoding) : bytes;
}

/** The same of memory that the next call uses. */
function decoded(bytes, encoding) {
  if (encoding && encoding !== 'buffer') return bytes.toString(encoding);
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}

module.exports = { pathOf, flagsOf, modeOf, isWhole, isId, timeOf, optionsOf, decoded, decodedOwn };
