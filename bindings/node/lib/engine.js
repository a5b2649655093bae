'use strict';
// Starts calls, and settles the promises of those that go on in the background.

const engine = require('./addon.js');
const { failure, abortError } = require('./errors.js');

// The lowest answer that is an error number; those below it are numbers of calls.
const LOWEST_ERROR = -4095;
// Small files, names of directories, targets of links and statuses are read into memory of this size, in bytes.
const SCRATCH_SIZE = 64 * 1024;
// The kernel takes no longer names.
const LONGEST_NAME = 4096;

// Its memory never moves: the engine keeps its address.
const scratch = Buffer.allocUnsafeSlow(SCRATCH_SIZE);
const waiting = new Map();
engine.start(scratch, () => {
  const answers = engine.collect();
  for (let i = 0; i < answers.length; i += 2) {
    const call = waiting.get(answers[i]);
    waiting.delete(answers[i]);
    // Nothing waits for the closing of a lost file.
    call?.end(answers[i + 1]);
  }
});

// Calls that do not wait let the event loop run after this many, if it has not run for so many ms.
const CALLS_PER_CHECK = 32;
const TURN = 1;
let calls = 0;
let began = performance.now();

/** A promise for the next turn of the event loop, if it is time for one. */
function turn() {
  if (++calls < CALLS_PER_CHECK) return undefined;
  calls = 0;
  const now = performance.now();
  if (now - began < TURN) return undefined;
  began = now;
  return new Promise((resolve) => {
    setImmediate(() => {
      began = performance.now();
      resolve();
    });
  });
}

/** The value of a call that did not wait, now or in the next turn of the event loop. */
function paced(value) {
  const next = turn();
  return next === undefined ? value : after(next, value);
}

// Apart, because a function that makes a closure costs more even if it makes none.
const after = (next, value) => next.then(() => value);

/** Places a name where calls without arguments find it, which cost less; false for one that must be passed. */
function place(name) {
  if (typeof name !== 'string' || name.length > LONGEST_NAME) return false;
  scratch[scratch.write(name)] = 0;
  return true;
}

const isDone = (answer) => typeof answer !== 'number' || answer >= 0;

/**
 * The value of an answer, or a promise for it: not for bytes in memory that the next call uses. Throws the error
 * of a call that has failed.
 */
function settle(answer, syscall, path, dest, signal) {
  if (isDone(answer)) return paced(answer);
  if (answer >= LOWEST_ERROR) {
    const error = failure(answer, syscall, path, dest);
    const next = turn();
    if (next === undefined) throw error;
    return next.then(() => Promise.reject(error));
  }
  return new Promise((resolve, reject) => {
    const abort = () => {
      waiting.delete(answer);
      engine.cancel(answer);
      reject(abortError(signal));
    };
    const end = (last) => {
      signal?.removeEventListener('abort', abort);
      if (isDone(last)) resolve(last);
      else reject(failure(last, syscall, path, dest));
    };
    waiting.set(answer, { end });
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** The bytes of an answer: in the scratch memory, if it is their number. */
const bytesOf = (value) => (typeof value === 'number' ? scratch.subarray(0, value) : value);

module.exports = { LOWEST_ERROR, engine, scratch, place, isDone, paced, settle, bytesOf };
