'use strict';
// The functions of `node:fs` with a callback, its streams, and what Node does not have: calls without a promise,
// which return `undefined` if they would block.

const promises = require('./promises.js');
const { engine, scratch } = require('./lib/engine.js');
const { pathOf, optionsOf, decoded, decodedOwn } = require('./lib/arguments.js');
const { coded, failure } = require('./lib/errors.js');
const { makeStats } = require('./lib/stats.js');
const { readRanges } = require('./lib/ranges.js');

const EAGAIN = -11;

/** The contents of a file, as `readFile` gives them; `undefined` if that would block. */
function tryReadFile(file, options) {
  const name = checked(pathOf(file), 'path');
  const { encoding } = checked(optionsOf(options), 'options');
  const answer = engine.tryReadFile(name);
  if (answer === EAGAIN) return undefined;
  const value = succeeded(answer, 'open', name);
  if (typeof value === 'number') return decoded(scratch.subarray(0, value), encoding);
  if (value instanceof Uint8Array) return decodedOwn(value, encoding);
  // An open file whose size is not known, or whose first read has failed.
  engine.close(value.fd);
  return undefined;
}

/** The status of a file, as `stat` gives it; `undefined` if that would block. */
function tryStat(file, options = {}) {
  const name = checked(pathOf(file), 'path');
  const answer = engine.tryStat(name);
  if (answer === EAGAIN) return undefined;
  return makeStats(succeeded(answer, 'stat', name), options.bigint);
}

/** How the calls of the process were made so far. */
function stats() {
  const [inline, wouldBlock, notAttempted, handedOver, cancelled, pending] = engine.stats();
  return { inline, wouldBlock, notAttempted, handedOver, cancelled, pending };
}

function succeeded(answer, syscall, name) {
  if (typeof answer === 'number' && answer < 0) throw failure(answer, syscall, name);
  return answer;
}

function checked(argument, name) {
  if (argument !== undefined) return argument;
  throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument '${name}' is invalid.`);
}

// So that Node finds the names in the text.
module.exports = {
  ...require('./lib/callbacks.js'),
  ...require('./lib/detect.js'),
  ...require('./lib/static.js'),
  ...require('./lib/streams.js'),
  promises,
  readRanges,
  stats,
  tryReadFile,
  tryStat,
};
